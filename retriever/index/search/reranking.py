"""A second opinion on the first hits: a reranker reads the query with each of them, once an index, query and text.

What it gave is kept by the hashes of all that it read: a text that changed is read anew.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256

from retriever.core.errors import RetrieverError
from retriever.core.fingerprint import content_hash
from retriever.core.requests import SearchRequest
from retriever.core.results import Hit, SearchResult
from retriever.encoders.rerankers import Reranker, load_reranker
from retriever.index.opened import Opened


def widened(opened: Opened, request: SearchRequest) -> SearchRequest:
    """Return a request for as many hits as its reranker reads; the search itself knows of no reranker."""
    if request.rerank is None:
        return request
    return replace(request, k=max(request.k, opened.search_options.reranked), rerank=None)


def reranked(opened: Opened, result: SearchResult, request: SearchRequest, *, asks: bool) -> SearchResult:
    """Return the first k hits of a `widened` request, those of a final result in the order of its reranker's scores.

    Where the reranker fails the hits stay in their order, and the result says why. Unless it ``asks``, scores that are
    kept order the hits, where all of them are.
    """
    if request.rerank is None:
        return result
    if result.final:
        result = _scored(opened, result, request.rerank, asks=asks)
    return replace(result, hits=result.hits[: request.k])


def _scored(opened: Opened, result: SearchResult, name: str, *, asks: bool) -> SearchResult:
    """Return a result with the hits that a reranker reads in the order of its scores; the others follow as they are."""
    began, depth = time.perf_counter(), opened.search_options.reranked
    first = result.hits[:depth]
    try:
        reranker = load_reranker(name, device=opened.device)
        scores = _scores(opened, reranker, result, first, asks=asks) if first else []
    except RetrieverError as error:
        return replace(result, rerank_fault=error)
    if scores is None:
        return result
    scored = [replace(hit, rerank_score=score) for hit, score in zip(first, scores, strict=True)]
    best_first = sorted(scored, key=lambda hit: -(hit.rerank_score or 0.0))
    took = result.took_ms + 1000 * (time.perf_counter() - began)
    return replace(result, hits=[*best_first, *result.hits[depth:]], reranked_by=name, took_ms=took)


def _scores(
    opened: Opened, reranker: Reranker, result: SearchResult, hits: Sequence[Hit], *, asks: bool
) -> list[float] | None:
    """Return the score of each hit, of those that are not kept by asking; None where nobody may be asked."""
    question = f"{result.instruction} {result.query}" if result.instruction else result.query
    calls = [_call(reranker, question, hit.passage) for hit in hits]
    texts = [content_hash((hit.unit or hit.document).text) for hit in hits]
    name, table = reranker.place.name, opened.store.reranked
    known = table.get(name, dict(zip(calls, texts, strict=True)))
    new = {call: place for place, call in enumerate(calls) if call not in known}
    if new and not asks:
        return None
    if new:
        passages = [hits[place].passage for place in new.values()]
        given = dict(zip(new, opened.asker.score(reranker, question, passages, opened.budget), strict=True))
        with suppress(RetrieverError):  # another process may write for long; the scores serve all the same
            table.put(name, [(call, texts[place], given[call]) for call, place in new.items()])
        known |= given
    return [known[call] for call in calls]


def _call(reranker: Reranker, question: str, passage: str) -> bytes:
    """Return the hash of all that a reranker reads, and of what it is."""
    return sha256(repr((reranker.fingerprint, question, passage)).encode()).digest()
