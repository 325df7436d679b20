"""Answering queries: by words, in a view that has every text, or under an instruction whose view lacks some.

A search goes through this module from top to bottom. What its first phase finds (`lazy.Found`) is carried to the last,
so that nothing is searched for twice.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

import numpy as np

from retriever.core.errors import IndexDamagedError, RetrieverError
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.results import Mode, SearchPath, SearchResult
from retriever.core.types import Embeddings
from retriever.index.encoding import OnTexts, encode_views, texts_read, view_key, with_steps
from retriever.index.open_views import OpenViews
from retriever.index.readers import Readers
from retriever.index.search.auto import auto_mode
from retriever.index.search.beside import Beside, has_a_say, nearest_beside, plain_queries
from retriever.index.search.fusion import Fusion
from retriever.index.search.lazy import Found, Queries, learned_rankings, mostly_filled, state_of, texts_to_read
from retriever.index.search.patterns import holding
from retriever.index.search.rankings import Answer, Answers, Ranking, as_results, cut, lexical, nearest
from retriever.index.search.steering import steered
from retriever.index.search.view_searcher import LoadedView
from retriever.store.database import Store
from retriever.store.filters import Filter, optional_filter
from retriever.store.views import View

T = TypeVar("T")

STEP = 1e-4
"""Of the score between two texts that a view lacks, in the order of the candidates."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request with its filter parsed, and when it came (`time.perf_counter`)."""

    request: SearchRequest
    where: Filter | None
    started: float


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """A search under an instruction whose view lacks texts, after its first answer; its mode is chosen."""

    asked: _Asked
    queries: Queries
    found: Found


@dataclass(frozen=True, slots=True)
class _First:
    """A first answer, and what to go on with where it is not the last."""

    results: list[SearchResult]
    unfinished: _Unfinished | None = None


class Searcher:
    """Searches one index.

    Args:
        store: its database.
        views: its views.
        readers: gives the index's encoders, each loaded when first needed.
        options: how far a search goes.
    """

    def __init__(self, store: Store, views: OpenViews, readers: Callable[[], Readers], options: SearchOptions) -> None:
        self._store = store
        self._views = views
        self._readers = readers
        self._options = options
        self._fusion = Fusion(store, views.calibration, options)

    def search(self, request: SearchRequest, on_texts: OnTexts | None = None) -> Iterator[list[SearchResult]]:
        """Yield one result per query; where the instruction's view lacks texts, a first answer and then the final one.

        Each answer comes from one state of the database, whatever is written meanwhile. Where the index changes its
        encoder between the two, the final one is searched for from the start. ``on_texts`` is told how many are read
        of the texts that the final one needs; what it raises ends the search.

        Raises:
            FilterError: the filter cannot be parsed or names an unknown field.
            EncoderError: steps are asked for and the encoder has none.
            UsageError: the instruction is too long, or the regular expression is none or takes too long.
        """
        started = time.perf_counter()
        asked = _Asked(request, self._holding(request), started)
        first = self._steadily(lambda: self._first(asked))
        yield first.results
        while first.unfinished is not None:
            final = self._finished(first.unfinished, on_texts)
            if final is not None:
                yield final
                return
            first = self._steadily(lambda: self._first(asked))
            if first.unfinished is None:
                yield first.results

    def _holding(self, request: SearchRequest) -> Filter | None:
        """Return the filter of a request, which also asks for its regular expression."""
        return holding(self._store, request.regex, optional_filter(request.where))

    def _steadily(self, answer: Callable[[], T]) -> T:
        """Return an answer drawn from one state of the database.

        A file that this state names can be gone because a writer put another in its place; then the next state is
        asked. In a state that stays, it is damage.
        """
        while True:
            version = self._store.data_version()
            try:
                with self._store.snapshot():
                    return answer()
            except IndexDamagedError:
                if self._store.data_version() == version:
                    raise

    def _first(self, asked: _Asked) -> _First:
        """Answer from what is stored: by words alone, or go on to the vectors."""
        self._store.inspection.require_documents_listed()
        if asked.request.mode == "auto":
            asked = _in_mode(asked, auto_mode(asked.request))
        now = self._capped(asked)
        found = self._by_words(now)
        if now.request.mode == "lexical":
            return self._answered(now, Answers(None, "base", [Answer(one, None, [], one.ids) for one in found.words]))
        return self._by_vectors(asked, now, self._readers(), found)

    def _by_vectors(self, asked: _Asked, now: _Asked, readers: Readers, found: Found) -> _First:
        """Answer from the instruction's view; where that lacks most texts, from the base view.

        A view that has every text, and was taught or has one reader with the base view, needs no other encoder.
        """
        instruction = now.request.instruction
        own = self._store.views.find(readers.view_key(instruction))
        taught = self._views.taught.of(own)
        view = None if own is None else self._views.loaded(own if taught is None else taught.view)
        reader = with_steps(readers.reader(instruction), now.request.steps)
        steps = view_key(reader, "").steps
        if view is not None and (not view.view.key.instruction or view.coverage(found.allowed) == 1):
            vectors = reader.encode(now.request.queries, instruction=view.view.key.instruction)
            if taught is not None:
                vectors = taught.head.map(vectors, taught.reader(readers).encode(now.request.queries))
            elif has_a_say(now.request, readers, taught=False):
                found = replace(found, beside=self._beside(now.request, readers, found))
            return self._answered(now, self._in_view(now.request, view, vectors, found, steps))
        base = self._store.views.find(readers.view_key(""))
        if base is None:
            nothing = Answer(Ranking([], []), None, [], [])
            return self._answered(now, Answers(None, "base", [nothing] * len(now.request.queries)))
        if readers.two:
            speaks = has_a_say(now.request, readers, taught=taught is not None)
            plain = readers.base.encode(plain_queries(now.request) if speaks else now.request.queries)
            given = reader.encode(now.request.queries, instruction=instruction)
        else:
            plain, given = reader.encode_many(now.request.queries, [base.key.instruction, instruction])
        shown = given
        if taught is not None:
            beside = plain if taught.tuning is None else taught.reader(readers).encode(now.request.queries)
            shown = taught.head.map(given, beside)
        queries = Queries(readers, base, plain, given, shown, None if taught is None else taught.stored.identity, steps)
        found = self._in_base(now.request, queries, found)
        if view is not None and mostly_filled(view, found.allowed):
            answers = self._in_view(now.request, view, shown, found, steps)
        else:
            dense = [cut(one, self._depth(now.request)) for one in found.plain]
            plainly, loaded = replace(found, beside=None), self._views.loaded(base)
            answers = self._fused(now.request, loaded, dense, plain, steered(loaded, plain, now.request), plainly)
        return self._answered(now, replace(answers, steps=steps), _Unfinished(asked, queries, found))

    def _finished(self, begun: _Unfinished, on_texts: OnTexts | None) -> list[SearchResult] | None:
        """Return the final answer, or None where the queries' vectors are not of the index's views any longer."""
        try:
            if not self._serves(begun):
                return None
            view = self._read(begun, on_texts)
            return self._steadily(lambda: self._final(begun, view))
        except RetrieverError:
            if self._serves(begun):
                raise
            return None

    def _serves(self, begun: _Unfinished) -> bool:
        """Return whether the base view is the index's, and the instruction's view was taught nothing since."""
        readers = self._readers()
        base, own = (self._store.views.find(readers.view_key(one)) for one in ("", begun.asked.request.instruction))
        same = base is not None and base.view_id == begun.queries.base.view_id
        return same and self._head(own) == begun.queries.head

    def _head(self, view: View | None) -> str | None:
        """Return what tells what a view was taught from all else; None for nothing."""
        return None if view is None else self._store.heads.identity(view.view_id)

    def _read(self, begun: _Unfinished, on_texts: OnTexts | None) -> View:
        """Embed what the view of the instruction lacks, as far as the token budget reaches; return the view."""
        readers, instruction = begun.queries.readers, begun.asked.request.instruction
        view = self._store.views.ensure(readers.view_key(instruction), lazy=True)
        budget, found = self._options.token_budget, begun.found
        learns = readers.two and not mostly_filled(self._shown(view), found.allowed)
        rounds = [budget // 2, budget - budget // 2] if learns else [budget]
        read = 0
        for number, share in enumerate(rounds):
            if number:
                found = replace(found, learned=self._learned(begun, view))
            with self._store.snapshot():
                loaded = self._shown(view)
                chosen = texts_to_read(self._store, readers.question, loaded, found, self._options, share)
            if chosen.texts:
                texts = list(chosen.texts.values())
                after = len(texts) * (len(rounds) - 1 - number)  # about as many
                told = texts_read(readers.question, texts, on_texts, before=read, after=after)
                encoded = encode_views(readers.question, texts, [view.key.instruction], told)[0]
                self._views.taught.read_tuned(view, list(chosen.texts), readers)
                self._views.keep(view, list(chosen.texts), encoded)
                read += len(texts)
        return view

    def _learned(self, begun: _Unfinished, view: View) -> list[Ranking]:
        """Draw candidates by what the texts read so far teach."""
        with self._store.snapshot():
            if self._head(view) != begun.queries.head:
                return []
            loaded, base = self._shown(view), self._views.loaded(begun.queries.base)
            depth = max(self._options.candidates, self._depth(begun.asked.request))
            teachers = [base, *self._complete_beside(view)]
            return learned_rankings(self._store, teachers, loaded, begun.queries.shown, depth, begun.found.allowed)

    def _shown(self, view: View) -> LoadedView:
        """Return what is searched for the instruction of a view: the taught view where there is one."""
        return self._views.loaded(self._views.taught.shown(view))

    def _complete_beside(self, view: View) -> list[LoadedView]:
        """Return the view of another instruction by the same reader that was used last and has every text, if any."""
        others = [one for one in self._store.views.all() if not one.lazy and _of_one_reader(one, view)]
        recent = sorted(others, key=lambda one: (one.last_used, one.view_id), reverse=True)
        loaded = (self._views.loaded(one) for one in recent)
        return list(islice((one for one in loaded if one.complete), 1))

    def _final(self, begun: _Unfinished, view: View) -> list[SearchResult] | None:
        """Answer from the instruction's view as it is now; what was found before is used where it still holds."""
        now, queries, found = self._capped(begun.asked), begun.queries, begun.found
        if self._head(view) != queries.head:
            return None
        if found.state != state_of(self._store, queries.base):
            found = self._in_base(now.request, queries, self._by_words(now))
        answers = self._in_view(now.request, self._shown(view), queries.shown, found, queries.steps)
        return self._answered(now, answers).results

    def _by_words(self, asked: _Asked) -> Found:
        """Find what the filter allows and what the words of the queries find, where they have a say."""
        request = asked.request
        words = [Ranking([], []) for _ in request.queries]
        if request.mode != "dense" and request.like is None:
            depth = max(self._options.candidates, self._views.reach(request.k) + 1)
            words = lexical(self._store, request.queries, depth, asked.where)
        return Found(None if asked.where is None else self._store.documents.matching(asked.where), words)

    def _in_base(self, request: SearchRequest, queries: Queries, found: Found) -> Found:
        """Find what is nearest in the base view to the queries, under either instruction where one reader made both."""
        comparable = [queries.plain] if queries.readers.two else [queries.plain, queries.asked]
        depth = max(self._options.candidates, self._depth(request))
        base = self._views.loaded(queries.base)
        beside = nearest_beside(base, np.concatenate(comparable), request, depth, found.allowed)
        half = len(queries.plain)
        asked = beside.rankings[half:] or [Ranking([], []) for _ in beside.rankings]
        speaks = has_a_say(request, queries.readers, taught=queries.head is not None)
        state = state_of(self._store, queries.base)
        return replace(found, plain=beside.rankings[:half], asked=asked, state=state, beside=beside if speaks else None)

    def _beside(self, request: SearchRequest, readers: Readers, found: Found) -> Beside | None:
        """Ask the plain reader; None where there is no base view."""
        view = self._store.views.find(readers.view_key(""))
        if view is None:
            return None
        queries, depth = readers.base.encode(plain_queries(request)), self._depth(request, fused=True)
        return nearest_beside(self._views.loaded(view), queries, request, depth, found.allowed)

    def _in_view(
        self, request: SearchRequest, view: LoadedView, vectors: Embeddings, found: Found, steps: int | None
    ) -> Answers:
        """Find what is nearest in a view; less alike are candidates that the view lacks, in the base view's order."""
        towards = steered(view, vectors, request)
        dense = nearest(view, towards, self._depth(request, fused=found.beside is not None), found.allowed)
        if view.coverage(found.allowed) == 1 or not view.view.key.instruction:
            return replace(self._fused(request, view, dense, vectors, towards, found), steps=steps)
        answers = []
        every = zip(vectors, towards, dense, found.by_vectors(), found.words, strict=True)
        for number, (vector, toward, one, candidates, words) in enumerate(every):
            lacking = view.lacking(np.array(candidates.ids, dtype=np.int64)).tolist()
            last = min(one.scores, default=0.0)
            behind = Ranking(
                one.ids + lacking, one.scores + [last - STEP * place for place in range(1, len(lacking) + 1)]
            )
            ranking = self._fusion.together(view, toward, behind, found, number)
            answers.append(Answer(ranking, vector, behind.ids, words.ids))
        return Answers(view.view, "lazy", answers, steps)

    def _fused(
        self,
        request: SearchRequest,
        view: LoadedView,
        dense: Sequence[Ranking],
        vectors: Embeddings,
        towards: Embeddings,
        found: Found,
    ) -> Answers:
        """Return rankings by vectors of a whole view, together with those by words and by the plain reader."""
        path: SearchPath = "complete" if view.view.key.instruction else "base"
        every = enumerate(zip(towards, dense, strict=True))
        rankings = [self._fusion.together(view, *one, found, number) for number, one in every]
        pure = not (view.shift.any() or request.more or request.less or found.beside)
        scored = request.mode == "dense" and pure  # the rankings' numbers are the cosines
        answers = [
            Answer(ranking, None if scored else vector, one.ids, words.ids)
            for ranking, vector, one, words in zip(rankings, vectors, dense, found.words, strict=True)
        ]
        return Answers(view.view, path, answers)

    def _depth(self, request: SearchRequest, *, fused: bool = False) -> int:
        """Compute the depth to which the rankings of a request have to go; `rankings` makes hits of their beginning."""
        reach = self._views.reach(request.k + (request.like is not None))
        return max(self._options.candidates, reach + 1) if fused or request.mode == "hybrid" else reach

    def _capped(self, asked: _Asked) -> _Asked:
        """Return the request for no more hits than there are documents in the state that is read."""
        k = max(1, self._store.documents.count_to(asked.request.k))
        return replace(asked, request=replace(asked.request, k=k))

    def _answered(self, asked: _Asked, answers: Answers, unfinished: _Unfinished | None = None) -> _First:
        results = as_results(self._store, asked.request, asked.where, answers, asked.started)
        return _First(results, unfinished)


def _of_one_reader(one: View, other: View) -> bool:
    """Return whether two views are of different instructions and all else is the same."""
    return one.view_id != other.view_id and replace(one.key, instruction="") == replace(other.key, instruction="")


def _in_mode(asked: _Asked, mode: Mode) -> _Asked:
    return replace(asked, request=replace(asked.request, mode=mode))
