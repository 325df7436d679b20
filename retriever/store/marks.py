"""The hits of a query that somebody wants more of, or less of, kept for the next time it is asked."""

from collections.abc import Iterable, Mapping

from retriever.core.text import require_text
from retriever.core.types import Marks
from retriever.store.connection import Connections, utc_now


class MarkTable:
    """The marks of the index, by query and instruction."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def get(self, query: str, instruction: str) -> Marks:
        """Return what is marked under a query and an instruction."""
        rows = self._db.rows(
            "SELECT document_id, liked FROM marks WHERE query = ? AND instruction = ? ORDER BY mark_id",
            (query, instruction),
        )
        return Marks(tuple(id for id, liked in rows if liked), tuple(id for id, liked in rows if not liked))

    def put(self, query: str, instruction: str, liked: Mapping[str, bool | None]) -> None:
        """Mark documents as liked or not; None takes a mark away. All of them or none.

        Raises:
            UsageError: query, instruction or an id is no text.
        """
        require_text(query, instruction, *liked)
        now = utc_now()
        with self._db.writing(data=False):
            self._db.write_many(
                "DELETE FROM marks WHERE query = ? AND instruction = ? AND document_id = ?",
                [(query, instruction, id) for id in liked],
            )
            self._db.write_many(
                "INSERT INTO marks (query, instruction, document_id, liked, made) VALUES (?, ?, ?, ?, ?)",
                [(query, instruction, id, int(one), now) for id, one in liked.items() if one is not None],
            )

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove marks by their row."""
        self._db.write_many("DELETE FROM marks WHERE mark_id = ?", [(one,) for one in numbers])
