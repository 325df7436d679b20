"""Documents over distinct contents: equal texts are stored once, while every document keeps its own id and metadata."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from retriever.core.errors import IndexDamagedError, InputError
from retriever.core.fingerprint import content_hash
from retriever.core.types import Document, Ids
from retriever.store import metadata
from retriever.store.checksums import REPAIR, document_checksum
from retriever.store.connection import Connections, Rows
from retriever.store.filter_tree import Compiled
from retriever.store.filters import Filter
from retriever.store.lexical import LexicalHit, match_expression
from retriever.store.stored_json import stored_json, stored_json_list

_BATCH = 10_000  # ids per statement, so that no statement grows with the corpus
_HASH_BATCH = 500  # hashes are bound one by one
_WHOLE = "documents.content_id, documents.id, text, metadata, documents.checksum, hash"


@dataclass(frozen=True, slots=True)
class Upserted:
    """What an upsert did.

    Attributes:
        added: documents with a new id.
        updated: documents whose text or metadata changed.
        unchanged: documents already stored exactly so.
        content_ids: one per document given, in the same order.
    """

    added: int
    updated: int
    unchanged: int
    content_ids: list[int]


class Documents:
    """The index's documents."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def __len__(self) -> int:
        return self._db.number("SELECT COUNT(*) FROM documents")

    def count_to(self, most: int) -> int:
        """Return how many documents there are, or ``most`` without counting further: a million take milliseconds."""
        return self._db.number("SELECT COUNT(*) FROM (SELECT 1 FROM documents LIMIT ?)", (min(most, 1 << 62),))

    def ids(self) -> Iterator[str]:
        """Yield every document's id in ascending order; the documents may change meanwhile."""
        last = ""
        while rows := self._db.rows("SELECT id FROM documents WHERE id > ? ORDER BY id LIMIT ?", (last, _BATCH)):
            if not all(isinstance(row[0], str) for row in rows):
                raise IndexDamagedError("The database is damaged: an id is no text.", hint=REPAIR)
            yield from (row[0] for row in rows)
            last = rows[-1][0]

    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        """Return the documents that exist, by id, in the order asked for."""
        found: dict[str, Document] = {}
        for wanted in _id_batches(ids):
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
            InputError: an id or text is empty or holds what UTF-8 or SQLite cannot, or metadata is not JSON. Nothing
                of the batch is stored then.
        """
        hashes = [_checked_hash(document) for document in documents]
        dumps = [metadata.dump(document) for document in documents]
        fields = dict.fromkeys(field for document in documents for field in metadata.fields(document))
        with self._db.writing():
            stored = self._stored([document.id for document in documents])
            contents = self._ensure_contents(dict(zip(hashes, (document.text for document in documents), strict=True)))
            content_ids = [contents[digest] for digest in hashes]
            changed: dict[str, tuple[str, int, str, int]] = {}
            added = updated = 0
            for document, content_id, dump in zip(documents, content_ids, dumps, strict=True):
                before = stored.get(document.id)
                if before is not None and before[0] == content_id and metadata.same(before[1], dump):
                    continue
                added, updated = (added + 1, updated) if before is None else (added, updated + 1)
                stored[document.id] = (content_id, dump)
                changed[document.id] = (document.id, content_id, dump, document_checksum(document.id, content_id, dump))
            self._db.write_many(
                "INSERT INTO documents VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
                "content_id = excluded.content_id, metadata = excluded.metadata, checksum = excluded.checksum",
                changed.values(),
            )
            self._db.write_many("INSERT INTO fields VALUES (?, ?) ON CONFLICT DO NOTHING", fields)
        return Upserted(added, updated, len(documents) - added - updated, content_ids)

    def check(self, documents: Sequence[Document]) -> None:
        """Refuse documents that cannot be stored, before any work is spent on them.

        Raises:
            InputError: an id or text is empty or holds what UTF-8 or SQLite cannot, or metadata is not JSON.
        """
        for document in documents:
            _checked_hash(document)
            metadata.dump(document)

    def known(self, texts: Sequence[str]) -> dict[str, int]:
        """Return the content id of every text that is stored already."""
        hashes = {content_hash(text): text for text in texts}
        return {hashes[digest]: content_id for digest, content_id in self._contents(list(hashes)).items()}

    def _stored(self, ids: Sequence[str]) -> dict[str, tuple[int, str]]:
        rows: Rows = []
        for wanted in _id_batches(ids):
            rows += self._db.rows(
                "SELECT id, content_id, metadata FROM documents WHERE id IN (SELECT value FROM json_each(?))", (wanted,)
            )
        return {id: (content_id, data) for id, content_id, data in rows}

    def _ensure_contents(self, texts: dict[bytes, str]) -> dict[bytes, int]:
        """Return the content id of every hash, storing the texts that are new in the order given."""
        found = self._contents(list(texts))
        new = [digest for digest in texts if digest not in found]
        self._db.write_many(
            "INSERT INTO contents (hash, text) VALUES (?, ?)", [(digest, texts[digest]) for digest in new]
        )
        return found | self._contents(new)

    def _contents(self, hashes: Sequence[bytes]) -> dict[bytes, int]:
        found: dict[bytes, int] = {}
        for start in range(0, len(hashes), _HASH_BATCH):
            batch = hashes[start : start + _HASH_BATCH]
            marks = ",".join("?" * len(batch))
            found.update(self._db.rows(f"SELECT hash, content_id FROM contents WHERE hash IN ({marks})", batch))
        return found

    def delete(self, ids: Iterable[str]) -> list[str]:
        """Delete documents and return the ids that were there; their texts stay until `collect_garbage`."""
        deleted: set[str] = set()
        wanted = list(dict.fromkeys(ids))
        with self._db.writing():
            for batch in _id_batches(wanted):
                rows = self._db.rows(
                    "DELETE FROM documents WHERE id IN (SELECT value FROM json_each(?)) RETURNING id", (batch,)
                )
                deleted.update(row[0] for row in rows)
        return [id for id in wanted if id in deleted]

    def delete_absent(self, keep: set[str]) -> int:
        """Delete every document whose id is not in ``keep`` and return how many those were."""
        with self._db.writing():
            return len(self.delete([id for id in self.ids() if id not in keep]))

    def count_contents(self) -> int:
        """Return the number of distinct texts that have a document."""
        return self._db.number("SELECT COUNT(DISTINCT content_id) FROM documents")

    def mean_length(self, *, most: int, sample: int = 1000) -> float:
        """Return the mean length of the first texts in characters, at most ``most`` of each; 0 without texts."""
        row = self._db.row(
            "SELECT AVG(MIN(LENGTH(text), ?)) FROM (SELECT text FROM contents ORDER BY content_id LIMIT ?)",
            (most, sample),
        )
        return 0.0 if row is None or row[0] is None else float(row[0])

    def live_contents(self) -> Ids:
        """Return the ids of the texts that have a document, ascending."""
        return as_ids(self._db.rows("SELECT DISTINCT content_id FROM documents ORDER BY content_id"))

    def contents_of(self, ids: Iterable[str]) -> Ids:
        """Return the ids of the texts that some documents have, ascending; unknown documents are left out."""
        found: set[int] = set()
        for wanted in _id_batches(list(ids)):
            rows = self._db.rows(
                "SELECT content_id FROM documents WHERE id IN (SELECT value FROM json_each(?))", (wanted,)
            )
            found.update(row[0] for row in rows)
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

    def expand(self, content_ids: Sequence[int] | Ids, where: Filter | None = None) -> dict[int, list[Document]]:
        """Return the documents of each content sorted by id; contents without a matching document are left out."""
        condition = self._compile(where)
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

    def matching(self, where: Filter) -> Ids:
        """Return the ids of the texts that have a document the filter accepts, ascending.

        Raises:
            FilterError: the filter names a field no document has.
        """
        condition = self._compile(where)
        return as_ids(
            self._db.rows(
                f"SELECT DISTINCT content_id FROM documents WHERE {condition.sql} ORDER BY content_id",
                condition.parameters,
            )
        )

    def lexical(self, query: str, k: int, where: Filter | None = None) -> list[LexicalHit]:
        """Return the k texts that share words with the query, best BM25 first, ties by content id.

        Any query is safe: its words are looked for, its punctuation means nothing. Only texts with a document that
        matches the filter are found.
        """
        expression = match_expression(query)
        condition = self._compile(where)
        if not expression or k < 1:
            return []
        rows = self._db.rows(
            "SELECT rowid, -bm25(contents_words) AS score FROM contents_words WHERE contents_words MATCH ? "
            f"AND EXISTS (SELECT 1 FROM documents WHERE content_id = contents_words.rowid AND {condition.sql}) "
            "ORDER BY score DESC, rowid LIMIT ?",
            (expression, *condition.parameters, k),
        )
        return [LexicalHit(content_id, score) for content_id, score in rows]

    def fields(self) -> dict[str, str]:
        """Return the metadata fields ever seen: name -> JSON path, as `Filter.compile` takes them."""
        return dict(self._db.rows("SELECT name, path FROM fields ORDER BY name"))

    def collect_garbage(self) -> int:
        """Remove the texts without a document, with their vectors and words, and return how many those were."""
        with self._db.writing():
            return self._db.write(
                "DELETE FROM contents WHERE NOT EXISTS "
                "(SELECT 1 FROM documents WHERE documents.content_id = contents.content_id)"
            )

    def rebuild_words(self) -> None:
        """Make the word index anew from the texts."""
        with self._db.writing():
            self._db.write("INSERT INTO contents_words (contents_words) VALUES ('rebuild')")

    def _check(self, rows: Rows) -> None:
        """Refuse rows of `_WHOLE` that are not what was stored."""
        for content_id, id, text, data, checksum, digest in rows:
            if document_checksum(id, content_id, data) != checksum or content_hash(text) != digest:
                raise self._damaged(f"document {id!r}")

    def _damaged(self, what: str) -> IndexDamagedError:
        return IndexDamagedError(f"{self._db.path} is damaged: {what} is not what was stored.", hint=REPAIR)

    def _compile(self, where: Filter | None) -> Compiled:
        return Compiled("1", ()) if where is None else where.compile(self.fields())


def as_ids(rows: Rows) -> Ids:
    """Return the first column as an array of ids.

    Raises:
        IndexDamagedError: one is no number, which a damaged index of SQLite's can give.
    """
    try:
        return np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
    except (TypeError, ValueError) as error:
        raise IndexDamagedError("The database is damaged: an id is no number.", hint=REPAIR) from error


def content_batches(content_ids: Sequence[int] | Ids) -> Iterator[str]:
    """Yield the distinct ids as JSON lists, in order, for json_each."""
    ids = list(dict.fromkeys(np.asarray(content_ids, dtype=np.int64).tolist()))
    for start in range(0, len(ids), _BATCH):
        yield json.dumps(ids[start : start + _BATCH])


def _id_batches(ids: Sequence[str]) -> Iterator[str]:
    # SQLite's json_each ends a string at NUL, so that "a\0b" would find "a"; no stored id holds one.
    known = [id for id in ids if "\0" not in id]
    for start in range(0, len(known), _BATCH):
        yield json.dumps(known[start : start + _BATCH])


def _checked_hash(document: Document) -> bytes:
    """Return the hash of a document's text once id and text are known to be storable."""
    for name, value in (("id", document.id), ("text", document.text)):
        if not value.strip() or "\0" in value:
            raise InputError(f"Document {document.id!r} has an empty {name} or one with a NUL character.")
    try:
        document.id.encode()
        return content_hash(document.text)
    except UnicodeEncodeError as error:
        raise InputError(f"Document {document.id!r} holds a lone surrogate, which is not text: {error}.") from error
