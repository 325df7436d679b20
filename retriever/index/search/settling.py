"""A search on its way from its first answer to one that does not change: what is carried from round to round."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256

from retriever.core.requests import SearchRequest
from retriever.core.results import SearchResult
from retriever.index.encoding import OnTexts
from retriever.index.search.lazy import Found, Queries
from retriever.store.database import Store
from retriever.store.filters import Filter
from retriever.store.views import View


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with its queries and its parsed filter, and when it came (`time.perf_counter`)."""

    queries: Sequence[str]
    request: SearchRequest
    where: Filter | None
    started: float


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A search under an instruction whose view lacks texts, after its first answer; its mode is chosen."""

    asked: Asked
    queries: Queries
    found: Found


@dataclass(frozen=True, slots=True)
class First:
    """A first answer, and what to go on with where it is not the last."""

    results: list[SearchResult]
    unfinished: Unfinished | None = None


@dataclass(slots=True)
class Reading:
    """The reading of a search under way.

    Attributes:
        begun: the search.
        on_texts: told of texts that are read.
        read: texts that were read.
        tried: texts that a reader was asked about, whether it answered or not.
    """

    begun: Unfinished
    on_texts: OnTexts | None
    read: int = 0
    tried: set[int] = field(default_factory=set)


def same_hits(before: Sequence[SearchResult], after: Sequence[SearchResult]) -> bool:
    """Return whether two rounds gave the same hits in the same order."""
    return _ids(before) == _ids(after)


def _ids(results: Sequence[SearchResult]) -> list[list[str]]:
    """Return the ids of the hits of each result, best first."""
    return [[hit.document.id for hit in result.hits] for result in results]


def changed_hits(before: Sequence[SearchResult], after: Sequence[SearchResult]) -> int:
    """Return how many hits of some results were not among those of the round before."""
    pairs = zip(_ids(before), _ids(after), strict=True)
    return sum(len(set(new).difference(old)) for old, new in pairs)


def _digest(query: str, search: Asked) -> bytes:
    """Return what tells a search from others of the same instruction."""
    request = replace(search.request, query=query, instruction=None, reader=None, like=None)
    return sha256(repr((request, search.request.like)).encode()).digest()


def note_settled(store: Store, begun: Unfinished) -> None:
    """Note that the searches have settled, for when they are asked again."""
    view = begun.queries.sources.view(begun.queries.source)
    if view is not None:
        for query in begun.asked.queries:
            store.best_effort_write(partial(store.settled.put, view.view_id, _digest(query, begun.asked)))


def has_settled(store: Store, asked: Asked, view: View) -> bool:
    """Return whether the searches have settled in a view that has lost nothing since."""
    return all(store.settled.holds(view.view_id, _digest(query, asked)) for query in asked.queries)
