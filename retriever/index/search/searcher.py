"""Answering queries: by words, in a view that has every text, or under an instruction whose view lacks some.

A search goes through this module from top to bottom. What its first phase finds (`lazy.Found`) is carried to the last,
so that nothing is searched for twice.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from retriever.core.errors import (
    ConsentError,
    EncoderError,
    EndpointError,
    IndexDamagedError,
    ReadingLimitError,
    RetrieverError,
)
from retriever.core.requests import SearchRequest
from retriever.core.results import SearchPath, SearchResult, Settling
from retriever.index.encoding import OnTexts
from retriever.index.filtering import request_filter
from retriever.index.opened import Opened
from retriever.index.search.grading import graded
from retriever.index.search.lazy import Found, as_vectors, mostly_filled, state_of
from retriever.index.search.patterns import holding
from retriever.index.search.ranker import Ranker, auto_mode, steps_of
from retriever.index.search.rankings import Answer, Answers, Ranking, as_results, places
from retriever.index.search.rounds import Rounds
from retriever.index.search.settling import (
    Asked,
    Reading,
    Round,
    changed_hits,
    lacks_answers,
    note_settled,
    noted_answers,
    same_hits,
)
from retriever.index.search.tiers import in_tiers, with_tiers
from retriever.index.selection import require_fitting
from retriever.index.sources.answers import Answers as AnswersInWords
from retriever.index.sources.answers import of_model
from retriever.index.sources.catalog import Sources, sources_of
from retriever.index.sources.filling import catch_up, encode_queries
from retriever.index.sources.source import Source

T = TypeVar("T")
AWAY = (ConsentError, EndpointError, ReadingLimitError)
"""Why an encoder that is elsewhere cannot be asked: what is stored is searched then."""


def _with_fault(results: Sequence[SearchResult], fault: RetrieverError) -> list[SearchResult]:
    """Return results as final ones, and why they are no better."""
    return [replace(result, final=True, reader_fault=fault) for result in results]


class Searcher:
    """Searches one index by what serves its instructions, or by other ``sources``; language models are asked or not."""

    def __init__(self, opened: Opened, sources: Callable[[], Sources] | None = None, *, asks: bool = True) -> None:
        self._opened = opened
        self._sources = sources or (lambda: opened.sources)
        self._store, self._views, self._options = opened.store, opened.views, opened.search_options
        self._asks = asks
        self._ranker = Ranker(self._store, self._views, self._options)
        self._rounds = Rounds(opened, self._sources, self._ranker, asks=asks)

    def search(
        self, queries: Sequence[str], request: SearchRequest, on_texts: OnTexts | None = None
    ) -> Iterator[list[SearchResult]]:
        """Yield one result per query; where the instruction's view lacks texts, a first answer and then the final one.

        Each answer comes from one state of the database, whatever is written meanwhile. Where the index changes its
        encoder between the two, the final one is searched for from the start.

        Args:
            queries: what is looked for; with ``like``, the text of that document.
            request: all other options.
            on_texts: told how many texts are read, and of how many; what it raises ends the search.

        Raises:
            FilterError: the filter cannot be parsed, names an unknown field, has values of a type it never holds, or
                asks for answers that there are none of (`request_filter`).
            EncoderError: steps are asked for and the encoder has none.
            UsageError: the instruction is too long, or the regular expression is none or takes too long.
        """
        search = self._asked_now(queries, request)
        first = self._steadily(lambda: self._first(search))
        yield first.results
        while first.reading is not None:
            if (yield from self._go_on(first.reading, first.results, on_texts)):
                return
            first = self._steadily(lambda: self._first(search))
            if first.reading is None:
                yield first.results

    def stored(self, queries: Sequence[str], request: SearchRequest) -> list[SearchResult]:
        """Return one result per query by what is stored for the instruction: nothing is read, and nobody is asked.

        It is not final where a search would read on. Arguments and errors as for `search`.
        """
        first = self._steadily(lambda: self._first(self._asked_now(queries, request)))
        if first.reading is None:
            return first.results
        last = self._by_stored(first.reading)
        return [replace(result, final=False) for result in (last or first).results]

    def anew(self, queries: Sequence[str], request: SearchRequest, *, keep: bool) -> list[SearchResult]:
        """Return one result per query by what is stored for the instruction by now, whatever the search settled on.

        Nothing is read, and nobody is asked. With ``keep`` the search gives these results from now on. Other arguments
        and errors as for `search`.
        """
        search = replace(self._asked_now(queries, request), anew=True)
        first = self._steadily(lambda: self._first(search))
        reading = first.reading
        last = None if reading is None else self._by_stored(reading)
        if keep and reading is not None and last is not None:
            note_settled(self._store, reading.asked, self._options, last, ranked=True)
        return (last or first).results

    def _by_stored(self, reading: Reading) -> Round | None:
        """Answer from what the instruction's view holds by now; None where it holds nothing, or serves no longer."""
        source = reading.queries.source
        if source.in_words:
            catch_up(reading.queries.sources, source)
        view = self._views.of(reading.queries.sources, source)
        if view is None or not view.coverage(reading.found.allowed):
            return None
        try:
            reading.queries.shown()  # now, and not while a state of the database is held
        except AWAY:
            return None
        return self._steadily(lambda: self._final(reading))

    def _asked_now(self, queries: Sequence[str], request: SearchRequest) -> Asked:
        """Return a request with its filter as of now, and the time."""
        where = request_filter(self._store, request.where, request.instruction)
        return Asked(queries, request, holding(self._store, request.regex, where), time.perf_counter())

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

    def _first(self, search: Asked) -> Round:
        """Answer from what is stored: by words alone, or go on to the vectors."""
        self._store.inspection.require_documents_listed()
        if search.request.mode == "auto":
            search = replace(search, request=replace(search.request, mode=auto_mode(search.request)))
        now = self._capped(search)
        if now.request.mode == "lexical":
            return self._by_words_alone(now)
        try:
            return self._by_vectors(search, now, self._ranker.by_words(now))
        except AWAY as error:
            if now.request.mode == "dense" or now.request.like is not None:
                raise
            words = self._by_words_alone(replace(now, request=replace(now.request, mode="lexical")))
            return replace(words, results=_with_fault(words.results, error))

    def _by_words_alone(self, now: Asked) -> Round:
        """Answer by words, for which no encoder is loaded; of the instruction counts whether texts answer it."""
        instruction = now.request.instruction
        source = sources_of(self._store).active(instruction) if instruction else None
        view = self._views.loaded(source.view) if source and source.in_words and source.view else None
        pool = self._ranker.by_words(now, 0 if view is None else len(view.empty_answers))
        answers = Answers(None, "base", [Answer(best, None, {}, places(best.ids)) for best in pool.words])
        return self._answered(now, answers if view is None else in_tiers(answers, now.queries, view))

    def _by_vectors(self, search: Asked, now: Asked, pool: Found) -> Round:
        """Answer from the view that serves the instruction; where that lacks most texts, from the base view."""
        request, sources = now.request, self._sources()
        source = sources.searched(request)
        base, view = sources.base, self._views.of(sources, source)
        weighed = source.evidence and request.like is None
        whole = view is not None and (source == base or view.coverage(pool.allowed) == 1)
        if view is not None and whole and self._judged(source, request) is None:
            like = request.like is not None
            (vectors,) = encode_queries([source], now.queries, request.steps, documents=like)
            if weighed:
                pool = replace(pool, beside=self._ranker.beside(now, sources, pool))
            return self._answered(now, self._ranker.in_view(now, source, view, vectors, pool))
        base_view = self._views.of(sources, base)
        if base_view is None:
            nothing = Answer(Ranking([], []), None, {}, {})
            return self._answered(now, Answers(None, "base", [nothing] * len(now.queries)))
        queries = as_vectors(now.queries, request, sources, source, base_view.view, weighed=weighed)
        noted = (
            None
            if view is None or search.anew
            else noted_answers(self._store, search, self._options, view.view, queries.shown, in_words=source.in_words)
        )
        settled = None if noted is None else noted.answers
        if settled is not None and (search.where is None or search.where.known is None):
            path: SearchPath = "complete" if whole else "lazy"
            steps, answer_words = steps_of(source, request), source.answer_words
            return self._answered(now, replace(settled, path=path, steps=steps, answer_words=answer_words))
        pool = self._ranker.in_base(request, queries, pool)
        if view is not None and (mostly_filled(view, pool.allowed) or noted is not None or not queries.read):
            answers = self._ranker.in_view(now, source, view, queries.shown(), pool)
        else:
            answers = self._ranker.fused(request, base_view, pool.plain, queries.plain, replace(pool, beside=None))
            answers = in_tiers(answers, now.queries, view) if view is not None and source.in_words else answers
        ended = settled is not None and self._judged(source, request) is None  # a filter by answers is judged anew
        if ended or not queries.read:
            return self._answered(now, answers)
        most = self._options.costly_rounds if source.in_words else self._options.rounds
        since = 0 if noted is None else noted.newest
        return self._answered(now, answers, Reading(search, queries, pool, most, since))

    def _go_on(
        self, reading: Reading, first: list[SearchResult], on_texts: OnTexts | None
    ) -> Generator[list[SearchResult], None, bool]:
        """Yield answers as more texts are read, until the hits no longer change.

        Where the encoder that reads them is away, the last answer, of ``first`` or after it, is the final one.

        Returns:
            Whether the last was final; not where the queries' vectors are not of the index's views any longer.
        """
        reading.on_texts = on_texts
        before: list[SearchResult] | None = None
        for number in range(reading.most):
            try:
                if not reading.serves(self._sources()):
                    return False
                reading.queries.shown()  # now, and not while a state of the database is held
                wanted, read = self._rounds.read(reading, number)
                last = self._steadily(lambda: self._final(reading))
            except RetrieverError as error:
                if not reading.serves(self._sources()):
                    return False
                if not isinstance(error, AWAY):
                    raise
                yield _with_fault(before or first, error)
                return True
            if last is None:
                return False
            results = last.results
            whole = all(result.path == "complete" for result in results)
            same = before is not None and read > 0 and same_hits(before, results)
            same = same and not lacks_answers(reading.queries, results)
            exhausted = not wanted and reading.read == len(reading.tried)
            changed = None if before is None else changed_hits(before, results)
            stopped = reading.fault is not None  # what cannot be read now may be another time
            settled = not stopped and (whole or exhausted or same)
            final = settled or stopped or not read or number + 1 == reading.most
            if final and not stopped:
                last = self._graded(reading, last)
                results = last.results
            if settled or (final and read and not stopped):  # asked again, the search gives the same list
                note_settled(self._store, reading.asked, self._options, last, ranked=reading.fault is None)
            progress = Settling(number + 1, reading.read, changed, settled and reading.fault is None)
            yield [replace(result, final=final, settling=progress, reader_fault=reading.fault) for result in results]
            if final:
                return True
            before = results
        return True

    def _judged(self, source: Source, request: SearchRequest) -> AnswersInWords | None:
        """Return the source whose answers a language model judges for a search; None where none does."""
        return of_model(source) if self._asks and request.judge and request.like is None else None

    def _graded(self, reading: Reading, last: Round) -> Round:
        """Have the first answers judged, and put the texts in the tiers of the grades.

        Where the language model cannot be asked, the reading notes why, and the list stays.
        """
        asked = self._capped(reading.asked)
        source = self._judged(reading.queries.source, asked.request)
        if source is None:
            return last
        pairs = zip(asked.queries, last.answers.answers, strict=True)
        try:
            tiers = [graded(self._opened, source, query, answer.ranking) for query, answer in pairs]
        except (ConsentError, EncoderError, ReadingLimitError) as error:
            reading.fault = error
            return last
        return self._steadily(lambda: self._answered(asked, with_tiers(last.answers, tiers)))

    def _final(self, reading: Reading) -> Round | None:
        """Answer from the instruction's view as it is now; what was found before is used where it still holds."""
        now, queries, pool = self._capped(reading.asked), reading.queries, reading.found
        view = self._views.of(queries.sources, queries.source)
        if view is None or not reading.serves(self._sources()):
            return None
        if pool.state != state_of(self._store, queries.base):
            pool = self._ranker.in_base(now.request, queries, self._ranker.by_words(now))
        return self._answered(now, self._ranker.in_view(now, queries.source, view, queries.shown(), pool))

    def _capped(self, search: Asked) -> Asked:
        """Return the request for no more hits than there are documents in the state that is read."""
        k = max(1, self._store.documents.count_to(search.request.k))
        return replace(search, request=replace(search.request, k=k))

    def _answered(self, search: Asked, answers: Answers, reading: Reading | None = None) -> Round:
        results = as_results(self._store, search.queries, search.request, search.where, answers, search.started)
        if not any(result.hits for result in results):
            require_fitting(self._store, search.where)
        known = None if search.where is None else search.where.known
        return Round(answers, [replace(each, final=reading is None, known_answers=known) for each in results], reading)
