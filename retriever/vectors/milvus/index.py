"""Search in one Milvus collection: exact filters, ties by ascending id, never fewer hits than there are."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from retriever.core.errors import IndexDamagedError
from retriever.core.registry import resolve
from retriever.core.similarity import merge, pad
from retriever.core.types import Embeddings, Ids, Neighbours
from retriever.vectors.backend import check_search
from retriever.vectors.exact import ExactIndex
from retriever.vectors.milvus.server import ANSWER_SECONDS, NOT_LOADED, WORK_SECONDS, Kind, asking, load

ID, VECTOR = "id", "vector"
"""Names of a collection's fields."""

METRIC = "IP"
"""Inner product: vectors have length 1, so it is the cosine."""

_IN_EXPRESSION = 10_000  # ids: some 200 kB of a request, and 0.1 s of the server's time
_SPREAD = 8  # where one vector of so many is allowed, or more, hits are asked for and checked: quicker than naming ids
_BATCH = 1000  # hits of an iterator's step
_REQUEST_BYTES = 8 << 20
_HITS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection that is loaded for searching, and the `pymilvus.MilvusClient` that reaches it."""

    client: Any
    name: str
    url: str
    kind: Kind


class MilvusIndex:
    """A Milvus collection whose primary keys are content ids; implements `retriever.core.protocols.VectorIndex`.

    The collection never changes, so a search waits for no other client's writes (consistency Eventually). Equal scores
    go by ascending id; where more vectors than a server gives in one answer share the score of the k-th hit, some of
    the lowest ids stand for them. Safe for searches from several threads.

    Args:
        collection: it, loaded.
        ids: (n,) content ids, ascending: all that it holds.
        dim: length of a vector.
        effort: what a search spends, in the kind's own parameter.
    """

    def __init__(self, collection: Collection, ids: Ids, dim: int, effort: int) -> None:
        self.ids, self.dim, self.size, self.effort = ids, dim, len(ids), effort
        self.collection, self._kind = collection, collection.kind

    def search(self, queries: Embeddings, k: int, *, allowed: Ids | None = None) -> Neighbours:
        """Return the k nearest ids of each query; see `retriever.core.protocols.VectorIndex.search`.

        A filter that allows many is checked here, on more hits than wanted; one that allows few goes to the server as
        their ids. Queries that come out short are continued by an iterator, and where that ends too soon, which
        approximate indexes do, compared with the stored vectors of all ids allowed.

        Raises:
            UsageError: the queries are not finite (q, dim) float32, or k is below 1.
            IndexDamagedError: the collection is gone, or other vectors are in it.
            RetrieverError: the server does not answer.
        """
        check_search(queries, k, self.dim)
        kept = self.ids if allowed is None else self.ids[np.isin(self.ids, allowed)]
        wanted = min(k, len(kept))
        if not wanted:
            return _nothing(len(queries), k)
        with asking(self.collection.url):
            try:
                return pad(self._staged(queries, wanted, kept), k)
            except resolve("pymilvus:MilvusException") as error:
                if error.code != NOT_LOADED:
                    raise
            load(self.collection.client, self.collection.name)
            return pad(self._staged(queries, wanted, kept), k)

    def _staged(self, queries: Embeddings, wanted: int, kept: Ids) -> Neighbours:
        """Return the best ``wanted`` of those kept (q, wanted); there are as many."""
        best = _nothing(len(queries), wanted)
        for stage in self._stages(kept):
            short = np.flatnonzero(best.ids[:, -1] < 0)
            if not len(short):
                break
            result = stage(queries[short], wanted, kept)
            best.ids[short], best.scores[short] = result.ids, result.scores
        return best

    def _stages(self, kept: Ids) -> Iterator[Any]:
        """Yield the ways to search, the quickest first, each for the queries that those before have left short."""
        few = len(kept) <= _IN_EXPRESSION
        if len(kept) * _SPREAD >= self.size or not few:
            yield self._checked
        if few and len(kept) < self.size:
            yield self._named
        elif self._kind.iterates:
            yield self._continued
        yield self._compared

    def _checked(self, queries: Embeddings, wanted: int, kept: Ids) -> Neighbours:
        """Ask for more hits than wanted, and drop those that are not kept."""
        fetch = (wanted + 1) * -(-self.size // len(kept))
        return self._best(queries, wanted, fetch, self.size, "", kept if len(kept) < self.size else None)

    def _named(self, queries: Embeddings, wanted: int, kept: Ids) -> Neighbours:
        """Ask for the best of ids that are named."""
        return self._best(queries, wanted, wanted + 1, len(kept), _among(kept), None)

    def _best(
        self, queries: Embeddings, wanted: int, fetch: int, there: int, condition: str, kept: Ids | None
    ) -> Neighbours:
        """Return the best ``wanted`` (q, wanted), ties by ascending id; more are fetched while a better may follow."""
        deepest = min(there, self._kind.window)
        fetch = min(fetch, deepest)
        result = self._fetch(queries, fetch, condition)
        last = result.scores[:, -1].copy()
        if kept is not None:
            drop = ~np.isin(result.ids, kept)
            result.ids[drop], result.scores[drop] = -1, -np.inf
        best = merge([result], wanted)
        open_ended = np.flatnonzero(best.scores[:, -1] <= last)
        if fetch < deepest and len(open_ended):
            again = self._best(queries[open_ended], wanted, 8 * fetch, there, condition, kept)
            best.ids[open_ended], best.scores[open_ended] = again.ids, again.scores
        return best

    def _fetch(self, queries: Embeddings, fetch: int, condition: str) -> Neighbours:
        """Return up to ``fetch`` hits of each query (q, fetch), equal scores in any order, padded with -1."""
        step = max(1, min(_REQUEST_BYTES // (4 * self.dim), _HITS_AT_ONCE // fetch))
        ids = np.full((len(queries), fetch), -1)
        scores = np.full((len(queries), fetch), -np.inf, np.float32)
        for start in range(0, len(queries), step):
            answers = self.collection.client.search(
                self.collection.name,
                queries[start : start + step],
                filter=condition,
                limit=fetch,
                search_params=self._params(fetch, thorough=bool(condition)),
                anns_field=VECTOR,
                consistency_level="Eventually",
                timeout=ANSWER_SECONDS,
            )
            for row, hits in enumerate(answers, start=start):
                ids[row, : len(hits)] = [hit[ID] for hit in hits]
                scores[row, : len(hits)] = [hit["distance"] for hit in hits]
        return Neighbours(ids, scores)

    def _continued(self, queries: Embeddings, wanted: int, kept: Ids) -> Neighbours:
        """Go on through the collection, the nearest first, until enough of those kept are found."""
        rows = [self._walked(query, wanted, kept) for query in queries]
        return Neighbours(np.concatenate([row.ids for row in rows]), np.concatenate([row.scores for row in rows]))

    def _walked(self, query: Embeddings, wanted: int, kept: Ids) -> Neighbours:
        best = _nothing(1, wanted)
        iterator = self.collection.client.search_iterator(
            self.collection.name,
            query[None],
            batch_size=_BATCH,
            limit=-1,
            search_params=self._params(_BATCH, thorough=True),
            anns_field=VECTOR,
            consistency_level="Eventually",
            timeout=WORK_SECONDS,
        )
        try:
            while hits := iterator.next():
                step = Neighbours(
                    np.array([[hit[ID] for hit in hits]]), np.array([[hit["distance"] for hit in hits]], np.float32)
                )
                last = step.scores.min()
                keep = np.isin(step.ids, kept) & ~np.isin(step.ids, best.ids)
                best = merge([best, Neighbours(step.ids[:, keep[0]], step.scores[:, keep[0]])], wanted)
                if best.scores[0, -1] > last:
                    break
        finally:
            iterator.close()
        return best

    def _compared(self, queries: Embeddings, wanted: int, kept: Ids) -> Neighbours:
        """Compare with the stored vectors of all that are kept: slow and always right."""
        best = _nothing(len(queries), wanted)
        for start in range(0, len(kept), _IN_EXPRESSION):
            part = kept[start : start + _IN_EXPRESSION]
            rows = self.collection.client.query(
                self.collection.name,
                filter=_among(part),
                output_fields=[ID, VECTOR],
                consistency_level="Eventually",
                timeout=WORK_SECONDS,
            )
            if len(rows) != len(part):
                raise IndexDamagedError(
                    f"The Milvus collection {self.collection.name} at {self.collection.url} has lost vectors.",
                    hint="Run `retriever repair`.",
                )
            held = ExactIndex(np.array([row[ID] for row in rows]), np.array([row[VECTOR] for row in rows], np.float32))
            best = merge([best, held.search(queries, wanted)], wanted)
        return best

    def _params(self, fetch: int, *, thorough: bool) -> dict[str, Any]:
        """Return what a search spends: the effort that was measured, or the most where few of many may be hits."""
        kind = self._kind
        effort = kind.most(self.size) if thorough else self.effort
        effort = max(effort, fetch) if kind.counts_hits else effort
        return {"metric_type": METRIC, "params": {kind.effort: effort} if kind.effort else {}}


def _among(ids: Ids) -> str:
    return f"{ID} in {ids.tolist()}"


def _nothing(queries: int, k: int) -> Neighbours:
    return pad(Neighbours(np.empty((queries, 0), np.int64), np.empty((queries, 0), np.float32)), k)
