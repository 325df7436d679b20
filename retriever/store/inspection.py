"""Looks for damage in the database, and names it row by row. Changes nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from retriever.core.errors import IndexDamagedError
from retriever.core.fingerprint import content_hash
from retriever.core.types import Ids
from retriever.store.batches import as_ids
from retriever.store.checksums import REPAIR, BrokenSeal, Seals, document_checksum, vector_checksum
from retriever.store.connection import Connections
from retriever.store.units import Units

_BATCH = 2000
_COUNTED = "SELECT COUNT(*), SUM(content_id)"
_LISTED = "FROM vectors INDEXED BY sqlite_autoindex_vectors_1 WHERE view_id = ?"
_OF_WHOLES = "SELECT SUM(whole_id) FROM units INDEXED BY sqlite_autoindex_units_1"
_JSON = {
    ("documents", "metadata"): "object",
    ("vectors", "words"): "array",
    ("settings", "value"): None,
    ("generations", "handle"): "object",
    ("generations", "details"): "object",
    ("runs", "statistics"): "object",
    ("runs", "versions"): "object",
    ("clusterings", "document"): "object",
    ("heads", "document"): "object",
    ("edits", "change"): "object",
}


@dataclass(frozen=True, slots=True)
class DamagedVector:
    """A vector's row that is not what was stored."""

    vector_id: int
    view_id: int
    content_id: int


@dataclass(frozen=True, slots=True)
class Orphan:
    """A row that refers to one that is not there."""

    table: str
    rowid: int
    parent: str


@dataclass(frozen=True, slots=True)
class RowDamage:
    """Rows that are not what was stored.

    Attributes:
        texts: content ids.
        documents: what stands in the place of the id, by rowid.
        units: content ids of texts of documents whose units are wrong, or not all there.
        vectors: rows of any view.
        seals: rows of the catalogue.
    """

    texts: list[int]
    documents: Mapping[int, str]
    units: list[int]
    vectors: list[DamagedVector]
    seals: list[BrokenSeal]


class Inspection:
    """Checks of a database for damage."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections
        self._documents_listed = False

    def require_documents_listed(self) -> None:
        """Refuse a database whose index of documents by text lists others than the table, which would hide hits.

        Looked at once: damage comes while a file lies there. The index and the table are read once, 0.2 s a million.

        Raises:
            IndexDamagedError: the numbers of documents or units, or the sums of their texts' ids, differ.
        """
        if self._documents_listed:
            return
        with self._db.snapshot():
            table = self._db.row(f"{_COUNTED} FROM documents NOT INDEXED")
            index = self._db.row(f"{_COUNTED} FROM documents INDEXED BY documents_by_content WHERE content_id >= 0")
            units = self._db.row(f"{_COUNTED}, SUM(whole_id) FROM units NOT INDEXED")
            by_content = self._db.row(f"{_COUNTED} FROM units INDEXED BY units_by_content WHERE content_id >= 0")
            by_whole = self._db.row(f"{_OF_WHOLES} WHERE whole_id >= 0")
        if table != index or units != (*(by_content or ()), *(by_whole or ())):
            raise self._hidden("documents")
        self._documents_listed = True

    def require_vectors_listed(self, view_id: int, content_ids: Ids, live: Ids) -> None:
        """Refuse a database whose indexes disagree about the vectors of a view, which would hide hits.

        Args:
            view_id: the view.
            content_ids: (n,) contents of its generation and of the tail, which another index lists.
            live: the contents that have a document; `compact` may have removed others since the generation was made.

        Raises:
            IndexDamagedError: a vector is in one index alone.
        """
        known = (len(content_ids), int(content_ids.sum()) if len(content_ids) else None)
        if self._db.row(f"{_COUNTED} {_LISTED}", (view_id,)) == known:
            return
        listed = as_ids(self._db.rows(f"SELECT content_id {_LISTED}", (view_id,)))
        lacking = np.intersect1d(np.setdiff1d(content_ids, listed), live)
        if len(lacking) or len(np.setdiff1d(listed, content_ids)):
            raise self._hidden("vectors")

    def _hidden(self, what: str) -> IndexDamagedError:
        return IndexDamagedError(f"{self._db.path} is damaged: an index of SQLite's hides {what}.", hint=REPAIR)

    def structure(self, *, quick: bool = False) -> list[str]:
        """List damage to pages, tables and references; ``quick`` does not compare indexes with tables."""
        try:
            orphans = self.orphans()
        except IndexDamagedError as error:
            return [error.message]
        return self.pages(quick=quick) + [
            f"a row of {one.table} refers to a missing row of {one.parent}" for one in orphans
        ]

    def pages(self, *, quick: bool = False) -> list[str]:
        """List damage to pages and tables; ``quick`` does not compare indexes with tables."""
        try:
            rows = self._db.rows(f"PRAGMA {'quick' if quick else 'integrity'}_check")
        except IndexDamagedError as error:
            return [error.message]
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def orphans(self) -> list[Orphan]:
        """Return the rows that refer to one that is not there, each once, in the order of their tables."""
        rows = self._db.rows("PRAGMA foreign_key_check")
        return list({(table, rowid): Orphan(table, rowid, parent) for table, rowid, parent, _ in rows}.values())

    def words_differ(self) -> bool:
        """Whether the word index is not that of the texts; the store must be writable."""
        try:
            self._db.write("INSERT INTO contents_words (contents_words, rank) VALUES ('integrity-check', 1)")
        except IndexDamagedError:
            return True
        return False

    def rows(self) -> RowDamage:
        """Return the rows that differ from their checksum; the structure has to be whole."""
        with self._db.snapshot(), self._db.escaped_text():
            units = Units(self._db).damaged()
            return RowDamage(list(self._texts()), dict(self._documents()), units, list(self._vectors()), self.seals())

    def foreign_json(self) -> list[str]:
        """Return which columns hold something else than the JSON we write; checksums do not tell who wrote it."""
        found = []
        for (table, column), kind in _JSON.items():
            wrong = f"NOT json_valid({column}) OR json_type({column}) != COALESCE(?, json_type({column}))"
            if self._db.number(f"SELECT COUNT(*) FROM {table} WHERE {column} IS NOT NULL AND ({wrong})", (kind,)):
                found.append(f"a row of {table} has a {column} that is no JSON {kind or 'value'}")
        return found

    def vectors(self, vector_ids: Sequence[int]) -> list[DamagedVector]:
        """Read which view and content the rows of the given vectors name."""
        found = [
            self._db.row("SELECT vector_id, view_id, content_id FROM vectors WHERE vector_id = ?", (one,))
            for one in vector_ids
        ]
        return [DamagedVector(*row) for row in found if row is not None]

    def seals(self) -> list[BrokenSeal]:
        """Return the rows of the catalogue that differ from their seal."""
        return Seals(self._db).broken()

    def _texts(self) -> Iterator[int]:
        for content_id, text, digest in self._all(
            "SELECT content_id, text, hash FROM contents WHERE content_id > ? ORDER BY content_id LIMIT ?"
        ):
            if content_hash(text) != digest:
                yield content_id

    def _documents(self) -> Iterator[tuple[int, str]]:
        for rowid, id, content_id, metadata, checksum in self._all(
            "SELECT rowid, id, content_id, metadata, checksum FROM documents WHERE rowid > ? ORDER BY rowid LIMIT ?"
        ):
            if document_checksum(id, content_id, metadata) != checksum:
                yield rowid, id

    def _vectors(self) -> Iterator[DamagedVector]:
        for vector_id, view_id, content_id, vector, words, checksum in self._all(
            "SELECT vector_id, view_id, content_id, vector, words, checksum FROM vectors "
            "WHERE vector_id > ? ORDER BY vector_id LIMIT ?"
        ):
            if vector_checksum(view_id, content_id, vector, words) != checksum:
                yield DamagedVector(vector_id, view_id, content_id)

    def _all(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement that goes on behind an integer key, its first column."""
        after = -1
        while rows := self._db.rows(sql, (after, _BATCH)):
            yield from rows
            after = rows[-1][0]
