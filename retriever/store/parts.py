"""The documents that are parts of others: whether there are any, and how they divide their parents."""

from collections.abc import Iterable

from retriever.core.types import Span
from retriever.store.columns import HASH_BATCH, id_batches
from retriever.store.connection import Table

_DIVIDED = "documents INDEXED BY documents_divided WHERE parts > 0"


class Parts(Table):
    """The parts that an index's documents are divided into; false where there are none."""

    def __bool__(self) -> bool:
        return self._db.row(f"SELECT 1 FROM {_DIVIDED} LIMIT 1") is not None

    def reach(self, documents: int) -> int:
        """Return how many embedded texts are of at least so many texts of documents, if there are as many.

        The first of a ranking could all be parts of the documents that have most.
        """
        others = max(0, min(documents - 1, 1 << 62))
        parts, divided = self._db.row(
            f"SELECT COALESCE(SUM(most), 0), COUNT(*) FROM (SELECT MAX(parts) AS most FROM {_DIVIDED} "
            "GROUP BY content_id ORDER BY most DESC LIMIT ?)",
            (others,),
        ) or (0, 0)
        return 1 + int(parts) + others - int(divided)

    def known(self, hashes: Iterable[bytes]) -> dict[bytes, list[Span]]:
        """Return how a document with the text of a hash is divided, for every hash of such a text.

        A document of whose parts some are gone is not looked at.
        """
        wanted, divisions = list(hashes), dict[bytes, list[Span]]()
        for first in range(0, len(wanted), HASH_BATCH):
            batch = wanted[first : first + HASH_BATCH]
            marks = ",".join("?" * len(batch))
            rows = self._db.rows(
                "SELECT hash, start, stop FROM (SELECT hash, MIN(id) AS first FROM contents "
                f"JOIN documents USING (content_id) WHERE hash IN ({marks}) AND parts > 0 AND parts = "
                "(SELECT COUNT(*) FROM documents AS part WHERE part.parent = documents.id) GROUP BY hash) "
                "CROSS JOIN documents ON parent = first ORDER BY hash, number",
                batch,
            )
            for digest, start, stop in rows:
                divisions.setdefault(digest, []).append(Span(start, stop))
        return divisions

    def lacking(self) -> list[str]:
        """Return the ids of divided documents of whose parts some are gone, ascending."""
        rows = self._db.rows(
            f"SELECT id FROM {_DIVIDED} AND id IS NOT NULL AND parts != "
            "(SELECT COUNT(*) FROM documents AS part WHERE part.parent = documents.id) ORDER BY id"
        )
        return [row[0] for row in rows]

    def remove(self, parents: Iterable[str]) -> None:
        """Remove the parts of documents; the texts stay."""
        with self._db.writing(documents=True):
            self._db.write_of(
                id_batches(parents), "DELETE FROM documents WHERE parent IN (SELECT value FROM json_each(?))"
            )
