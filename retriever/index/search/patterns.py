"""The texts of an index that a regular expression is found in."""

import time

from retriever.core.patterns import TextPattern
from retriever.core.requests import SearchRequest
from retriever.core.results import Hit, SearchResult
from retriever.index.filtering import request_filter
from retriever.index.search.rankings import by_parent, first_of_equal, order
from retriever.index.selection import require_fitting, selected_contents
from retriever.store.database import Store
from retriever.store.filter_tree import TextsAmong
from retriever.store.filters import Filter

_AT_ONCE = 1000  # texts held at once


def counted(store: Store, pattern: TextPattern, where: Filter | None) -> dict[int, int]:
    """Return by content id how often a pattern is in a text, of those texts that hold it.

    Texts without a document that the filter accepts are not looked at.

    Raises:
        UsageError: the pattern takes too long.
        FilterError: the filter names an unknown field.
    """
    ids = selected_contents(store, where, None)
    counts = {}
    for start in range(0, len(ids), _AT_ONCE):
        for content_id, text in store.documents.texts(ids[start : start + _AT_ONCE]).items():
            if times := pattern.count(text):
                counts[content_id] = times
    return counts


def holding(store: Store, regex: str | None, where: Filter | None) -> Filter | None:
    """Return a filter that also asks for a regular expression in the text; errors as `counted`."""
    if regex is None:
        return where
    counts = counted(store, TextPattern(regex), where)
    return Filter("", TextsAmong(tuple(counts))) if where is None else where.among(counts)


def found_by_pattern(store: Store, request: SearchRequest) -> SearchResult:
    """Return the documents that a request's regular expression is in most often, by id where equally often.

    How often is what ``fused`` says, of a divided document for its best part. There is no query. Errors as `counted`.
    """
    started = time.perf_counter()
    condition = request_filter(store, request.where)
    with store.snapshot():
        counts = counted(store, TextPattern(request.regex or ""), condition)
        groups = store.documents.expand(_foremost(counts, store.parts.reach(request.k)), condition)
        if not groups:
            require_fitting(store, condition)
        hits = [
            Hit(first, None, float(counts[content_id]), equal=equal)
            for content_id, documents in groups.items()
            for first, equal in first_of_equal(documents)
        ]
        best = by_parent(store, sorted(hits, key=order))[: request.k]
    return SearchResult("", None, None, "base", "lexical", best, (time.perf_counter() - started) * 1000)


def _foremost(counts: dict[int, int], k: int) -> list[int]:
    """Return the contents with the k highest counts, and all that tie with the last of them."""
    least = sorted(counts.values(), reverse=True)[:k][-1:]
    return [content_id for content_id, times in counts.items() if least and times >= least[0]]
