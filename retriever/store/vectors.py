"""Vectors of contents under views: written once as fp16, read back as float32 rows of length 1.

The row of a long text also holds the vectors of its windows, behind the text's own (`retriever.store.windows`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from retriever.core.errors import EncoderError, RetrieverError
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings, Ids
from retriever.store.checksums import vector_checksum
from retriever.store.columns import as_ids, content_batches, stored_json_list
from retriever.store.connection import Rows, Table
from retriever.store.windows import IndexedVectors, Windows, spans_as_json, spans_of_json, window_ids

_STORED = np.dtype("<f2")
_ROW = "content_id, vector, words, windows, checksum"
_OF_VIEW = f"SELECT {_ROW} FROM vectors WHERE view_id = ? AND vector_id <= ? AND content_id > ?"
_OF_TEXTS = f"{_OF_VIEW} ORDER BY content_id LIMIT ?"
_OF_LONG_TEXTS = f"{_OF_VIEW} AND windows IS NOT NULL ORDER BY content_id LIMIT ?"
_OF_CONTENTS = (
    f"SELECT {_ROW} FROM json_each(?) AS wanted CROSS JOIN vectors ON view_id = ? AND content_id = wanted.value"
)
_NEWEST = "SELECT content_id FROM vectors WHERE view_id = ? ORDER BY vector_id DESC LIMIT ?"


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """Vectors of some contents, aligned.

    Attributes:
        content_ids: (n,) contents that have a vector.
        embeddings: (n, dim).
        words: the model's answers for each content; empty where none were stored.
    """

    content_ids: Ids
    embeddings: Embeddings
    words: list[list[str]]


@dataclass(frozen=True, slots=True)
class VectorRevision:
    """The state of a view's vectors: equal revisions of a view hold equal vectors of the texts that have a document.

    Attributes:
        last: the largest vector id; vectors that come later have larger ones.
        removals: how often vectors of texts that stay were taken out.
    """

    last: int
    removals: int


@dataclass(frozen=True, slots=True)
class VectorBatch:
    """A run of one view's vectors in the order they were stored.

    Attributes:
        last: the largest vector id: where the next scan goes on, or the watermark it covers.
        content_ids: (n,) their texts.
        embeddings: (n, dim) the texts' own vectors.
        windows: those of texts that have some, by content id.
    """

    last: int
    content_ids: Ids
    embeddings: Embeddings
    windows: Mapping[int, Windows] = field(default_factory=dict)

    @property
    def indexed(self) -> IndexedVectors:
        """The rows that a vector index holds of them: the texts' own vectors, and behind these all windows'."""
        windows = self.windows.items()
        return IndexedVectors(
            np.concatenate([self.content_ids, *(window_ids(text, len(held.spans)) for text, held in windows)]),
            np.concatenate([self.embeddings, *(held.embeddings for _, held in windows)]),
        )


class Vectors(Table):
    """The index's vectors."""

    def put(
        self,
        view_id: int,
        content_ids: Sequence[int] | Ids,
        embeddings: Embeddings,
        words: Sequence[Sequence[str]] | None = None,
        windows: Mapping[int, Windows] | None = None,
    ) -> None:
        """Store one vector per content, with those of its windows; a content that has one already keeps it.

        Args:
            view_id: the view they belong to.
            content_ids: n stored contents.
            embeddings: (n, dim of the view).
            words: the model's answers, one list per content.
            windows: of those contents that have some, by content id.

        Raises:
            EncoderError: the shape is wrong, or a row holds NaN or infinity or is zero. Nothing is stored then.
        """
        ids = np.asarray(content_ids, dtype=np.int64)
        dim = self._dim(view_id)
        if embeddings.shape != (len(ids), dim) or (words is not None and len(words) != len(ids)):
            raise EncoderError(
                f"The view holds vectors of {dim} numbers, but {len(ids)} contents came with an array of shape "
                f"{embeddings.shape} and {'no' if words is None else len(words)} lists of words.",
                hint="Was the encoder changed? Another encoder needs another view.",
            )
        blobs = self._encoded(ids, embeddings)
        behind, places = dict[int, bytes](), dict[int, str]()
        for content_id, held in (windows or {}).items():
            same = np.full(len(held.spans), content_id, dtype=np.int64)
            behind[content_id] = b"".join(self._encoded(same, held.embeddings.reshape(-1, dim)))
            places[content_id] = spans_as_json(held.spans)
        answers = [None] * len(ids) if words is None else [json.dumps(list(each), ensure_ascii=False) for each in words]
        rows = [
            (content_id, blob + behind.get(content_id, b""), answer, places.get(content_id))
            for content_id, blob, answer in zip(ids.tolist(), blobs, answers, strict=True)
        ]
        with self._db.writing():
            self._db.write_many(
                f"INSERT INTO vectors (view_id, {_ROW}) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (view_id, content_id) DO NOTHING",
                [(view_id, *row, vector_checksum(view_id, *row)) for row in rows],
            )

    def _encoded(self, ids: Ids, embeddings: Embeddings) -> list[bytes]:
        """Return vectors (n, dim) of contents (n,) as they are stored."""
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(embeddings, dtype=_STORED)
        usable = np.isfinite(stored).all(axis=1) & (stored != 0).any(axis=1)
        if usable.all():
            return [row.tobytes() for row in stored]
        content_id = int(ids[~usable][0])
        row = self._db.row("SELECT substr(text, 1, 60) FROM contents WHERE content_id = ?", (content_id,))
        raise EncoderError(
            f"The encoder returned NaN, infinity or only zeros for {np.count_nonzero(~usable)} of {len(ids)} texts; "
            f"the first is content {content_id}, which begins {row[0] if row else ''!r}.",
            hint="Load the encoder with dtype=float32; if that does not help, its weights are damaged.",
        )

    def missing(self, view_id: int, content_ids: Sequence[int] | Ids) -> list[int]:
        """Return those of the contents that have no vector in the view, in the order given, each once."""
        rows = self._db.rows_of(
            content_batches(content_ids),
            "SELECT value FROM json_each(?) WHERE NOT EXISTS "
            "(SELECT 1 FROM vectors WHERE view_id = ? AND content_id = value) ORDER BY key",
            view_id,
        )
        return [row[0] for row in rows]

    def pending(self, view_id: int) -> Ids:
        """Return the contents that are embedded of a document but have no vector in the view, ascending."""
        return as_ids(
            self._db.rows(
                "SELECT DISTINCT content_id FROM documents WHERE parts = 0 AND NOT EXISTS (SELECT 1 FROM vectors "
                "WHERE view_id = ? AND vectors.content_id = documents.content_id) ORDER BY content_id",
                (view_id,),
            )
        )

    def get(self, view_id: int, content_ids: Sequence[int] | Ids, *, as_stored: bool = False) -> StoredVectors:
        """Return the vectors that exist among the contents asked for, in that order, each once.

        ``as_stored`` gives the stored numbers, which `put` stores again as they are; their length is 1 to three digits.
        """
        rows = self._db.rows_of(content_batches(content_ids), f"{_OF_CONTENTS} ORDER BY wanted.key", view_id)
        embeddings = self._decode(view_id, rows, as_stored=as_stored)
        return StoredVectors(as_ids(rows), embeddings, stored_json_list(row[2] or "[]" for row in rows))

    def windows(self, view_id: int, content_ids: Sequence[int] | Ids, *, as_stored: bool = False) -> dict[int, Windows]:
        """Return the windows of those of the contents that have some in the view; ``as_stored`` as for `get`."""
        rows = self._db.rows_of(content_batches(content_ids), f"{_OF_CONTENTS} AND windows IS NOT NULL", view_id)
        self._check(view_id, rows)
        return self._windows(view_id, rows, as_stored=as_stored)

    def words(self, view_id: int, content_ids: Sequence[int] | Ids) -> dict[int, list[str]]:
        """Return the model's answers for those of the contents that have a vector."""
        rows = self._db.rows_of(content_batches(content_ids), _OF_CONTENTS, view_id)
        self._check(view_id, rows)
        return dict(zip((row[0] for row in rows), stored_json_list(row[2] or "[]" for row in rows), strict=True))

    def newest(self, view_id: int, count: int) -> Ids:
        """Return the contents of the view's last vectors, at most ``count``, the last first."""
        return as_ids(self._db.rows(_NEWEST, (view_id, count)))

    def scan(self, view_id: int, *, after: int = 0, batch: int = 4096) -> Iterator[VectorBatch]:
        """Yield the view's vectors with an id above ``after``, in the order they were stored.

        Vectors of texts without a document are among them. Vectors may be added meanwhile; the scan meets them.
        """
        while rows := self._db.rows(
            f"SELECT vector_id, {_ROW} FROM vectors WHERE view_id = ? AND vector_id > ? ORDER BY vector_id LIMIT ?",
            (view_id, after, batch),
        ):
            vectors = [row[1:] for row in rows]
            embeddings = self._decode(view_id, vectors)
            after = rows[-1][0]
            yield VectorBatch(after, as_ids(vectors), embeddings, self._windows(view_id, vectors))

    def held(self, view_id: int, *, through: int | None = None) -> Ids:
        """Return the contents that have a vector in the view, with an id up to ``through`` where given, ascending."""
        return as_ids(
            self._db.rows(
                "SELECT content_id FROM vectors WHERE view_id = ?1 AND vector_id <= COALESCE(?2, vector_id) "
                "ORDER BY content_id",
                (view_id, through),
            )
        )

    def indexed_ids(self, view_id: int, *, through: int) -> Ids:
        """Return the ids that a vector index of the vectors up to an id has: of texts, then of windows, ascending."""
        counts = self._db.rows(
            "SELECT content_id, json_array_length(windows) FROM vectors "
            "WHERE view_id = ? AND vector_id <= ? AND windows IS NOT NULL ORDER BY content_id",
            (view_id, through),
        )
        windows = [window_ids(content_id, count) for content_id, count in counts]
        return np.concatenate([self.held(view_id, through=through), *windows])

    def scan_indexed(self, view_id: int, *, through: int, batch: int = 4096) -> Iterator[Embeddings]:
        """Yield the embeddings of `indexed_ids`, in that order, in arrays of the vectors of up to ``batch`` texts."""
        for statement in (_OF_TEXTS, _OF_LONG_TEXTS):
            after = -1
            while rows := self._db.rows(statement, (view_id, through, after, batch)):
                after = rows[-1][0]
                own = self._decode(view_id, rows)
                if statement is _OF_TEXTS:
                    yield own
                else:
                    yield np.concatenate([held.embeddings for held in self._windows(view_id, rows).values()])

    def count_after(self, view_id: int, vector_id: int) -> int:
        """Count the vectors of the view that were stored after the given one, those of windows among them."""
        own = self._db.number("SELECT COUNT(*) FROM vectors WHERE view_id = ? AND vector_id > ?", (view_id, vector_id))
        return own + self.count_windows(view_id, after=vector_id)

    def count_windows(self, view_id: int, *, after: int = 0) -> int:
        """Count the vectors of windows in the view, of the rows whose id is above ``after``."""
        return self._db.number(
            "SELECT SUM(json_array_length(windows)) FROM vectors "
            "WHERE view_id = ? AND vector_id > ? AND windows IS NOT NULL",
            (view_id, after),
        )

    def count(self, view_id: int) -> int:
        """Return the number of texts that have a vector in the view."""
        return self._db.number("SELECT COUNT(*) FROM vectors WHERE view_id = ?", (view_id,))

    def count_live(self, view_id: int) -> int:
        """Return the number of vectors in the view whose text has a document."""
        return self._db.number(
            "SELECT COUNT(*) FROM vectors WHERE view_id = ? AND EXISTS "
            "(SELECT 1 FROM documents WHERE documents.content_id = vectors.content_id AND parts = 0)",
            (view_id,),
        )

    def remove_oldest(self, view_id: int, count: int) -> None:
        """Remove the vectors of a view that were stored first. A generation that covers them must go with them."""
        with self._db.writing():
            self._db.write(
                "DELETE FROM vectors WHERE vector_id IN "
                "(SELECT vector_id FROM vectors WHERE view_id = ? ORDER BY vector_id LIMIT ?)",
                (view_id, count),
            )
            self._db.write("UPDATE views SET removals = removals + 1 WHERE view_id = ?", (view_id,))

    def remove(self, view_id: int, content_ids: Sequence[int] | Ids) -> None:
        """Remove the vectors of some contents; a generation that covers them must go too."""
        with self._db.writing():
            self._db.write_of(
                content_batches(content_ids),
                "DELETE FROM vectors WHERE content_id IN (SELECT value FROM json_each(?)) AND view_id = ?",
                view_id,
            )
            self._db.write("UPDATE views SET removals = removals + 1 WHERE view_id = ?", (view_id,))

    def bytes_each(self, dim: int) -> int:
        """Return the bytes of a stored vector, without its words and SQLite's own."""
        return dim * _STORED.itemsize

    def revision(self, view_id: int) -> VectorRevision:
        """Return a value that tells a view's vectors from earlier and later ones; two look-ups, whatever its size."""
        removals = self._db.number("SELECT removals FROM views WHERE view_id = ?", (view_id,))
        return VectorRevision(self.last_id(view_id), removals)

    def last_id(self, view_id: int) -> int:
        """Return the view's largest vector id, 0 if it has none."""
        return self._db.number("SELECT MAX(vector_id) FROM vectors WHERE view_id = ?", (view_id,))

    def _dim(self, view_id: int) -> int:
        dim = self._db.number("SELECT dim FROM views WHERE view_id = ?", (view_id,))
        if not dim:
            raise RetrieverError(f"The index has no view {view_id}.", hint="`retriever status` lists them.")
        return dim

    def _decode(self, view_id: int, rows: Rows, *, as_stored: bool = False) -> Embeddings:
        """Return the texts' own vectors (n, dim) of rows of `_ROW`."""
        self._check(view_id, rows)
        return self._numbers(view_id, [row[1][: self._size(view_id)] for row in rows], as_stored=as_stored)

    def _windows(self, view_id: int, rows: Rows, *, as_stored: bool = False) -> dict[int, Windows]:
        """Return the windows in rows of `_ROW` that were checked, by content id."""
        held = [row for row in rows if row[3] is not None]
        if not held:
            return {}
        size, places = self._size(view_id), [spans_of_json(row[3]) for row in held]
        if any(len(row[1]) != size * (1 + len(spans)) for row, spans in zip(held, places, strict=True)):
            raise self._db.damaged(f"windows of view {view_id} are not as many as their vectors")
        numbers = self._numbers(view_id, [row[1][size:] for row in held], as_stored=as_stored)
        ends = np.cumsum([len(spans) for spans in places]).tolist()
        return {
            row[0]: Windows(spans, numbers[end - len(spans) : end])
            for row, spans, end in zip(held, places, ends, strict=True)
        }

    def _numbers(self, view_id: int, blobs: list[bytes], *, as_stored: bool) -> Embeddings:
        """Return the vectors (n, dim) that blobs hold, one behind the other."""
        numbers = np.frombuffer(b"".join(blobs), dtype=_STORED).reshape(-1, self._dim(view_id))
        return numbers.astype(np.float32) if as_stored else normalise(numbers)

    def _size(self, view_id: int) -> int:
        """Return the bytes of a vector of the view."""
        return self.bytes_each(self._dim(view_id))

    def _check(self, view_id: int, rows: Rows) -> None:
        """Refuse rows of `_ROW` that are not what was stored."""
        size = self._size(view_id) if rows else 0
        for content_id, blob, words, windows, checksum in rows:
            if vector_checksum(view_id, content_id, blob, words, windows) != checksum:
                raise self._db.damaged(f"the vector of text {content_id} in view {view_id} is not what was stored")
            if len(blob) % size or (len(blob) == size) is not (windows is None):
                raise self._db.damaged(f"a vector of view {view_id} has not the length of the view")
