"""Rankings of contents, and the documents they become.

A ranking is a list of content ids, best first. Documents enter at the very end: equal texts share a content, and a
filter may allow only some of them.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from retriever.core.similarity import reciprocal_rank_fusion
from retriever.core.types import Embeddings, Ids
from retriever.services.results import Hit, Path, SearchResult
from retriever.services.view_search import ViewSearcher
from retriever.store.database import Store
from retriever.store.views import View

if TYPE_CHECKING:
    from retriever.services.searching import SearchRequest


@dataclass(frozen=True, slots=True)
class Ranking:
    """Contents best first, with the number their order follows."""

    ids: list[int]
    scores: list[float]


@dataclass(frozen=True, slots=True)
class Answer:
    """One query's ranking, the cosines of its contents where they are known, and the rankings it was made of."""

    ranking: Ranking
    cosines: Mapping[int, float]
    dense: Sequence[int]
    lexical: Sequence[int]


@dataclass(frozen=True, slots=True)
class Answers:
    """One answer per query with the steps spent on it, and the view that gave the cosines."""

    view: View | None
    path: Path
    answers: list[Answer]
    steps: Sequence[int | None]


def nearest(searcher: ViewSearcher, queries: Embeddings, depth: int, allowed: Ids | None) -> list[Ranking]:
    """Return the ``depth`` best contents of every query, and all others that tie with the last of them."""
    depth = min(depth, max(1, searcher.size))
    width = depth + 1
    found = searcher.search(queries, width, allowed=allowed)
    while np.any((found.ids[:, -1] >= 0) & (found.scores[:, -1] == found.scores[:, depth - 1])):
        width *= 2
        found = searcher.search(queries, width, allowed=allowed)
    good = (found.ids >= 0) & (found.scores >= found.scores[:, depth - 1 : depth])
    return [
        Ranking(ids[keep].tolist(), scores[keep].tolist())
        for ids, scores, keep in zip(found.ids, found.scores, good, strict=True)
    ]


def fuse(*rankings: Ranking) -> Ranking:
    """Return the rank fusion of several rankings; empty ones have no say."""
    fused = reciprocal_rank_fusion([ranking.ids for ranking in rankings])
    ids = sorted(fused, key=lambda content_id: (-fused[content_id], content_id))
    return Ranking(ids, [fused[content_id] for content_id in ids])


def _places(ids: Sequence[int]) -> dict[int, int]:
    """Return the place of every content in a ranking, from 1."""
    return {content_id: place for place, content_id in enumerate(ids, start=1)}


def cosines(store: Store, view: View, vector: NDArray[np.float32], ids: Sequence[int]) -> dict[int, float]:
    """Return the cosine of a query vector (dim,) with those of the contents that have a vector in the view."""
    return products(store, view, [vector], ids)[0]


def products(
    store: Store, view: View, vectors: Sequence[NDArray[np.float32]], ids: Sequence[int]
) -> list[dict[int, float]]:
    """Return the products of each vector (dim,) with those of the contents that have one in the view, read once."""
    stored = store.vectors.get(view.view_id, list(ids))
    contents = stored.content_ids.tolist()
    return [dict(zip(contents, (stored.embeddings @ one).tolist(), strict=True)) for one in vectors]


def as_results(store: Store, request: "SearchRequest", found: Answers, started: float) -> list[SearchResult]:
    """Turn contents into documents: every ranking's first k, ties by document id."""
    contents = {content_id for one in found.answers for content_id in _foremost(request, one.ranking)}
    documents = store.documents.expand(sorted(contents), request.where)
    words: Mapping[int, Sequence[str]] = {}
    if found.view is not None:
        words = store.vectors.words(found.view.view_id, sorted(contents))
    took = (time.perf_counter() - started) * 1000
    view_id = found.view.view_id if found.view else None
    results = []
    for query, answer, steps in zip(request.queries, found.answers, found.steps, strict=True):
        dense, lexical = _places(answer.dense), _places(answer.lexical)
        hits = [
            Hit(
                document,
                answer.cosines.get(one),
                score,
                words.get(one, ()),
                dense_rank=dense.get(one),
                lexical_rank=lexical.get(one),
            )
            for one, score in zip(_foremost(request, answer.ranking), answer.ranking.scores, strict=False)
            for document in documents.get(one, ())
            if document.id != request.like
        ]
        hits.sort(key=lambda hit: (-hit.fused, hit.document.id))
        results.append(
            SearchResult(query, request.instruction, view_id, found.path, request.mode, hits[: request.k], took, steps)
        )
    return results


def _foremost(request: "SearchRequest", ranking: Ranking) -> list[int]:
    """Return the contents that can be among the first k documents: a little more, and what ties with the last."""
    last = request.k + (request.like is not None)
    while 0 < last < len(ranking.ids) and ranking.scores[last] == ranking.scores[last - 1]:
        last += 1
    return ranking.ids[:last]
