"""Rankings of contents, and the documents they become.

A ranking is a list of content ids, best first. Documents enter at the very end: equal texts share a content, and a
filter may allow only some of them.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from retriever.core.requests import SearchRequest
from retriever.core.results import Hit, SearchPath, SearchResult
from retriever.core.similarity import reciprocal_rank_fusion
from retriever.core.types import Document, Embeddings, Ids
from retriever.core.words import shown_words
from retriever.index.search.view_searcher import LoadedView
from retriever.index.search.windows import best_vectors
from retriever.index.selection import place
from retriever.store.database import Store
from retriever.store.filters import Filter
from retriever.store.views import View

STEP = 1e-4
"""Of the score between two texts that only their places set apart."""


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
        vector: the query's (dim,), whose cosines with the contents are the scores of the hits; None for none.
        dense: the places of contents in the order of their vectors, from 1.
        lexical: the places of contents in the order of their words, from 1.
        scored: whether the ranking's own numbers are these cosines.
    """

    ranking: Ranking
    vector: NDArray[np.float32] | None
    dense: Mapping[int, int]
    lexical: Mapping[int, int]
    scored: bool = False


@dataclass(frozen=True, slots=True)
class Answers:
    """One answer per query.

    Attributes:
        view: what the scores come from; None where words alone were looked for.
        path: base, complete or lazy, as in `SearchResult`.
        answers: in the order of the queries.
        steps: K of the queries; None where no vector was made of them, or the encoder generates nothing.
        answer_words: how many of a text's words in the view are answers as somebody named them.
    """

    view: View | None
    path: SearchPath
    answers: list[Answer]
    steps: int | None = None
    answer_words: int = 0


def nearest(
    view: LoadedView, queries: Embeddings, depth: int, allowed: Ids | None, *, windows: bool = True
) -> list[Ranking]:
    """Return the ``depth`` best contents of every query, and all others that tie with the last of them.

    ``windows`` is whether windows of texts count, as in `LoadedView.search`.
    """
    depth = min(depth, max(1, view.size))
    width = depth + 1
    neighbours = view.search(queries, width, allowed=allowed, windows=windows)
    while np.any((neighbours.ids[:, -1] >= 0) & (neighbours.scores[:, -1] == neighbours.scores[:, depth - 1])):
        width *= 2
        neighbours = view.search(queries, width, allowed=allowed, windows=windows)
    good = (neighbours.ids >= 0) & (neighbours.scores >= neighbours.scores[:, depth - 1 : depth])
    return [
        Ranking(ids[keep].tolist(), scores[keep].tolist())
        for ids, scores, keep in zip(neighbours.ids, neighbours.scores, good, strict=True)
    ]


def lexical(store: Store, queries: Sequence[str], depth: int, where: Filter | None) -> list[Ranking]:
    """Return the ``depth`` best contents of every query by their words (BM25)."""
    results = [store.documents.lexical(query, depth, where) for query in queries]
    return [Ranking([hit.content_id for hit in hits], [hit.score for hit in hits]) for hits in results]


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
    known = [dict(zip(part.ranking.ids, part.ranking.scores, strict=True)) for part in parts]
    fused = dict.fromkeys([content_id for part in parts for content_id in part.ranking.ids], 0.0)
    for part, scores in zip(parts, known, strict=True):
        for content_id in fused:
            score = scores.get(content_id, part.others.get(content_id, part.floor))
            fused[content_id] += part.weight * score
    ids = sorted(fused, key=lambda content_id: (-fused[content_id], content_id))
    return Ranking(ids, [fused[content_id] for content_id in ids])


def as_results(
    store: Store, queries: Sequence[str], request: SearchRequest, where: Filter | None, found: Answers, started: float
) -> list[SearchResult]:
    """Turn the contents found for each query into hits: the first k, ties by document id.

    Of a document's parts, the best is taken. Equal texts are one hit, of the first of their documents.
    """
    wanted = request.k + (request.like is not None)
    rankings = [beginning(store, where, answer.ranking, wanted) for answer in found.answers]
    contents = sorted({content_id for ranking in rankings for content_id in ranking.ids})
    documents = store.documents.expand(contents, where)
    words = {} if found.view is None else store.vectors.words(found.view.view_id, contents)
    took = (time.perf_counter() - started) * 1000
    results = []
    for query, answer, ranking in zip(queries, found.answers, rankings, strict=True):
        toward = answer.vector
        best = best_vectors(store, found.view.view_id, ranking.ids, toward) if found.view and toward is not None else {}
        hits = [
            Hit(
                document,
                fused if answer.scored else best[content_id].cosine if content_id in best else None,
                fused,
                shown_words(words.get(content_id, ()), document.text, request.instruction or "", found.answer_words),
                dense_rank=answer.dense.get(content_id),
                lexical_rank=answer.lexical.get(content_id),
                part=best[content_id].part if content_id in best else None,
                equal=equal,
            )
            for content_id, fused in zip(ranking.ids, ranking.scores, strict=True)
            for document, equal in first_of_equal(documents.get(content_id, ()), besides=request.like)
        ]
        hits.sort(key=order)
        results.append(
            SearchResult(
                query,
                request.instruction,
                None if found.view is None else found.view.view_id,
                found.path,
                request.mode,
                by_parent(store, hits)[: request.k],
                took,
                found.steps,
            )
        )
    return results


def beginning(store: Store, where: Filter | None, ranking: Ranking, wanted: int) -> Ranking:
    """Return the beginning of a ranking with so many texts of documents, and all that ties with its last content."""
    if not store.parts:
        return cut(ranking, wanted)
    wholes = store.documents.wholes(ranking.ids, where)
    met: set[int] = set()
    for depth, content_id in enumerate(ranking.ids, start=1):
        met.update(wholes.get(content_id, ()))
        if len(met) >= wanted:
            return cut(ranking, depth)
    return ranking


def places(ids: Sequence[int]) -> dict[int, int]:
    """Return the place of every content in a ranking, from 1."""
    return {content_id: place for place, content_id in enumerate(ids, start=1)}


def first_of_equal(
    documents: Sequence[Document], *, besides: str | None = None
) -> Iterator[tuple[Document, Sequence[str]]]:
    """Yield the first of some documents of one text with the ids of the others; parts one by one.

    They are as `Documents.expand` gives them for a content; that of the id ``besides`` is left out.
    """
    wanted = [document for document in documents if document.parent_id != besides]
    yield from ((document, ()) for document in wanted if document.part)  # equal sentences stand in different documents
    if wholes := [document for document in wanted if not document.part]:
        yield wholes[0], [whole.id for whole in wholes[1:]]


def order(hit: Hit) -> tuple[float, str, int]:
    """Return what hits are sorted by: the best first, then by document, then by place in it."""
    return -hit.fused, *place(hit.document)


def by_parent(store: Store, hits: Sequence[Hit]) -> list[Hit]:
    """Return hits of embedded documents, best first, with the best part of each text as a hit of its first document."""
    best: dict[str, Hit] = {}
    for hit in hits:
        best.setdefault(hit.document.parent_id, hit)
    parents = [id for id, hit in best.items() if hit.document.part]
    wholes = store.documents.get(parents) if parents else {}
    if len(wholes) < len(parents):
        raise store.inspection.hidden("documents")
    of_text: dict[str, list[str]] = {}
    for id, hit in best.items():
        of_text.setdefault(wholes.get(id, hit.document).text, []).extend([id, *hit.equal])
    return [_whole_hit(best[first], wholes.get(first), others) for first, *others in of_text.values()]


def _whole_hit(hit: Hit, whole: Document | None, equal: Sequence[str]) -> Hit:
    """Return the hit of a document, given that of its best part; None where it was found whole."""
    document = hit.document
    if whole is None or document.part is None:
        return replace(hit, equal=equal)
    return replace(hit, document=whole, unit=document, part=document.part.span, equal=equal)
