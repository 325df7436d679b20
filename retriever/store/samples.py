"""How far the random order of texts was read for each view and each selection of documents."""

from collections.abc import Sequence

from retriever.core.types import Ids
from retriever.store.columns import content_batches
from retriever.store.connection import Table


class SampleTable(Table):
    """The thresholds of samples: texts are drawn whose permanent random number is at most that."""

    def threshold(self, view_id: int, *populations: str) -> float:
        """Return the largest threshold that was stored for a view and one of some populations; 0 for none.

        A population is named by the filter of its documents, empty for all.
        """
        marks = ",".join("?" * len(populations))
        row = self._db.row(
            f"SELECT MAX(threshold) FROM samples WHERE view_id = ? AND population IN ({marks})", (view_id, *populations)
        )
        return float(row[0] or 0.0) if row else 0.0

    def extend(self, view_id: int, population: str, threshold: float) -> None:
        """Store a threshold, unless a larger one is stored."""
        with self._db.writing(data=False):
            self._db.write(
                "INSERT INTO samples (view_id, population, threshold) VALUES (?, ?, ?) ON CONFLICT "
                "(view_id, population) DO UPDATE SET threshold = MAX(threshold, excluded.threshold)",
                (view_id, population, threshold),
            )

    def hashes(self, content_ids: Sequence[int] | Ids) -> list[bytes]:
        """Return the hashes of stored texts, in the order of their ids as given."""
        rows = self._db.rows_of(
            content_batches(content_ids),
            "SELECT hash FROM json_each(?) AS each CROSS JOIN contents ON content_id = each.value",
        )
        return [row[0] for row in rows]
