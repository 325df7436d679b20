"""Damage in the database: found and named row by row, and taken out; what follows from other rows is made anew."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from retriever.core.errors import IndexDamagedError
from retriever.core.fingerprint import content_hash
from retriever.core.text import counted
from retriever.core.types import Document, Ids
from retriever.store.answers import AnswerTable
from retriever.store.checking import metadata_fields
from retriever.store.checksums import BrokenSeal, Seals, document_checksum, vector_checksum
from retriever.store.clusterings import ClusteringTable, EditTable
from retriever.store.columns import as_ids, stored_json
from retriever.store.connection import Table
from retriever.store.parts import Parts
from retriever.store.schema import dangling
from retriever.store.sources import SourceTable
from retriever.store.views import Views

_BATCH = 2000
_COUNTED = "SELECT COUNT(*), SUM(content_id)"
_LISTED = "FROM vectors INDEXED BY sqlite_autoindex_vectors_1 WHERE view_id = ?"
_JSON = {
    ("documents", "metadata"): "object",
    ("vectors", "words"): "array",
    ("vectors", "windows"): "array",
    ("settings", "value"): None,
    ("generations", "handle"): "object",
    ("generations", "details"): "object",
    ("runs", "statistics"): "object",
    ("runs", "versions"): "object",
    ("clusterings", "document"): "object",
    ("sources", "state"): "object",
    ("sources", "needs"): "array",
    ("edits", "change"): "object",
}


@dataclass(frozen=True, slots=True)
class RowDamage:
    """Rows that are not what was stored.

    Attributes:
        texts: content ids.
        documents: those that differ, or whose text does or is missing: what stands in the place of the id, by rowid.
        divided: ids of other documents whose parts differ or are not all there; they can be divided again.
        vectors: rows of any view: which vectors they say they are, by vector id.
        seals: rows of the catalogue.
        clusterings: what stands in the place of the name, by rowid.
        sources: made views of which what makes them differs.
        answers: the questions that they answer, by rowid.
    """

    texts: Sequence[int]
    documents: Mapping[int, str]
    divided: Sequence[str]
    vectors: Mapping[int, str]
    seals: Sequence[BrokenSeal]
    clusterings: Mapping[int, str]
    sources: Sequence[int]
    answers: Mapping[int, str]

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))


class Inspection(Table):
    """Checks of a database for damage, which change nothing."""

    _documents_listed = False

    def require_documents_listed(self) -> None:
        """Refuse a database whose index of documents by text lists others than the table, which would hide hits.

        Looked at once: damage comes while a file lies there. The index and the table are read once, 0.2 s a million.

        Raises:
            IndexDamagedError: the numbers of documents or of parts, or the sums of their texts' ids, differ.
        """
        if self._documents_listed:
            return
        with self._db.snapshot():
            table = self._db.row(f"{_COUNTED}, SUM(parts), COUNT(parent), SUM(number) FROM documents NOT INDEXED")
            by_content = self._db.row(
                f"{_COUNTED} FROM documents INDEXED BY documents_by_content WHERE content_id >= 0"
            )
            divided = self._db.row("SELECT SUM(parts) FROM documents INDEXED BY documents_divided WHERE parts > 0")
            by_parent = self._db.row(
                "SELECT COUNT(*), SUM(number) FROM documents INDEXED BY documents_by_parent WHERE parent IS NOT NULL"
            )
        listed = (*(by_content or ()), *(divided or ()), *(by_parent or ()))
        if [number or 0 for number in table or ()] != [number or 0 for number in listed]:
            raise self.hidden("documents")
        self._documents_listed = True

    def require_vectors_listed(self, view_id: int, content_ids: Ids, live: Ids) -> None:
        """Refuse a database whose indexes disagree about the vectors of a view, which would hide hits.

        Args:
            view_id: the view.
            content_ids: (n,) contents of its generation and of the tail, which another index lists.
            live: the contents that have a document; `repair` may have removed others since the generation was made.

        Raises:
            IndexDamagedError: a vector is in one index alone.
        """
        known = (len(content_ids), int(content_ids.sum()) if len(content_ids) else None)
        if self._db.row(f"{_COUNTED} {_LISTED}", (view_id,)) == known:
            return
        listed = as_ids(self._db.rows(f"SELECT content_id {_LISTED}", (view_id,)))
        lacking = np.intersect1d(np.setdiff1d(content_ids, listed), live)
        if len(lacking) or len(np.setdiff1d(listed, content_ids)):
            raise self.hidden("vectors")

    def hidden(self, what: str) -> IndexDamagedError:
        """Return the error of rows that the tables hold and an index of SQLite's does not list."""
        return self._db.damaged(f"an index of SQLite's hides {what}")

    def structure(self, *, quick: bool = False) -> list[str]:
        """List damage to pages, tables and references; ``quick`` does not compare indexes with tables."""
        try:
            orphans = self.orphans()
        except IndexDamagedError as error:
            return [error.message]
        missing = [
            f"{counted(count, 'row')} of {table} without the row referred to" for table, count in orphans.items()
        ]
        return self.pages(quick=quick) + missing

    def pages(self, *, quick: bool = False) -> list[str]:
        """List damage to pages and tables; ``quick`` does not compare indexes with tables."""
        try:
            rows = self._db.rows(f"PRAGMA {'quick' if quick else 'integrity'}_check")
        except IndexDamagedError as error:
            return [error.message]
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def orphans(self) -> dict[str, int]:
        """Count the rows that refer to one that is not there, by table; tables without such rows are left out."""
        counts = {
            table: self._db.number(f"SELECT COUNT(*) FROM {table} NOT INDEXED WHERE {dangles}")
            for table, dangles in dangling().items()
        }
        return {table: count for table, count in counts.items() if count}

    def words_differ(self) -> bool:
        """Whether the word index is not that of the texts; the store must be writable."""
        try:
            self._db.write("INSERT INTO contents_fts (contents_fts, rank) VALUES ('integrity-check', 1)")
        except IndexDamagedError:
            return True
        return False

    def rows(self) -> RowDamage:
        """Return the rows that differ from their checksum; the structure has to be whole."""
        with self._db.snapshot(), self._db.escaped_text():
            texts = list(self._texts())
            damaged = list(self._documents(set(texts)))
            lost = {rowid: id for rowid, id, parent in damaged if parent is None}
            wrong = {parent for *_, parent in damaged if parent is not None} | {*Parts(self._db).lacking()}
            return RowDamage(
                texts,
                lost,
                sorted(wrong - {*lost.values()}),
                dict(self._vectors()),
                Seals(self._db).broken(),
                ClusteringTable(self._db).damaged(),
                SourceTable(self._db).damaged(),
                AnswerTable(self._db).damaged(),
            )

    def foreign_json(self) -> list[str]:
        """Return which columns hold something else than the JSON we write; checksums do not tell who wrote it."""
        foreign = []
        for (table, column), kind in _JSON.items():
            wrong = f"NOT json_valid({column}) OR json_type({column}) != COALESCE(?, json_type({column}))"
            if self._db.number(f"SELECT COUNT(*) FROM {table} WHERE {column} IS NOT NULL AND ({wrong})", (kind,)):
                foreign.append(f"a row of {table} has a {column} that is no JSON {kind or 'value'}")
        return foreign

    def _texts(self) -> Iterator[int]:
        for content_id, text, digest in self._all(
            "SELECT content_id, text, hash FROM contents WHERE content_id > ? ORDER BY content_id LIMIT ?"
        ):
            if content_hash(text) != digest:
                yield content_id

    def _documents(self, damaged_texts: Set[int]) -> Iterator[tuple[int, str, str | None]]:
        """Yield rowid, id and parent of the documents that differ."""
        for rowid, *row, checksum, text in self._all(
            "SELECT documents.rowid, id, parent, number, start, stop, parts, documents.content_id, metadata, checksum, "
            "contents.content_id FROM documents LEFT JOIN contents USING (content_id) WHERE documents.rowid > ? "
            "ORDER BY documents.rowid LIMIT ?"
        ):
            if document_checksum(row) != checksum or text is None or text in damaged_texts:
                yield rowid, row[0], row[1]

    def _vectors(self) -> Iterator[tuple[int, str]]:
        for vector_id, view_id, content_id, vector, words, windows, checksum in self._all(
            "SELECT vector_id, view_id, content_id, vector, words, windows, checksum FROM vectors "
            "WHERE vector_id > ? ORDER BY vector_id LIMIT ?"
        ):
            if vector_checksum(view_id, content_id, vector, words, windows) != checksum:
                yield vector_id, f"vector of text {content_id} in view {view_id}"

    def _all(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement that goes on behind an integer key, its first column."""
        after = -1
        while rows := self._db.rows(sql, (after, _BATCH)):
            yield from rows
            after = rows[-1][0]


_AGAIN = {
    "view": "complete its question again",
    "setting": "set it again",
    "choice": "choose again who answers its question",
    "edit": "look over the clustering that it and those after it were made in",
}
"""Remedy for a row of the catalogue that is gone, by kind; those of the other kinds are made anew."""


class Mending(Table):
    """The changes that `retriever repair` makes to the tables. Every method joins the caller's transaction."""

    def reindex(self) -> None:
        """Make SQLite's own indexes anew from the tables."""
        self._db.write("REINDEX")

    def remove(self, damage: RowDamage) -> list[str]:
        """Take damaged rows out, and rows that refer to missing ones.

        Returns:
            What nothing in the index can replace, each with what to do about it.
        """
        with self._db.writing(documents=True):
            lost = [f"document {id!r}: index it again" for id in damage.documents.values()]
            self._delete("documents", damage.documents)
            Parts(self._db).remove(damage.divided)
            gone = {
                table: self._db.write(f"DELETE FROM {table} WHERE {dangles}") for table, dangles in dangling().items()
            }
            if gone["quarantine"]:
                lost.append(f"{counted(gone['quarantine'], 'row')} in quarantine of an unknown run")
            self._delete("contents", damage.texts)
            self._delete("vectors", damage.vectors)
            self._delete("clusterings", damage.clusterings)
            lost += [f"clustering {name!r}: cluster again and save it" for name in damage.clusterings.values()]
            self._delete("answers", damage.answers)
            lost += [f"an answer to {question!r}: read it again" for question in damage.answers.values()]
            lost += [line for seal in damage.seals for line in self._remove_sealed(seal)]
            if any(seal.kind == "field" for seal in damage.seals):
                self._rebuild_fields()
            self._db.write("UPDATE generations SET active = 0 WHERE view_id NOT IN (SELECT view_id FROM views)")
            self._db.write("UPDATE views SET removals = removals + 1")
        return lost

    def remove_views(self, view_ids: Sequence[int]) -> list[str]:
        """Take out views whose vectors can no longer be made, with all that is made of them, and hidden ones unneeded.

        Returns:
            As `remove`.
        """
        views = {view.view_id: view.key.instruction for view in Views(self._db).all()}
        gone = Views(self._db).drop(*view_ids)
        instructions = dict.fromkeys(views.get(view_id) for view_id in gone)  # a row of a missing view is gone already
        return [f"what {instruction!r} was taught: teach it again" for instruction in instructions if instruction]

    def _remove_sealed(self, seal: BrokenSeal) -> Iterator[str]:
        """Take out a row of the catalogue and yield what is lost with it."""
        if seal.kind == "edit":
            EditTable(self._db).remove_from([int(seal.key)])
        elif seal.kind != "field":
            Seals(self._db).remove(seal)
        if seal.kind in _AGAIN:
            yield f"{seal.kind} {seal.key}: {_AGAIN[seal.kind]}"

    def _rebuild_fields(self) -> None:
        """Make the list of metadata fields anew from the documents."""
        self._db.write("DELETE FROM fields")
        for (text,) in self._db.rows("SELECT metadata FROM documents WHERE parent IS NULL"):
            fields = metadata_fields(Document("", "", stored_json(text)))
            self._db.write_many("INSERT INTO fields VALUES (?, ?) ON CONFLICT DO NOTHING", fields)

    def _delete(self, table: str, rowids: Iterable[int]) -> None:
        self._db.write_many(f"DELETE FROM {table} WHERE rowid = ?", [(rowid,) for rowid in rowids])
