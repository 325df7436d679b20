"""Copying a range of contents into a database of its own, with all that belongs to them and under the same ids."""

import json
from pathlib import Path

import numpy as np

from retriever.core.types import Ids
from retriever.store.batches import as_ids
from retriever.store.connection import Connections

_VIEW = "view_id, fingerprint, instruction, pooling, steps, look_ahead, dtype, dim, created, last_used, lazy, removals"
_COPIES = (
    "INSERT INTO contents SELECT content_id, hash, text FROM source.contents "
    "WHERE content_id BETWEEN :first AND :last ORDER BY content_id",
    "INSERT INTO documents SELECT id, content_id, metadata, checksum FROM source.documents "
    "WHERE content_id BETWEEN :first AND :last ORDER BY rowid",
    "INSERT INTO fields SELECT name, path FROM source.fields",
    f"INSERT INTO views ({_VIEW}) SELECT {_VIEW} FROM source.views WHERE view_id <= :last_view",
    "INSERT INTO vectors SELECT vector_id, view_id, content_id, vector, words, checksum FROM source.vectors "
    "WHERE content_id BETWEEN :first AND :last AND vector_id <= :last_vector AND view_id <= :last_view "
    "ORDER BY vector_id",
    "INSERT INTO settings SELECT key, value FROM source.settings",
    "INSERT INTO similarities SELECT view_id, vectors, quantiles FROM source.similarities WHERE view_id <= :last_view",
    "DELETE FROM sqlite_sequence WHERE name IN ('contents', 'vectors', 'views')",
    "INSERT INTO sqlite_sequence SELECT name, seq FROM source.sqlite_sequence "
    "WHERE name IN ('contents', 'vectors', 'views')",
)


class Parts:
    """What splitting an index asks of its database."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def documents_by_content(self) -> tuple[Ids, Ids]:
        """Return the contents that have a document, ascending, and how many documents each has: (n,), (n,)."""
        rows = self._db.rows("SELECT content_id, COUNT(*) FROM documents GROUP BY content_id ORDER BY content_id")
        return as_ids(rows), np.fromiter((row[1] for row in rows), np.int64, len(rows))

    def last_ids(self) -> dict[str, int]:
        """Return the largest id ever given to a content, a vector and a view, by the names of their tables."""
        return {"contents": 0, "vectors": 0, "views": 0} | dict(
            self._db.rows("SELECT name, seq FROM sqlite_sequence WHERE name IN ('contents', 'vectors', 'views')")
        )

    def owned(self, content_ids: Ids) -> Ids:
        """Return those of some contents that are stored here, ascending."""
        return as_ids(
            self._db.rows(
                "SELECT content_id FROM contents WHERE content_id IN (SELECT value FROM json_each(?)) "
                "ORDER BY content_id",
                (json.dumps(content_ids.tolist()),),
            )
        )

    def take(self, source: Path, first: int, last: int, last_ids: dict[str, int]) -> None:
        """Fill this empty database with the contents of another whose ids lie in a range, and all that is theirs.

        Views, settings, metadata fields and distributions come whole. The other one's documents must not change.

        Args:
            source: the other database file.
            first: the first content id.
            last: the last content id.
            last_ids: the other's `last_ids`; vectors and views that came after them are left out.
        """
        given = {"first": first, "last": last, "last_view": last_ids["views"], "last_vector": last_ids["vectors"]}
        self._db.write("ATTACH DATABASE ? AS source", (f"{source.absolute().as_uri()}?mode=ro",))
        try:
            with self._db.writing(documents=True):
                for statement in _COPIES:
                    self._db.raw.execute(statement, given)
        finally:
            self._db.write("DETACH DATABASE source")
