"""Documents over distinct contents: equal texts are stored once, while every document keeps its own id and metadata."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retriever.core.fingerprint import content_hash
from retriever.core.types import Document, Ids, child_id
from retriever.store.checking import ROW, CheckedDocument, Row, as_documents, as_row, checked, same_rows
from retriever.store.checksums import document_checksum
from retriever.store.columns import BATCH, HASH_BATCH, as_ids, content_batches, id_batches
from retriever.store.connection import Connections, Table
from retriever.store.field_types import FieldTypes
from retriever.store.filter_tree import Compiled
from retriever.store.filters import Filter
from retriever.store.word_index import WordIndex, match_expression

_MATCHES = (  # a condition that one of the text's documents meets follows, and a closing bracket
    "SELECT rowid AS content_id, -bm25(contents_fts) AS score FROM contents_fts WHERE contents_fts MATCH ? "
    "AND EXISTS (SELECT 1 FROM documents WHERE documents.content_id = contents_fts.rowid AND parts = 0 AND"
)
_FIRST = "SELECT MIN(COALESCE(parent, id)) FROM documents WHERE documents.content_id = found.content_id AND parts = 0"
_PAGE = 1000  # documents that are read at a time
_STORED = "id, parent, number, start, stop, parts, content_id, metadata"


@dataclass(frozen=True, slots=True)
class Upserted:
    """The result of an upsert.

    Attributes:
        added: documents with a new id.
        updated: documents whose text or metadata changed.
        unchanged: documents already stored exactly so.
        content_ids: one per document given, in the same order.
        embedded: the content id of every text that is embedded for them.
    """

    added: int
    updated: int
    unchanged: int
    content_ids: list[int]
    embedded: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LexicalHit:
    """A text found by its words; a higher score is better, and scores of two queries do not compare."""

    content_id: int
    score: float


class Documents(Table):
    """The index's documents; ``types`` are those of their fields."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self.types = FieldTypes(connections)

    def __len__(self) -> int:
        return self._db.number(
            "SELECT (SELECT COUNT(*) FROM documents) - (SELECT COUNT(*) FROM documents WHERE parent IS NOT NULL)"
        )

    def count_to(self, most: int) -> int:
        """Count the documents that are no parts, but no further than ``most``: a million take milliseconds."""
        most = min(most, 1 << 62)
        return self._db.number("SELECT COUNT(*) FROM (SELECT 1 FROM documents WHERE parent IS NULL LIMIT ?)", (most,))

    def count_embedded(self) -> int:
        """Count the documents that are embedded: those that are not divided, and the parts of the others."""
        return self._db.number(
            "SELECT (SELECT COUNT(*) FROM documents) - (SELECT COUNT(*) FROM documents WHERE parts > 0)"
        )

    def ids(self) -> Iterator[str]:
        """Yield the id of every document that is no part, in ascending order; the documents may change meanwhile."""
        last = ""
        while rows := self._db.rows("SELECT id FROM documents WHERE id > ? ORDER BY id LIMIT ?", (last, BATCH)):
            if not all(isinstance(row[0], str) for row in rows):
                raise self._db.damaged("an id is no text")
            yield from (row[0] for row in rows)
            last = rows[-1][0]

    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        """Return the documents that exist, by id, in the order asked for; parts by theirs where no other has the id."""
        statement = (
            f"SELECT {ROW} FROM json_each(?) AS wanted "
            "CROSS JOIN documents ON documents.{} = wanted.value JOIN contents USING (content_id)"
        )
        rows = self._db.rows_of(id_batches(ids), statement.format("id"))
        absent = set(ids).difference(row[0] for row in rows)
        parts = self._db.rows_of(_parents(absent), statement.format("parent"))
        rows += [row for row in parts if child_id(row[1], row[2]) in absent]
        documents = {document.id: document for document in as_documents(self._db, rows)}
        return {id: documents[id] for id in dict.fromkeys(ids) if id in documents}

    def upsert(self, documents: Sequence[Document]) -> Upserted:
        """Insert or replace documents by id; of two with one id the later wins.

        A text that is already stored keeps its content id, and so its vectors.

        Raises:
            InputError: one of them cannot be stored (`checking.checked`). Nothing of the batch is stored then.
        """
        return self.put([checked(document) for document in documents])

    def put(self, documents: Sequence[CheckedDocument]) -> Upserted:
        """Insert or replace checked documents, as `upsert` does."""
        texts = {document.hash: document.document.text for document in documents}
        embedded = {digest: text for document in documents for digest, text in document.embedded.items()}
        changed: dict[str, list[Row]] = {}
        added = updated = 0
        with self._db.writing():
            stored = self._stored([document.document.id for document in documents])
            contents = self._ensure_contents(texts | embedded)
            for whole in documents:
                id, rows = whole.document.id, [as_row(each, contents[each.hash]) for each in (whole, *whole.children)]
                before = stored.get(id)
                if before is not None and same_rows(before, rows):
                    continue
                added, updated = (added + 1, updated) if before is None else (added, updated + 1)
                stored[id] = changed[id] = rows
            if changed:
                self._write(changed)
            fields = dict.fromkeys(field for document in documents for field in document.fields)
            self._db.write_many("INSERT INTO fields VALUES (?, ?) ON CONFLICT DO NOTHING", fields)
        return Upserted(
            added,
            updated,
            len(documents) - added - updated,
            [contents[document.hash] for document in documents],
            {text: contents[digest] for digest, text in embedded.items()},
        )

    def _write(self, rows_by_id: Mapping[str, list[Row]]) -> None:
        """Put documents with their parts in the place of what was stored under their ids."""
        with self._db.writing(documents=True):
            self._db.write_many("DELETE FROM documents WHERE parent = ?", [(id,) for id in rows_by_id])
            self._db.write_many(
                f"INSERT INTO documents ({_STORED}, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET parts = excluded.parts, content_id = excluded.content_id, "
                "metadata = excluded.metadata, checksum = excluded.checksum",
                [(*row, document_checksum(row)) for rows in rows_by_id.values() for row in rows],
            )

    def known(self, texts: Sequence[str]) -> dict[str, int]:
        """Return the content id of every text that is stored already."""
        hashes = {content_hash(text): text for text in texts}
        return {hashes[digest]: content_id for digest, content_id in self.by_hash(hashes).items()}

    def by_hash(self, hashes: Iterable[bytes]) -> dict[bytes, int]:
        """Return the content id of every hash whose text is stored already."""
        wanted, content_ids = list(hashes), dict[bytes, int]()
        for start in range(0, len(wanted), HASH_BATCH):
            batch = wanted[start : start + HASH_BATCH]
            marks = ",".join("?" * len(batch))
            content_ids.update(self._db.rows(f"SELECT hash, content_id FROM contents WHERE hash IN ({marks})", batch))
        return content_ids

    def _stored(self, ids: Sequence[str]) -> dict[str, list[Row]]:
        """Return the rows of the documents that exist and of their parts, in order, by the documents' ids."""
        stored: dict[str, list[Row]] = {}
        for row in self._db.rows_of(
            id_batches(ids),
            f"SELECT {_STORED} FROM documents WHERE id IN (SELECT value FROM json_each(?1)) UNION ALL "
            f"SELECT {_STORED} FROM documents WHERE parent IN (SELECT value FROM json_each(?1)) "
            "ORDER BY parent, number",
        ):
            stored.setdefault(row[0] or row[1], []).append(row)
        return stored

    def _ensure_contents(self, texts: dict[bytes, str]) -> dict[bytes, int]:
        """Return the content id of every hash, storing the texts that are new in the order given."""
        content_ids = self.by_hash(texts)
        new = [digest for digest in texts if digest not in content_ids]
        searched = WordIndex(self._db).language.searched if new else None
        rows = [(digest, texts[digest], searched and searched(texts[digest])) for digest in new]
        self._db.write_many("INSERT INTO contents (hash, text, words) VALUES (?, ?, ?)", rows)
        return content_ids | self.by_hash(new)

    def delete(self, ids: Iterable[str]) -> list[str]:
        """Delete documents with their parts and return the ids that were there; texts stay until `collect_garbage`."""
        wanted = list(dict.fromkeys(ids))
        with self._db.writing(documents=True):
            rows = self._db.rows_of(
                id_batches(wanted), "DELETE FROM documents WHERE id IN (SELECT value FROM json_each(?)) RETURNING id"
            )
        deleted = {row[0] for row in rows}
        return [id for id in wanted if id in deleted]

    def delete_absent(self, keep: set[str]) -> int:
        """Delete every document whose id is not in ``keep`` and return how many those were."""
        with self._db.writing(documents=True):
            return len(self.delete([id for id in self.ids() if id not in keep]))

    def count_contents(self) -> int:
        """Return the number of distinct texts that are embedded and have a document."""
        return self._db.number("SELECT COUNT(DISTINCT content_id) FROM documents WHERE parts = 0")

    def count_texts(self) -> int:
        """Return the number of distinct texts of the documents that are no parts."""
        return self._db.number("SELECT COUNT(DISTINCT content_id) FROM documents WHERE parent IS NULL")

    def live_contents(self) -> Ids:
        """Return the ids of the texts that are embedded and have a document, ascending."""
        return as_ids(self._db.rows("SELECT DISTINCT content_id FROM documents WHERE parts = 0 ORDER BY content_id"))

    def contents_of(self, ids: Iterable[str]) -> Ids:
        """Return the ids of the texts embedded of some documents or parts, ascending; unknown ones are left out."""
        distinct = set(ids)
        rows = self._db.rows_of(
            id_batches(distinct),
            "SELECT content_id FROM documents WHERE parts = 0 AND id IN (SELECT value FROM json_each(?1)) "
            "UNION SELECT content_id FROM documents WHERE parent IN (SELECT value FROM json_each(?1))",
        )
        parts = self._db.rows_of(
            _parents(distinct),
            "SELECT content_id, documents.parent, number FROM json_each(?) AS wanted "
            "CROSS JOIN documents ON documents.parent = wanted.value",
        )
        return np.unique(as_ids(rows + [row for row in parts if child_id(*row[1:]) in distinct]))

    def texts(self, content_ids: Sequence[int] | Ids) -> dict[int, str]:
        """Return the stored texts by content id, in the order asked for; unknown ids are left out.

        Raises:
            IndexDamagedError: a text differs from its hash.
        """
        texts: dict[int, str] = {}
        for content_id, text, digest in self._db.rows_of(
            content_batches(content_ids),
            "SELECT content_id, text, hash FROM json_each(?) AS each CROSS JOIN contents ON content_id = each.value",
        ):
            if content_hash(text) != digest:
                raise self._db.damaged(f"text {content_id} is not what was stored")
            texts[content_id] = text
        return texts

    def characters(self, content_ids: Sequence[int] | Ids, most: int) -> int:
        """Return the characters of stored texts together, of each no more than ``most``."""
        rows = self._db.rows_of(
            content_batches(content_ids),
            "SELECT SUM(MIN(LENGTH(text), ?2)) FROM json_each(?1) AS each "
            "CROSS JOIN contents ON content_id = each.value",
            most,
        )
        return sum(row[0] or 0 for row in rows)

    def hashes(self, content_ids: Sequence[int] | Ids) -> list[bytes]:
        """Return the hashes of stored texts, in the order of their ids as given."""
        rows = self._db.rows_of(
            content_batches(content_ids),
            "SELECT hash FROM json_each(?) AS each CROSS JOIN contents ON content_id = each.value",
        )
        return [row[0] for row in rows]

    def expand(self, content_ids: Sequence[int] | Ids, where: Filter | None = None) -> Mapping[int, Sequence[Document]]:
        """Return the embedded documents of each content sorted by id, parts by parent and number.

        Contents without a matching document are left out.
        """
        condition, documents = self._compile(where), dict[int, list[Document]]()
        rows = self._db.rows_of(
            content_batches(content_ids),
            f"SELECT {ROW} FROM json_each(?) AS wanted "
            "CROSS JOIN documents ON documents.content_id = wanted.value JOIN contents USING (content_id) "
            f"WHERE parts = 0 AND {condition.sql} ORDER BY COALESCE(documents.parent, documents.id), number",
            *condition.parameters,
        )
        for row, document in zip(rows, as_documents(self._db, rows), strict=True):
            documents.setdefault(row[6], []).append(document)
        return documents

    def accepted(self, where: Filter | None = None) -> Iterator[Document]:
        """Return the documents that a filter over metadata accepts and that are no parts, by ascending id.

        They are read some at a time; the documents may change meanwhile.

        Raises:
            FilterError: the filter names a field no document has; by this call.
        """
        return self._accepted(self._compile(where))

    def _accepted(self, condition: Compiled) -> Iterator[Document]:
        last = ""
        while rows := self._db.rows(
            f"SELECT {ROW} FROM documents JOIN contents USING (content_id) WHERE parent IS NULL AND documents.id > ? "
            f"AND {condition.sql} ORDER BY documents.id LIMIT ?",
            (last, *condition.parameters, _PAGE),
        ):
            yield from as_documents(self._db, rows)
            last = rows[-1][0]

    def wholes(self, content_ids: Sequence[int] | Ids, where: Filter | None = None) -> dict[int, list[int]]:
        """Return the texts of the documents that each content is a part of, or all of; see `expand`."""
        condition, wholes = self._compile(where), dict[int, list[int]]()
        for content_id, whole_id in self._db.rows_of(
            content_batches(content_ids),
            "SELECT DISTINCT documents.content_id, whole.content_id FROM json_each(?) AS wanted "
            "CROSS JOIN documents ON documents.content_id = wanted.value "
            "CROSS JOIN documents AS whole ON whole.id = COALESCE(documents.parent, documents.id) "
            f"WHERE documents.parts = 0 AND {condition.sql}",
            *condition.parameters,
        ):
            wholes.setdefault(content_id, []).append(whole_id)
        return wholes

    def matching(self, where: Filter) -> Ids:
        """Return the ids of the texts embedded of documents that the filter accepts, ascending.

        Raises:
            FilterError: the filter names a field no document has.
        """
        condition = self._compile(where)
        return as_ids(
            self._db.rows(
                f"SELECT DISTINCT content_id FROM documents WHERE parts = 0 AND {condition.sql} ORDER BY content_id",
                condition.parameters,
            )
        )

    def lexical(self, query: str, k: int, where: Filter | None = None) -> list[LexicalHit]:
        """Return the k texts that share words with the query, best BM25 first, ties by the id of their first document.

        Any query is safe: its words are looked for, its punctuation means nothing. Only texts with a document that
        matches the filter are found.
        """
        expression = match_expression(query, WordIndex(self._db).language)
        condition = self._compile(where)
        if not expression or k < 1:
            return []
        given = (expression, *condition.parameters)
        rows = self._db.rows(
            f"SELECT content_id, score FROM ({_MATCHES} {condition.sql}) ORDER BY score DESC LIMIT ?) AS found "
            f"ORDER BY score DESC, ({_FIRST} AND {condition.sql}) LIMIT ?",
            (*given, k + 1, *condition.parameters, k + 1),
        )
        if len(rows) > k and rows[k][1] == rows[k - 1][1]:  # FTS5 has chosen among these ties
            above = [row for row in rows if row[1] > rows[k][1]]
            tied = self._db.rows(
                f"SELECT content_id, score FROM ({_MATCHES} {condition.sql})) AS found WHERE score = ? "
                f"ORDER BY ({_FIRST} AND {condition.sql}) LIMIT ?",
                (*given, rows[k][1], *condition.parameters, k - len(above)),
            )
            rows = above + tied
        return [LexicalHit(content_id, score) for content_id, score in rows[:k]]

    def fields(self) -> dict[str, str]:
        """Return the metadata fields ever seen: name -> JSON path, as `Filter.compile` takes them."""
        return dict(self._db.rows("SELECT name, path FROM fields ORDER BY name"))

    def collect_garbage(self) -> int:
        """Remove the texts without a document, with their vectors and words, and return how many those were."""
        with self._db.writing(documents=True):
            return self._db.write(
                "DELETE FROM contents WHERE NOT EXISTS "
                "(SELECT 1 FROM documents WHERE documents.content_id = contents.content_id)"
            )

    def _compile(self, where: Filter | None) -> Compiled:
        return Compiled("1", ()) if where is None else where.compile(self.fields(), self.types.holds_dates)


def _parents(ids: Iterable[str]) -> Iterator[str]:
    """Yield the ids of the documents that some ids could be of parts of, as `id_batches` does."""
    return id_batches({id.rpartition("#")[0] for id in ids if "#" in id})
