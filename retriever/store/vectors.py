"""Vectors of contents under views: written once as fp16, read back as float32 rows of length 1."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import EncoderError, IndexDamagedError, RetrieverError
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings, Ids
from retriever.store.batches import as_ids, content_batches
from retriever.store.checksums import REPAIR, vector_checksum
from retriever.store.connection import Connections, Rows
from retriever.store.stored_json import stored_json_list
from retriever.store.units import Units

_STORED = np.dtype("<f2")
_NEWEST = "SELECT content_id, vector_id FROM vectors WHERE view_id = ? ORDER BY vector_id DESC LIMIT ?"

_HELD = "SELECT content_id FROM vectors WHERE view_id = ?"


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
    """A run of one view's vectors in the order they were stored: (n,) ids and contents, (n, dim) rows."""

    vector_ids: Ids
    content_ids: Ids
    embeddings: Embeddings

    @property
    def last(self) -> int:
        """The largest vector id of the batch: where the next scan goes on, or the watermark it covers."""
        return int(self.vector_ids[-1])


class Vectors:
    """The index's vectors."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections
        self._units = Units(connections)

    def put(
        self,
        view_id: int,
        content_ids: Sequence[int] | Ids,
        embeddings: Embeddings,
        words: Sequence[Sequence[str]] | None = None,
        vector_ids: Sequence[int] | None = None,
    ) -> None:
        """Store one vector per content; a content that has one already keeps it.

        Args:
            view_id: the view they belong to.
            content_ids: n stored contents.
            embeddings: (n, dim of the view).
            words: the model's answers, one list per content.
            vector_ids: the vectors' ids, where several indexes share them; larger than any that was given before.

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
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(embeddings, dtype=_STORED)
        self._refuse_unusable(ids, stored)
        answers = [None] * len(ids) if words is None else [json.dumps(list(each), ensure_ascii=False) for each in words]
        numbers: Sequence[int | None] = vector_ids or [None] * len(ids)
        with self._db.writing():
            self._db.write_many(
                "INSERT INTO vectors (vector_id, view_id, content_id, vector, words, checksum) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (view_id, content_id) DO NOTHING",
                [
                    (number, view_id, content_id, blob, answer, vector_checksum(view_id, content_id, blob, answer))
                    for number, content_id, blob, answer in zip(
                        numbers, ids.tolist(), map(_blob, stored), answers, strict=True
                    )
                ],
            )

    def _refuse_unusable(self, ids: Ids, stored: NDArray[np.float16]) -> None:
        usable = np.isfinite(stored).all(axis=1) & (stored != 0).any(axis=1)
        if usable.all():
            return
        content_id = int(ids[~usable][0])
        row = self._db.row("SELECT substr(text, 1, 60) FROM contents WHERE content_id = ?", (content_id,))
        raise EncoderError(
            f"The encoder returned NaN, infinity or only zeros for {np.count_nonzero(~usable)} of {len(ids)} texts; "
            f"the first is content {content_id}, which begins {row[0] if row else ''!r}.",
            hint="Load the encoder with dtype=float32; if that does not help, its weights are damaged.",
        )

    def missing(self, view_id: int, content_ids: Sequence[int] | Ids) -> list[int]:
        """Return those of the contents that have no vector in the view, in the order given, each once."""
        lacking: list[int] = []
        for wanted in content_batches(content_ids):
            rows = self._db.rows(
                "SELECT value FROM json_each(?) WHERE NOT EXISTS "
                "(SELECT 1 FROM vectors WHERE view_id = ? AND content_id = value) ORDER BY key",
                (wanted, view_id),
            )
            lacking += [row[0] for row in rows]
        return lacking

    def pending(self, view_id: int) -> Ids:
        """Return the contents that are embedded of a document but have no vector in the view, ascending."""
        scope = self._units.scope
        return as_ids(
            self._db.rows(
                f"SELECT DISTINCT content_id FROM {scope.live} WHERE NOT EXISTS (SELECT 1 FROM vectors "
                "WHERE view_id = ? AND vectors.content_id = live.content_id) ORDER BY content_id",
                (view_id,),
            )
        )

    def get(self, view_id: int, content_ids: Sequence[int] | Ids, *, as_stored: bool = False) -> StoredVectors:
        """Return the vectors that exist among the contents asked for, in that order, each once.

        Args:
            view_id: of the view.
            content_ids: of the contents.
            as_stored: give the stored numbers, which `put` stores again as they are; their length is 1 to three digits.
        """
        rows: Rows = []
        for wanted in content_batches(content_ids):
            rows += self._db.rows(
                "SELECT content_id, vector, words, checksum FROM json_each(?) AS wanted "
                "CROSS JOIN vectors ON view_id = ? AND content_id = wanted.value ORDER BY wanted.key",
                (wanted, view_id),
            )
        embeddings = self._decode(view_id, rows, as_stored=as_stored)
        return StoredVectors(as_ids(rows), embeddings, stored_json_list(row[2] or "[]" for row in rows))

    def words(self, view_id: int, content_ids: Sequence[int] | Ids) -> dict[int, list[str]]:
        """Return the model's answers for those of the contents that have a vector."""
        found: dict[int, list[str]] = {}
        for wanted in content_batches(content_ids):
            rows = self._db.rows(
                "SELECT content_id, vector, words, checksum FROM json_each(?) AS wanted "
                "CROSS JOIN vectors ON view_id = ? AND content_id = wanted.value",
                (wanted, view_id),
            )
            self._check(view_id, rows)
            found.update(zip((row[0] for row in rows), stored_json_list(row[2] or "[]" for row in rows), strict=True))
        return found

    def newest(self, view_id: int, count: int) -> Ids:
        """Return the contents of the view's last vectors, at most ``count``, the last first."""
        return as_ids(self._db.rows(_NEWEST, (view_id, count)))

    def newest_ids(self, view_id: int, count: int) -> Ids:
        """Return the ids of the vectors of `newest`, in the same order."""
        return as_ids([row[1:] for row in self._db.rows(_NEWEST, (view_id, count))])

    def scan(self, view_id: int, *, after: int = 0, batch: int = 4096) -> Iterator[VectorBatch]:
        """Yield the view's vectors with an id above ``after``, in the order they were stored.

        Vectors of texts without a document are among them. Vectors may be added meanwhile; the scan meets them.
        """
        while rows := self._db.rows(
            "SELECT vector_id, content_id, vector, words, checksum FROM vectors WHERE view_id = ? AND vector_id > ? "
            "ORDER BY vector_id LIMIT ?",
            (view_id, after, batch),
        ):
            vectors = [row[1:] for row in rows]
            found = VectorBatch(as_ids(rows), as_ids(vectors), self._decode(view_id, vectors))
            after = found.last
            yield found

    def content_ids(self, view_id: int, *, through: int) -> Ids:
        """Return the contents whose vector id is at most ``through``, ascending."""
        return as_ids(
            self._db.rows(
                "SELECT content_id FROM vectors WHERE view_id = ? AND vector_id <= ? ORDER BY content_id",
                (view_id, through),
            )
        )

    def scan_contents(self, view_id: int, *, through: int, batch: int = 4096) -> Iterator[Embeddings]:
        """Yield the embeddings of the contents of `content_ids`, in that order, in arrays of up to ``batch`` rows."""
        after = -1
        while rows := self._db.rows(
            "SELECT content_id, vector, words, checksum FROM vectors WHERE view_id = ? AND vector_id <= ? "
            "AND content_id > ? ORDER BY content_id LIMIT ?",
            (view_id, through, after, batch),
        ):
            after = rows[-1][0]
            yield self._decode(view_id, rows)

    def differing(self, view_id: int, other_id: int) -> int:
        """Count the contents of which one of two views has a vector and the other has none."""
        return sum(
            self._db.number(f"SELECT COUNT(*) FROM ({_HELD} EXCEPT {_HELD})", pair)
            for pair in ((view_id, other_id), (other_id, view_id))
        )

    def count_after(self, view_id: int, vector_id: int) -> int:
        """Count the vectors of the view that were stored after the given one."""
        return self._db.number("SELECT COUNT(*) FROM vectors WHERE view_id = ? AND vector_id > ?", (view_id, vector_id))

    def count(self, view_id: int) -> int:
        """Return the number of vectors in the view."""
        return self._db.number("SELECT COUNT(*) FROM vectors WHERE view_id = ?", (view_id,))

    def count_live(self, view_id: int) -> int:
        """Return the number of vectors in the view whose text has a document."""
        scope = self._units.scope
        return self._db.number(
            "SELECT COUNT(*) FROM vectors WHERE view_id = ? AND EXISTS "
            f"(SELECT 1 FROM {scope.holders} = vectors.content_id)",
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

    def remove_unsourced(self, view_id: int, source_id: int) -> None:
        """Remove the vectors of texts that another view holds none of; a generation that covers them must go too."""
        with self._db.writing():
            self._db.write(
                "DELETE FROM vectors WHERE view_id = ? AND content_id NOT IN "
                "(SELECT content_id FROM vectors WHERE view_id = ?)",
                (view_id, source_id),
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
        """Return the vectors (n, dim) of rows of content id, vector, words and checksum."""
        dim = self._dim(view_id)
        self._check(view_id, rows)
        if any(len(row[1]) != dim * _STORED.itemsize for row in rows):
            raise self._damaged(f"a vector of view {view_id} has not the length of the view")
        numbers = np.frombuffer(b"".join(row[1] for row in rows), dtype=_STORED).reshape(len(rows), dim)
        return numbers.astype(np.float32) if as_stored else normalise(numbers)

    def _check(self, view_id: int, rows: Rows) -> None:
        """Refuse rows of content id, vector, words and checksum that are not what was stored."""
        for content_id, blob, words, checksum in rows:
            if vector_checksum(view_id, content_id, blob, words) != checksum:
                raise self._damaged(f"the vector of text {content_id} in view {view_id} is not what was stored")

    def _damaged(self, what: str) -> IndexDamagedError:
        return IndexDamagedError(f"{self._db.path} is damaged: {what}.", hint=REPAIR)


def _blob(row: NDArray[np.float16]) -> bytes:
    return row.tobytes()
