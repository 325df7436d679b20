"""Documents over distinct contents: equal texts are stored once, while every document keeps its own id and metadata."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retriever.core.errors import IndexDamagedError
from retriever.core.fingerprint import content_hash
from retriever.core.types import Document, Ids, Span
from retriever.core.words import QUERY_STOPWORDS
from retriever.store.batches import BATCH, as_ids, content_batches, id_batches
from retriever.store.checking import CheckedDocument, checked, same_metadata
from retriever.store.checksums import REPAIR, document_checksum
from retriever.store.connection import Connections, Rows
from retriever.store.filter_tree import Compiled, HeldTypes
from retriever.store.filters import Filter
from retriever.store.stored_json import stored_json, stored_json_list
from retriever.store.units import Units

_HASH_BATCH = 500  # hashes are bound one by one
_MATCHES = (  # the documents of the content at hand that a condition accepts follow, and a closing bracket
    "SELECT rowid AS content_id, -bm25(contents_fts) AS score FROM contents_fts WHERE contents_fts MATCH ? "
    "AND EXISTS (SELECT 1"
)
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_MAX_WORDS = 256  # distinct words of a query that are looked for
_WHOLE = "documents.content_id, documents.id, text, metadata, documents.checksum, hash"


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


class Documents:
    """The index's documents."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections
        self._units = Units(connections)

    def __len__(self) -> int:
        return self._db.number("SELECT COUNT(*) FROM documents")

    def count_to(self, most: int) -> int:
        """Count the documents, but no further than ``most``: a million take milliseconds."""
        return self._db.number("SELECT COUNT(*) FROM (SELECT 1 FROM documents LIMIT ?)", (min(most, 1 << 62),))

    def ids(self) -> Iterator[str]:
        """Yield every document's id in ascending order; the documents may change meanwhile."""
        last = ""
        while rows := self._db.rows("SELECT id FROM documents WHERE id > ? ORDER BY id LIMIT ?", (last, BATCH)):
            if not all(isinstance(row[0], str) for row in rows):
                raise IndexDamagedError("The database is damaged: an id is no text.", hint=REPAIR)
            yield from (row[0] for row in rows)
            last = rows[-1][0]

    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        """Return the documents that exist, by id, in the order asked for."""
        found: dict[str, Document] = {}
        for wanted in id_batches(ids):
            rows = self._db.rows(
                f"SELECT {_WHOLE} FROM json_each(?) AS wanted "
                "CROSS JOIN documents ON documents.id = wanted.value JOIN contents USING (content_id)",
                (wanted,),
            )
            self._check(rows)
            found.update((id, Document(id, text, stored_json(data))) for _, id, text, data, *_ in rows)
        return {id: found[id] for id in dict.fromkeys(ids) if id in found}

    def upsert(self, documents: Sequence[Document]) -> Upserted:
        """Insert or replace documents by id; of two with one id the later wins.

        A text that is already stored keeps its content id, and so its vectors.

        Raises:
            InputError: one of them cannot be stored (`checking.checked`). Nothing of the batch is stored then.
        """
        return self.put([checked(document) for document in documents])

    def put(self, documents: Sequence[CheckedDocument]) -> Upserted:
        """Insert or replace checked documents, as `upsert` does."""
        texts = {one.hash: one.document.text for one in documents}
        with self._db.writing(documents=True):
            stored = self.stored([one.document.id for one in documents])
            contents = self._ensure_contents(texts)
            content_ids = [contents[one.hash] for one in documents]
            changed: dict[str, tuple[str, int, str, int]] = {}
            added = updated = 0
            for one, content_id in zip(documents, content_ids, strict=True):
                id, dump = one.document.id, one.metadata
                before = stored.get(id)
                if before is not None and before[0] == content_id and same_metadata(before[1], dump):
                    continue
                added, updated = (added + 1, updated) if before is None else (added, updated + 1)
                stored[id] = (content_id, dump)
                changed[id] = (id, content_id, dump, document_checksum(id, content_id, dump))
            self._db.write_many(
                "INSERT INTO documents VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
                "content_id = excluded.content_id, metadata = excluded.metadata, checksum = excluded.checksum",
                changed.values(),
            )
            fields = dict.fromkeys(field for one in documents for field in one.fields)
            self._db.write_many("INSERT INTO fields VALUES (?, ?) ON CONFLICT DO NOTHING", fields)
            whole = {one.document.text: contents[one.hash] for one in documents if not one.units}
            embedded = whole | self.divide(
                {contents[one.hash]: (one.document.text, one.units) for one in documents if one.units}
            )
        return Upserted(added, updated, len(documents) - added - updated, content_ids, embedded)

    def divide(self, wholes: Mapping[int, tuple[str, Sequence[Span]]]) -> dict[str, int]:
        """Store the units of texts, given with them by content id; return the content id of every unit's text."""
        texts = {whole: [text[unit.start : unit.end] for unit in units] for whole, (text, units) in wholes.items()}
        hashes = {content_hash(text): text for group in texts.values() for text in group}
        with self._db.writing(documents=True):
            contents = self._ensure_contents(hashes)
            ids = {text: contents[digest] for digest, text in hashes.items()}
            self._units.put(
                {whole: units for whole, (_, units) in wholes.items()},
                {whole: [ids[text] for text in group] for whole, group in texts.items()},
            )
        return ids

    def known(self, texts: Sequence[str]) -> dict[str, int]:
        """Return the content id of every text that is stored already."""
        hashes = {content_hash(text): text for text in texts}
        return {hashes[digest]: content_id for digest, content_id in self.by_hash(hashes).items()}

    def by_hash(self, hashes: Iterable[bytes]) -> dict[bytes, int]:
        """Return the content id of every hash whose text is stored already."""
        wanted, found = list(hashes), dict[bytes, int]()
        for start in range(0, len(wanted), _HASH_BATCH):
            batch = wanted[start : start + _HASH_BATCH]
            marks = ",".join("?" * len(batch))
            found.update(self._db.rows(f"SELECT hash, content_id FROM contents WHERE hash IN ({marks})", batch))
        return found

    def stored(self, ids: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Return the content id and the metadata, as its JSON text, of the documents that exist, by id."""
        rows: Rows = []
        for wanted in id_batches(ids):
            rows += self._db.rows(
                "SELECT id, content_id, metadata FROM documents WHERE id IN (SELECT value FROM json_each(?))", (wanted,)
            )
        return {id: (content_id, data) for id, content_id, data in rows}

    def _ensure_contents(self, texts: dict[bytes, str]) -> dict[bytes, int]:
        """Return the content id of every hash, storing the texts that are new in the order given."""
        found = self.by_hash(texts)
        new = [digest for digest in texts if digest not in found]
        self._db.write_many(
            "INSERT INTO contents (hash, text) VALUES (?, ?)", [(digest, texts[digest]) for digest in new]
        )
        return found | self.by_hash(new)

    def delete(self, ids: Iterable[str]) -> list[str]:
        """Delete documents and return the ids that were there; their texts stay until `collect_garbage`."""
        deleted: set[str] = set()
        wanted = list(dict.fromkeys(ids))
        with self._db.writing(documents=True):
            for batch in id_batches(wanted):
                rows = self._db.rows(
                    "DELETE FROM documents WHERE id IN (SELECT value FROM json_each(?)) RETURNING id", (batch,)
                )
                deleted.update(row[0] for row in rows)
        return [id for id in wanted if id in deleted]

    def delete_absent(self, keep: set[str]) -> int:
        """Delete every document whose id is not in ``keep`` and return how many those were."""
        with self._db.writing(documents=True):
            return len(self.delete([id for id in self.ids() if id not in keep]))

    def count_contents(self) -> int:
        """Return the number of distinct texts that are embedded and have a document."""
        scope = self._units.scope
        return self._db.number(f"SELECT COUNT(DISTINCT content_id) FROM {scope.live}")

    def count_texts(self) -> int:
        """Return the number of distinct texts of documents."""
        return self._db.number("SELECT COUNT(DISTINCT content_id) FROM documents")

    def live_contents(self) -> Ids:
        """Return the ids of the texts that are embedded and have a document, ascending."""
        scope = self._units.scope
        return as_ids(self._db.rows(f"SELECT DISTINCT content_id FROM {scope.live} ORDER BY content_id"))

    def contents_of(self, ids: Iterable[str]) -> Ids:
        """Return the ids of the texts embedded of some documents or units, ascending; unknown ones are left out."""
        found: set[int] = set()
        asked, scope = list(ids), self._units.scope
        for wanted in id_batches(asked):
            rows = self._db.rows(
                f"SELECT {scope.content} FROM {scope.accepted} WHERE documents.id IN (SELECT value FROM json_each(?))",
                (wanted,),
            )
            found.update(row[0] for row in rows)
        if self._units.divided:
            found.update(self._units.contents_of(asked).tolist())
        return np.array(sorted(found), dtype=np.int64)

    def texts(self, content_ids: Sequence[int] | Ids) -> dict[int, str]:
        """Return the stored texts by content id, in the order asked for; unknown ids are left out.

        Raises:
            IndexDamagedError: a text differs from its hash.
        """
        found: dict[int, str] = {}
        for wanted in content_batches(content_ids):
            rows = self._db.rows(
                "SELECT content_id, text, hash FROM json_each(?) AS wanted "
                "CROSS JOIN contents ON content_id = wanted.value",
                (wanted,),
            )
            for content_id, text, digest in rows:
                if content_hash(text) != digest:
                    raise self._damaged(f"text {content_id}")
                found[content_id] = text
        return found

    def expand(self, content_ids: Sequence[int] | Ids, where: Filter | None = None) -> Mapping[int, Sequence[Document]]:
        """Return the documents of each content sorted by id; contents without a matching document are left out.

        In an index of units they are `Unit`s, with texts and ids of their own.
        """
        condition = self._compile(where)
        if self._units.divided:
            return self._units.expand(content_ids, condition)
        found: dict[int, list[Document]] = {}
        for wanted in content_batches(content_ids):
            rows = self._db.rows(
                f"SELECT {_WHOLE} FROM json_each(?) AS wanted "
                "CROSS JOIN documents ON documents.content_id = wanted.value JOIN contents USING (content_id) "
                f"WHERE {condition.sql} ORDER BY documents.id",
                (wanted, *condition.parameters),
            )
            self._check(rows)
            for (content_id, id, text, *_), data in zip(rows, stored_json_list(row[3] for row in rows), strict=True):
                found.setdefault(content_id, []).append(Document(id, text, data))
        return found

    def accepted(self, where: Filter | None = None) -> list[Document]:
        """Return the documents that a filter over metadata accepts, whole, by ascending id."""
        condition = self._compile(where)
        rows = self._db.rows(
            f"SELECT {_WHOLE} FROM documents JOIN contents USING (content_id) WHERE {condition.sql} "
            "ORDER BY documents.id",
            condition.parameters,
        )
        self._check(rows)
        metadata = stored_json_list(row[3] for row in rows)
        return [Document(id, text, data) for (_, id, text, *_), data in zip(rows, metadata, strict=True)]

    def wholes(self, content_ids: Sequence[int] | Ids, where: Filter | None = None) -> dict[int, list[int]]:
        """Return the texts of documents that each content is a unit of; see `expand`."""
        return self._units.wholes(content_ids, self._compile(where))

    def matching(self, where: Filter) -> Ids:
        """Return the ids of the texts embedded of documents that the filter accepts, ascending.

        Raises:
            FilterError: the filter names a field no document has.
        """
        condition, scope = self._compile(where), self._units.scope
        return as_ids(
            self._db.rows(
                f"SELECT DISTINCT {scope.content} FROM {scope.accepted} WHERE {condition.sql} ORDER BY 1",
                condition.parameters,
            )
        )

    def lexical(self, query: str, k: int, where: Filter | None = None) -> list[LexicalHit]:
        """Return the k texts that share words with the query, best BM25 first, ties by the id of their first document.

        Any query is safe: its words are looked for, its punctuation means nothing. Only texts with a document that
        matches the filter are found.
        """
        expression = match_expression(query)
        condition, scope = self._compile(where), self._units.scope
        if not expression or k < 1:
            return []
        given = (expression, *condition.parameters)
        rows = self._db.rows(
            f"SELECT content_id, score FROM ({_MATCHES} FROM {scope.holders} = contents_fts.rowid "
            f"AND {condition.sql}) ORDER BY score DESC LIMIT ?) AS found ORDER BY score DESC, "
            f"(SELECT MIN(id) FROM {scope.holders} = found.content_id AND {condition.sql}) LIMIT ?",
            (*given, k + 1, *condition.parameters, k + 1),
        )
        if len(rows) > k and rows[k][1] == rows[k - 1][1]:  # FTS5 has chosen among these ties
            above = [row for row in rows if row[1] > rows[k][1]]
            tied = self._db.rows(
                f"SELECT content_id, score FROM ({_MATCHES} FROM {scope.holders} = contents_fts.rowid AND "
                f"{condition.sql})) AS found WHERE score = ? "
                f"ORDER BY (SELECT MIN(id) FROM {scope.holders} = found.content_id AND {condition.sql}) LIMIT ?",
                (*given, rows[k][1], *condition.parameters, k - len(above)),
            )
            rows = above + tied
        return [LexicalHit(content_id, score) for content_id, score in rows[:k]]

    def fields(self) -> dict[str, str]:
        """Return the metadata fields ever seen: name -> JSON path, as `Filter.compile` takes them."""
        return dict(self._db.rows("SELECT name, path FROM fields ORDER BY name"))

    def held_types(self, path: str) -> HeldTypes:
        """Return the types of what documents hold at a JSON path of their metadata; all of them are looked at."""
        values = self._db.rows("SELECT DISTINCT json_type(metadata, ?) FROM documents", (path,))
        items = self._db.rows(
            "SELECT DISTINCT item.type FROM documents, json_each(metadata, ?) AS item "
            "WHERE json_type(metadata, ?) = 'array'",
            (path, path),
        )
        return HeldTypes(*(frozenset(row[0] for row in rows if row[0]) for rows in (values, items)))

    def collect_garbage(self) -> int:
        """Remove the texts without a document, with units, vectors and words, and return how many those were."""
        with self._db.writing(documents=True):
            self._db.write(
                "DELETE FROM units WHERE NOT EXISTS "
                "(SELECT 1 FROM documents WHERE documents.content_id = units.whole_id)"
            )
            return self._db.write(
                "DELETE FROM contents WHERE NOT EXISTS "
                "(SELECT 1 FROM documents WHERE documents.content_id = contents.content_id) AND NOT EXISTS "
                "(SELECT 1 FROM units WHERE units.content_id = contents.content_id)"
            )

    def rebuild_words(self) -> None:
        """Make the word index anew from the texts."""
        with self._db.writing(documents=True):
            self._db.write("INSERT INTO contents_fts (contents_fts) VALUES ('rebuild')")

    def _check(self, rows: Rows) -> None:
        """Refuse rows of `_WHOLE` that are not what was stored."""
        for content_id, id, text, data, checksum, digest in rows:
            if document_checksum(id, content_id, data) != checksum or content_hash(text) != digest:
                raise self._damaged(f"document {id!r}")

    def _damaged(self, what: str) -> IndexDamagedError:
        return IndexDamagedError(f"{self._db.path} is damaged: {what} is not what was stored.", hint=REPAIR)

    def _compile(self, where: Filter | None) -> Compiled:
        return Compiled("1", ()) if where is None else where.compile(self.fields(), self._units.scope.content)


def match_expression(query: str) -> str:
    """Return an FTS5 expression, always a valid one, that matches any word of the query, or "" if it has none.

    Very common English words are left out unless the query has no others. A hyphenated word is looked for as a phrase.
    """
    words = dict.fromkeys(word.lower() for word in _WORD.findall(query))
    telling = [word for word in words if word not in QUERY_STOPWORDS] or list(words)
    return " OR ".join(f'"{word}"' for word in telling[:_MAX_WORDS])
