"""A search on its way from its first answer to one that does not change: what is carried from round to round."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import RetrieverError
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.results import SearchResult
from retriever.core.types import Embeddings
from retriever.core.unanswered import empty_answer
from retriever.index.encoding import OnTexts
from retriever.index.search.lazy import Found, Queries
from retriever.index.search.rankings import Answer, Answers, Ranking, beginning
from retriever.index.sources.catalog import Sources
from retriever.store.database import Store
from retriever.store.filters import Filter
from retriever.store.views import View


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with its queries and its parsed filter.

    Attributes:
        queries: what is looked for.
        request: all other options.
        where: its filter.
        started: when it came (`time.perf_counter`).
        anew: whether it is ranked anew, whatever it settled on before.
    """

    queries: Sequence[str]
    request: SearchRequest
    where: Filter | None
    started: float
    anew: bool = False


@dataclass(slots=True)
class Reading:
    """A search under an instruction whose view lacks texts, from its first answer on; its mode is chosen.

    Attributes:
        asked: the request.
        queries: its queries as vectors.
        found: what the first answer is made of.
        most: rounds that may be read.
        since: the largest content id when it settled before: only later texts are read. 0 where it did not.
        on_texts: told of texts that are read.
        read: texts that were read.
        total: most texts that are read, known from the first round on.
        tried: texts that were read or asked about, with or without success.
        fault: why a language model cannot be asked; None where it can.
    """

    asked: Asked
    queries: Queries
    found: Found
    most: int
    since: int = 0
    on_texts: OnTexts | None = None
    read: int = 0
    total: int = 0
    tried: set[int] = field(default_factory=set)
    fault: RetrieverError | None = None

    def serves(self, sources: Sources) -> bool:
        """Return whether the same source serves the instruction as when the queries came, beside the same base view."""
        base, source = sources.view(sources.base), sources.of(self.asked.request.instruction or "")
        return base is not None and base.view_id == self.queries.base.view_id and source == self.queries.source


@dataclass(frozen=True, slots=True)
class Round:
    """An answer to a search, and the reading that it goes on with; None where it does not."""

    answers: Answers
    results: list[SearchResult]
    reading: Reading | None = None


def same_hits(before: Sequence[SearchResult], after: Sequence[SearchResult]) -> bool:
    """Return whether two rounds gave the same hits in the same order."""
    return [result.ids for result in before] == [result.ids for result in after]


def changed_hits(before: Sequence[SearchResult], after: Sequence[SearchResult]) -> int:
    """Return how many hits of some results were not among those of the round before."""
    pairs = zip(before, after, strict=True)
    return sum(len(set(new.ids).difference(old.ids)) for old, new in pairs)


def lacks_answers(queries: Queries, results: Sequence[SearchResult]) -> bool:
    """Return whether hits under a question in words are of texts that nobody read, or that answer nothing.

    A query that is an empty answer looks for the latter.
    """
    if not queries.source.in_words:
        return False
    sought = [result.hits for result in results if empty_answer(result.query) is None]
    return any(not hit.words or empty_answer(hit.words[0]) for hits in sought for hit in hits)


def _digest(query: str, search: Asked, options: SearchOptions) -> bytes:
    """Return what tells a search from others of the same instruction."""
    request = replace(search.request, query=query, instruction=None, reader=None, like=None)
    return sha256(repr((request, search.request.like, options)).encode()).digest()


def note_settled(store: Store, asked: Asked, options: SearchOptions, last: Round, *, ranked: bool) -> None:
    """Note the rankings that searches have settled on, for when they are asked again.

    Where they are not ``ranked`` as they should be, it is noted that there is nothing more to read for them.
    """
    if last.answers.view is None:
        return
    wanted = asked.request.k + (asked.request.like is not None)
    for query, answer in zip(asked.queries, last.answers.answers, strict=True):
        first = beginning(store, asked.where, answer.ranking, wanted)
        rows = [
            [content_id, float(score), answer.dense.get(content_id), answer.lexical.get(content_id)]
            for content_id, score in zip(first.ids, first.scores, strict=True)
        ]
        noted = rows if ranked else None
        put = partial(store.settled.put, last.answers.view.view_id, _digest(query, asked, options), noted)
        store.best_effort_write(put)


@dataclass(frozen=True, slots=True)
class Noted:
    """A search that has settled before: its answers where they still hold, and the largest content id by then."""

    answers: Answers | None
    newest: int


def noted_answers(
    store: Store,
    asked: Asked,
    options: SearchOptions,
    view: View,
    shown: Callable[[], Embeddings],
    *,
    in_words: bool,
) -> Noted | None:
    """Return the rankings that searches settled on in a view; None where one has not.

    ``shown`` gives the queries' vectors (n, dim), which the scores come from. Vectors that were taken out of the view
    are made again of stored answers ``in_words``; else texts are read for them again.
    """
    noted = [store.settled.get(view.view_id, _digest(query, asked, options)) for query in asked.queries]
    rows: list[Any] = [each.ranking for each in noted if each is not None]
    if len(rows) < len(noted):
        return None
    newest = min(each.newest if in_words or not each.removed else 0 for each in noted if each is not None)
    if None in rows:
        return Noted(None, newest)
    with suppress(TypeError, ValueError):  # an archive can hold anything
        pairs = zip(rows, shown(), strict=True)
        return Noted(Answers(view, "lazy", [_noted(ranking, vector) for ranking, vector in pairs]), newest)
    return None


def _noted(rows: list[tuple[int, float, int | None, int | None]], vector: NDArray[np.float32]) -> Answer:
    ranking = Ranking([row[0] for row in rows], [row[1] for row in rows])
    dense = {content_id: place for content_id, _, place, _ in rows if place is not None}
    return Answer(ranking, vector, dense, {content_id: place for content_id, *_, place in rows if place is not None})
