"""Qdrant as a vector backend: a collection on a server, or Qdrant's own search inside this process.

Each vector index is a collection of its own, by inner product: vectors have length 1, and the server leaves them as
they are. Every search asks for exact comparison, so that hits do not depend on the state of the server's graph, and a
filter by ids is no slower than comparing with these; the collection has no graph. What is made on a server is noted in
a file of the view's folder first, so that a build that is killed leaves nothing behind for good.

Without a server the vectors lie in a file of the index's folder and are loaded into Qdrant's local mode to be searched,
up to 20,000 of them. Local mode has files of its own, but they are pickles, which can run code, and lock their folder.
"""

import json
import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.errors import IndexDamagedError, RetrieverError
from retriever.core.similarity import merge, pad
from retriever.core.types import Embeddings, Ids, Neighbours
from retriever.vectors.arrays import checked_batches, read_arrays, write_arrays
from retriever.vectors.backend import BuildOptions, BuiltIndex, Handle, ListedIndex, ViewVectors, number_of, text_of
from retriever.vectors.checks import check_search
from retriever.vectors.exact import ExactIndex
from retriever.vectors.files import new_path, remove_others, view_folder, write_file
from retriever.vectors.qdrant_server import asking, connect, local, request_types

logger = logging.getLogger(__name__)

SUFFIX = ".qdrant"

_CONDITION = 10_000  # ids in one condition: some 80 kB of a request
_LOOKED_UP = 10  # ids in one condition for local mode, which compares every point with it in Python
_REQUEST_BYTES = 8 << 20  # a server takes 32 MiB
_NUMBER_BYTES = 22  # of a float32 written out in JSON
_NOTE_BYTES = 1 << 16
_MOST_TIED = 16_384  # points fetched to find the lowest ids among equal scores
_NAME = re.compile(r"retriever-[0-9a-f]{32}")  # no other collection is ever removed


@dataclass(frozen=True, slots=True)
class _Collection:
    """One collection, the `qdrant_client.QdrantClient` that reaches it, and its server: empty for local mode."""

    client: Any
    name: str
    url: str


@dataclass(frozen=True, slots=True)
class _Part:
    """Some of the points: how many, and the most hits that are worth fetching to find the best of them.

    Attributes:
        condition: a `qdrant_client.models.Filter` that accepts these alone; None accepts all points.
        kept: (size,) their ids, where hits are filtered when they are fetched; else None.
    """

    size: int
    deepest: int
    condition: Any
    kept: Ids | None = None


class QdrantIndex:
    """A Qdrant collection whose points' ids are content ids; implements `retriever.core.protocols.VectorIndex`.

    Equal scores go by ascending id; where more than 16,384 vectors share the score of the k-th hit, some of the lowest
    ids stand for them. Safe for searches from several threads: local mode, which is not, is asked one at a time.
    ``ids`` (n,) are those of all points, ascending, and ``condition`` is the most of them in one condition of a filter.
    """

    def __init__(self, collection: _Collection, ids: Ids, dim: int, condition: int = _CONDITION) -> None:
        self.ids, self.dim, self.size = ids, dim, len(ids)
        self._collection, self._condition = collection, condition
        self._alone: AbstractContextManager[Any] = nullcontext() if collection.url else threading.Lock()

    def search(self, queries: Embeddings, k: int, *, allowed: Ids | None = None) -> Neighbours:
        """Return the k nearest ids of each query; see `retriever.core.protocols.VectorIndex.search`.

        A filter goes to a server as the ids it excludes, where these are few, else as those it allows, 10,000 a
        request. Local mode looks ids up slowly, so it is asked for more hits than wanted, which are filtered here.

        Raises:
            UsageError: the queries are not finite (q, dim) float32, or k is below 1.
            IndexDamagedError: the collection is gone.
            RetrieverError: the server does not answer.
        """
        check_search(queries, k, self.dim)
        found = [Neighbours(np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32))]
        for part in self._parts(allowed, k) if len(queries) else ():
            fetch = min(part.deepest, (k + 1) * -(-part.deepest // part.size))
            found.append(self._nearest(queries, min(k, part.size), fetch, part))
        return pad(merge(found, k), k)

    def _parts(self, allowed: Ids | None, k: int) -> Iterator["_Part"]:
        """Yield disjoint parts of the points that together are those allowed; none is empty."""
        keep = np.ones(self.size, dtype=bool) if allowed is None else np.isin(self.ids, allowed)
        kept, rest = self.ids[keep], self.ids[~keep]
        if len(rest) and len(kept) > _LOOKED_UP and not self._collection.url:
            yield _Part(len(kept), self.size, None, kept)
        elif len(kept) and len(rest) <= min(self._condition, len(kept)):
            condition = request_types().Filter(must_not=[request_types().HasIdCondition(has_id=rest.tolist())])
            yield _Part(len(kept), _deepest(len(kept), k), condition if len(rest) else None)
        else:
            for start in range(0, len(kept), self._condition):
                part = kept[start : start + self._condition]
                condition = request_types().Filter(must=[request_types().HasIdCondition(has_id=part.tolist())])
                yield _Part(len(part), _deepest(len(part), k), condition)

    def _nearest(self, queries: Embeddings, wanted: int, fetch: int, part: "_Part") -> Neighbours:
        """Return the best ``wanted`` points of a part, ties by ascending id, from at first ``fetch`` fetched ones."""
        found = self._fetch(queries, fetch, part.condition)
        last = found.scores[:, -1].copy()
        if part.kept is not None:
            drop = ~np.isin(found.ids, part.kept)
            found.ids[drop], found.scores[drop] = -1, -np.inf
        best = merge([found], wanted)
        open_ended = np.flatnonzero(best.scores[:, -1] <= last)
        if fetch < part.deepest and len(open_ended):
            again = self._nearest(queries[open_ended], wanted, min(8 * fetch, part.deepest), part)
            best.ids[open_ended], best.scores[open_ended] = again.ids, again.scores
        return best

    def _fetch(self, queries: Embeddings, fetch: int, condition: Any) -> Neighbours:  # noqa: ANN401
        """Return the best ``fetch`` points (q, fetch), best first, equal scores in any order."""
        models = request_types()
        exact = models.SearchParams(exact=True) if self._collection.url else None  # local mode always is
        filtered = 0 if condition is None else self._condition
        step = max(1, _REQUEST_BYTES // (_NUMBER_BYTES * (self.dim + fetch) + 8 * filtered))
        hits: list[Any] = []
        for start in range(0, len(queries), step):
            requests = [
                models.QueryRequest(query=query, filter=condition, limit=fetch, params=exact)
                for query in queries[start : start + step].tolist()
            ]
            with self._alone, asking(self._collection.url):
                hits += self._collection.client.query_batch_points(self._collection.name, requests)
        if any(len(one.points) != fetch for one in hits):
            raise _gone(self._collection, "holds other points than it did when it was opened")
        ids = np.array([[point.id for point in one.points] for one in hits], dtype=np.int64)
        return Neighbours(ids, np.array([[point.score for point in one.points] for one in hits], dtype=np.float32))


class QdrantBackend:
    """Keeps vector indexes as Qdrant collections; implements `retriever.vectors.backend.VectorBackend`.

    The device is not used; ``condition`` is the most ids in one condition of a filter.
    """

    def __init__(self, folder: Path, device: str = "auto", condition: int = _CONDITION) -> None:
        self._folder, self._condition = folder, condition

    def require(self, dim: int, options: BuildOptions) -> None:
        """Refuse an address that is none, and a server that does not answer; see `VectorBackend.require`."""
        client = _client(options.location)
        with asking(options.location):
            client.get_collections()

    def build(self, view: int, vectors: ViewVectors, options: BuildOptions) -> BuiltIndex:
        """Make a collection of a view's vectors, or their file; see `VectorBackend.build`."""
        path = new_path(self._folder, view, SUFFIX)
        details = {"bytes_per_vector": 4 * vectors.dim + 8}
        collection = _Collection(_client(options.location), f"retriever-{path.stem}", options.location)
        if not collection.url:
            return BuiltIndex({**write_arrays(vectors, self._folder, path), "url": ""}, details=details)
        where = {"url": collection.url, "collection": collection.name}
        note = json.dumps({**where, "folder": str(self._folder.resolve())})
        write_file(path, lambda take: take(note.encode()))
        _fill(collection, vectors)
        held = {"size": len(vectors.ids), "dim": vectors.dim}
        return BuiltIndex({"path": path.relative_to(self._folder).as_posix(), **where, **held}, details=details)

    def open(self, handle: Handle) -> ListedIndex:
        """Open a collection and read its ids, or load it into this process; see `VectorBackend.open`."""
        url, size, dim = text_of(handle, "url"), number_of(handle, "size"), number_of(handle, "dim")
        if url:
            collection = _Collection(_client(url), text_of(handle, "collection"), url)
            return QdrantIndex(collection, _ids_of(collection, size, dim), dim, self._condition)
        found = read_arrays(self._folder, handle)
        collection = _Collection(local(), "view", "")
        _fill(collection, ViewVectors(found.ids, dim, [found.embeddings]))
        return QdrantIndex(collection, found.ids, dim, self._condition)

    def hold(self, ids: Ids, embeddings: Embeddings) -> ListedIndex:
        """Return an exact index of a few vectors; see `VectorBackend.hold`."""
        return ExactIndex(ids, embeddings)

    def check(self, handle: Handle) -> str | None:
        """Describe what is wrong: with a file by its hash, with a collection by the number and kind of its vectors."""
        try:
            read_arrays(self._folder, handle) if not text_of(handle, "url") else self.open(handle)
        except RetrieverError as error:
            return error.message
        return None

    def remove(self, view: int, *, keep: Sequence[Handle] = ()) -> None:
        """Remove the view's files and collections but those to keep; see `VectorBackend.remove`.

        A collection is removed only by the folder that made it: a copy of an index shares those of the original.
        """
        folder = view_folder(self._folder, view)
        kept = {Path(text_of(one, "path")).name for one in keep}
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            if path.name not in kept and not self._removed(path):
                kept.add(path.name)
        remove_others(folder, SUFFIX, kept)

    def _removed(self, path: Path) -> bool:
        """Remove the collection that a file notes, if it notes one of ours; return whether the file may go too."""
        try:
            with path.open("rb") as file:
                note = json.loads(file.read(_NOTE_BYTES))
            url, name, folder = (str(note[key]) for key in ("url", "collection", "folder"))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return True  # vectors
        if not _NAME.fullmatch(name) or folder != str(self._folder.resolve()):
            return True
        try:
            client = _client(url)
            with asking(url):
                client.delete_collection(name)
        except RetrieverError as error:
            logger.warning("The collection %s is left on its server for now: %s", name, error.message)
            return False
        return True


def _deepest(available: int, k: int) -> int:
    return min(available, max(_MOST_TIED, k + 1))


def _fill(collection: _Collection, vectors: ViewVectors) -> None:
    """Make a collection of vectors and wait until all are in it."""
    models, client = request_types(), collection.client
    with asking(collection.url):
        client.create_collection(
            collection.name,
            vectors_config=models.VectorParams(size=vectors.dim, distance=models.Distance.DOT),
            hnsw_config=models.HnswConfigDiff(m=0),
        )
        step = max(1, _REQUEST_BYTES // (_NUMBER_BYTES * vectors.dim))
        for batch in checked_batches(vectors):
            for start in range(0, len(batch.ids), step):
                part = slice(start, start + step)
                points = models.Batch(ids=batch.ids[part].tolist(), vectors=batch.embeddings[part].tolist())
                client.upsert(collection.name, points, wait=True)


def _ids_of(collection: _Collection, size: int, dim: int) -> Ids:
    """Return the ids (n,) of a collection's points, ascending, once it is sure to be the one that was built."""
    models = request_types()
    ids: list[int] = []
    after: Any = None
    with asking(collection.url):
        held = collection.client.get_collection(collection.name).config.params.vectors
        if not isinstance(held, models.VectorParams) or (held.size, held.distance) != (dim, models.Distance.DOT):
            raise _gone(collection, f"holds vectors of another kind than {dim} numbers each")
        while True:
            points, after = collection.client.scroll(
                collection.name, limit=_CONDITION, offset=after, with_payload=False, with_vectors=False
            )
            ids += [point.id for point in points]
            if after is None:
                break
    if len(ids) != size or not all(isinstance(one, int) for one in ids):
        raise _gone(collection, f"holds {len(ids)} vectors, not the {size} that were built")
    return np.sort(np.array(ids, dtype=np.int64))


def _client(url: str) -> Any:  # noqa: ANN401 - a qdrant_client.QdrantClient
    return connect(url) if url else local()


def _gone(collection: _Collection, what: str) -> IndexDamagedError:
    where = f"{collection.name} at {collection.url}" if collection.url else "in memory"
    return IndexDamagedError(f"The Qdrant collection {where} {what}.", hint="Run `retriever repair`.")
