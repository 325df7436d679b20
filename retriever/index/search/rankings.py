"""Rankings of contents, and the documents they become.

A ranking is a list of content ids, best first. Documents enter at the very end: equal texts share a content, and a
filter may allow only some of them.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from retriever.core.requests import SearchRequest
from retriever.core.results import Hit, SearchPath, SearchResult
from retriever.core.similarity import reciprocal_rank_fusion
from retriever.core.types import Document, Embeddings, Ids, Unit, parent_id
from retriever.core.whole_words import in_whole_words
from retriever.index.search.view_searcher import LoadedView
from retriever.store.database import Store
from retriever.store.filters import Filter
from retriever.store.views import View


@dataclass(frozen=True, slots=True)
class Ranking:
    """Contents best first, with the number their order follows."""

    ids: list[int]
    scores: list[float]


@dataclass(frozen=True, slots=True)
class Answer:
    """One query's ranking, and what it was made of.

    Attributes:
        ranking: contents, best first.
        vector: the query's (dim,), whose cosines with the contents are the scores of the hits; None where the
            ranking's own numbers are.
        dense: contents in the order of their vectors.
        lexical: contents in the order of their words.
    """

    ranking: Ranking
    vector: NDArray[np.float32] | None
    dense: Sequence[int]
    lexical: Sequence[int]


@dataclass(frozen=True, slots=True)
class Answers:
    """One answer per query.

    Attributes:
        view: what the scores come from; None where words alone were looked for.
        path: base, complete or lazy, as in `SearchResult`.
        answers: in the order of the queries.
        steps: K of the queries; None where no vector was made of them, or the encoder generates nothing.
    """

    view: View | None
    path: SearchPath
    answers: list[Answer]
    steps: int | None = None


def nearest(view: LoadedView, queries: Embeddings, depth: int, allowed: Ids | None) -> list[Ranking]:
    """Return the ``depth`` best contents of every query, and all others that tie with the last of them."""
    depth = min(depth, max(1, view.size))
    width = depth + 1
    found = view.search(queries, width, allowed=allowed)
    while np.any((found.ids[:, -1] >= 0) & (found.scores[:, -1] == found.scores[:, depth - 1])):
        width *= 2
        found = view.search(queries, width, allowed=allowed)
    good = (found.ids >= 0) & (found.scores >= found.scores[:, depth - 1 : depth])
    return [
        Ranking(ids[keep].tolist(), scores[keep].tolist())
        for ids, scores, keep in zip(found.ids, found.scores, good, strict=True)
    ]


def lexical(store: Store, queries: Sequence[str], depth: int, where: Filter | None) -> list[Ranking]:
    """Return the ``depth`` best contents of every query by their words (BM25)."""
    found = [store.documents.lexical(query, depth, where) for query in queries]
    return [Ranking([hit.content_id for hit in hits], [hit.score for hit in hits]) for hits in found]


def cut(ranking: Ranking, depth: int) -> Ranking:
    """Return the first ``depth`` contents of a ranking, and all others that tie with the last of them."""
    while 0 < depth < len(ranking.ids) and ranking.scores[depth] == ranking.scores[depth - 1]:
        depth += 1
    return Ranking(ranking.ids[:depth], ranking.scores[:depth])


def fuse(*rankings: Ranking) -> Ranking:
    """Return the rank fusion of several rankings; empty ones have no say."""
    fused = reciprocal_rank_fusion([ranking.ids for ranking in rankings])
    ids = sorted(fused, key=lambda content_id: (-fused[content_id], content_id))
    return Ranking(ids, [fused[content_id] for content_id in ids])


@dataclass(frozen=True, slots=True)
class Part:
    """One of several scores that order texts together.

    Attributes:
        ranking: the best texts by it.
        weight: what a point of it is worth.
        others: the scores of texts that only other parts found.
        floor: the score of a text that has none.
    """

    ranking: Ranking
    weight: float = 1.0
    others: Mapping[int, float] = field(default_factory=dict)
    floor: float = 0.0


def combined(*parts: Part) -> Ranking:
    """Return the ranking of all texts of some parts by the weighted sum of their scores.

    A convex combination of scores (Bruch et al., 2210.11934) in place of one of ranks: a word that is in few texts
    weighs much and a common one little, and vectors weigh as far as they stand out.
    """
    known = [dict(zip(one.ranking.ids, one.ranking.scores, strict=True)) for one in parts]
    fused = dict.fromkeys([content_id for one in parts for content_id in one.ranking.ids], 0.0)
    for part, scores in zip(parts, known, strict=True):
        for content_id in fused:
            score = scores.get(content_id, part.others.get(content_id, part.floor))
            fused[content_id] += part.weight * score
    ids = sorted(fused, key=lambda content_id: (-fused[content_id], content_id))
    return Ranking(ids, [fused[content_id] for content_id in ids])


def as_results(
    store: Store, request: SearchRequest, where: Filter | None, found: Answers, started: float
) -> list[SearchResult]:
    """Turn contents into documents: every ranking's first k, ties by document id; of units, each document's best."""
    wanted = request.k + (request.like is not None)
    rankings = [_beginning(store, where, one.ranking, wanted) for one in found.answers]
    contents = sorted({content_id for ranking in rankings for content_id in ranking.ids})
    documents = store.documents.expand(contents, where)
    vectors: dict[int, NDArray[np.float32]] = {}
    words: dict[int, list[str]] = {}
    if found.view is not None:
        stored = store.vectors.get(found.view.view_id, contents)
        vectors = dict(zip(stored.content_ids.tolist(), stored.embeddings, strict=True))
        words = dict(zip(vectors, stored.words, strict=True))
    took = (time.perf_counter() - started) * 1000
    results = []
    for query, answer, ranking in zip(request.queries, found.answers, rankings, strict=True):
        dense, by_words = _places(answer.dense), _places(answer.lexical)
        hits = [
            Hit(
                document,
                _cosine(vectors.get(one), answer.vector, fused),
                fused,
                _whole(words.get(one, ()), document, found.view),
                dense_rank=dense.get(one),
                lexical_rank=by_words.get(one),
            )
            for one, fused in zip(ranking.ids, ranking.scores, strict=True)
            for document in documents.get(one, ())
            if parent_id(document) != request.like
        ]
        hits.sort(key=_order)
        results.append(
            SearchResult(
                query,
                request.instruction,
                None if found.view is None else found.view.view_id,
                found.path,
                request.mode,
                _of_parents(store, hits, request.k) if store.units.divided else hits[: request.k],
                took,
                found.steps,
            )
        )
    return results


def _whole(words: Sequence[str], document: Document, view: View | None) -> Sequence[str]:
    """Return the words of a text in whole words; what was taught, the first of a taught view, stays as it is."""
    first = 1 if view is not None and view.taught else 0
    return words and [*words[:first], *in_whole_words(words[first:], document.text)]


def _beginning(store: Store, where: Filter | None, ranking: Ranking, wanted: int) -> Ranking:
    """Return the beginning of a ranking in which so many documents stand, and all that ties with its last content."""
    if not store.units.divided:
        return cut(ranking, wanted)
    parents = store.documents.parents(ranking.ids, where)
    met: set[str] = set()
    for place, content_id in enumerate(ranking.ids, start=1):
        met.update(parents.get(content_id, ()))
        if len(met) >= wanted:
            return cut(ranking, place)
    return ranking


def _order(hit: Hit) -> tuple[float, str, int]:
    """Return what hits are sorted by: the best first, then by document, then by place in it."""
    document = hit.document
    return -hit.fused, parent_id(document), document.number if isinstance(document, Unit) else 0


def _of_parents(store: Store, hits: Sequence[Hit], k: int) -> list[Hit]:
    """Return the best hit of each of the first k documents, as a hit of the document."""
    best: dict[str, tuple[Hit, Unit]] = {}
    for hit in hits:
        if isinstance(hit.document, Unit) and len(best) < k:
            best.setdefault(hit.document.parent, (hit, hit.document))
    wholes = store.documents.get(list(best))
    return [replace(hit, document=wholes[id], unit=unit) for id, (hit, unit) in best.items()]


def _cosine(stored: NDArray[np.float32] | None, query: NDArray[np.float32] | None, ranked: float) -> float | None:
    """Return the cosine of a stored vector and a query's, or what ranked it; None of a text without a vector."""
    if stored is None:
        return None
    return ranked if query is None else float(stored @ query)


def _places(ids: Sequence[int]) -> dict[int, int]:
    """Return the place of every content in a ranking, from 1."""
    return {content_id: place for place, content_id in enumerate(ids, start=1)}
