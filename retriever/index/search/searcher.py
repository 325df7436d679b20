"""Answering queries: by words, in a view that has every text, or under an instruction whose view lacks some.

A search goes through this module from top to bottom. What its first phase finds (`lazy.Found`) is carried to the last,
so that nothing is searched for twice.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import numpy as np

from retriever.core.errors import ConsentError, EncoderError, IndexDamagedError, ReadingLimitError, RetrieverError
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.results import SearchPath, SearchResult, Settling
from retriever.core.types import Embeddings, Ids
from retriever.index.asking.limits import KEPT_HINT
from retriever.index.encoding import OnTexts, texts_read, with_steps
from retriever.index.filtering import request_filter
from retriever.index.open_views import OpenViews
from retriever.index.search.auto import auto_mode
from retriever.index.search.beside import Beside, nearest_beside, plain_queries
from retriever.index.search.fusion import Fusion
from retriever.index.search.lazy import (
    Found,
    Queries,
    as_vectors,
    learned_rankings,
    mostly_filled,
    state_of,
    texts_to_ask,
    texts_to_read,
)
from retriever.index.search.patterns import holding
from retriever.index.search.rankings import Answer, Answers, Ranking, as_results, cut, lexical, nearest, places
from retriever.index.search.settling import (
    Asked,
    First,
    Reading,
    Round,
    Unfinished,
    changed_hits,
    note_settled,
    noted_answers,
    same_hits,
)
from retriever.index.search.view_searcher import LoadedView
from retriever.index.selection import require_fitting
from retriever.index.sources.answers import Answers as AnswersInWords
from retriever.index.sources.catalog import Sources
from retriever.index.sources.filling import catch_up, encode_queries
from retriever.index.sources.source import Source
from retriever.index.verdicts.judging import judge_view, sampled, wants_judging
from retriever.store.database import Store
from retriever.store.views import View

T = TypeVar("T")

Ask = Callable[[Source, Ids, OnTexts | None], int]
"""Has a language model answer about texts for a source; gives how many stay unread (`index.completing.ask`)."""

KEPT_AT_ONCE = 10
"""Texts that are read before they are stored where somebody is told of them, who can look (`Searcher.stored`)."""

STEP = 1e-4
"""Of the score between two texts that a view lacks, in the order of the candidates."""


class Searcher:
    """Searches one index.

    Args:
        store: its database.
        views: its views.
        sources: gives what serves instructions.
        options: how far a search goes.
        ask: has language models answer; None asks nobody.
    """

    def __init__(
        self,
        store: Store,
        views: OpenViews,
        sources: Callable[[], Sources],
        options: SearchOptions,
        ask: Ask | None = None,
    ) -> None:
        self._store = store
        self._views = views
        self._sources = sources
        self._options = options
        self._ask = ask
        self._fusion = Fusion(store, views.calibration, options)
        self._answer_fusion = Fusion(store, views.calibration, options.among_answers())

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
        while first.unfinished is not None:
            done = yield from self._rounds(first.unfinished, on_texts)
            if done:
                return
            first = self._steadily(lambda: self._first(search))
            if first.unfinished is None:
                yield first.results

    def stored(self, queries: Sequence[str], request: SearchRequest) -> list[SearchResult]:
        """Return one result per query by what is stored for the instruction: nothing is read, and nobody is asked.

        It is not final where a search would read on. Arguments and errors as for `search`.
        """
        first = self._steadily(lambda: self._first(self._asked_now(queries, request)))
        begun = first.unfinished
        if begun is None:
            return first.results
        if begun.queries.source.in_words:
            catch_up(begun.queries.sources, begun.queries.source)
        view = self._loaded(begun.queries.sources, begun.queries.source)
        if view is None or not view.coverage(begun.found.allowed):
            return first.results
        begun.queries.shown()  # now, and not while a state of the database is held
        last = self._steadily(lambda: self._final(begun))
        return [replace(result, final=False) for result in (last or first).results]

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

    def _first(self, search: Asked) -> First:
        """Answer from what is stored: by words alone, or go on to the vectors."""
        self._store.inspection.require_documents_listed()
        if search.request.mode == "auto":
            search = replace(search, request=replace(search.request, mode=auto_mode(search.request)))
        now = self._capped(search)
        pool = self._by_words(now)
        if now.request.mode == "lexical":
            by_words = [Answer(best, None, {}, places(best.ids)) for best in pool.words]
            return self._answered(now, Answers(None, "base", by_words))
        return self._by_vectors(search, now, pool)

    def _by_vectors(self, search: Asked, now: Asked, pool: Found) -> First:
        """Answer from the view that serves the instruction; where that lacks most texts, from the base view."""
        request, sources = now.request, self._sources()
        source = sources.of(request.instruction or "")
        base, view = sources.base, self._loaded(sources, source)
        weighed = source.evidence and request.like is None
        if view is not None and (source == base or view.coverage(pool.allowed) == 1):
            (vectors,) = encode_queries([source], now.queries, request.steps)
            if weighed:
                pool = replace(pool, beside=self._beside(now, sources, pool))
            answers = self._in_view(request, source, view, vectors, pool)
            return self._answered(now, replace(answers, steps=_steps(source, request)))
        base_view = self._loaded(sources, base)
        if base_view is None:
            nothing = Answer(Ranking([], []), None, {}, {})
            return self._answered(now, Answers(None, "base", [nothing] * len(now.queries)))
        queries = as_vectors(now.queries, request, sources, source, base_view.view, weighed=weighed)
        noted = (
            None
            if view is None
            else noted_answers(self._store, search, self._options, view.view, queries.shown, in_words=source.in_words)
        )
        settled, since = (noted.answers is not None, noted.newest) if noted is not None else (False, 0)
        if noted is not None and noted.answers is not None and (search.where is None or search.where.known is None):
            answers = replace(noted.answers, steps=_steps(source, request), answer_words=source.answer_words)
            return self._answered(now, answers)
        pool = self._in_base(request, queries, pool)
        if view is not None and (mostly_filled(view, pool.allowed) or noted is not None or not queries.read):
            answers = self._in_view(request, source, view, queries.shown(), pool)
            answers = replace(answers, steps=_steps(source, request))
        else:
            dense = [cut(ranking, self._depth(request)) for ranking in pool.plain]
            answers = self._fused(request, base_view, dense, queries.plain, replace(pool, beside=None))
        unfinished = Unfinished(search, queries, pool, since) if queries.read and not settled else None
        return self._answered(now, answers, unfinished)

    def _loaded(self, sources: Sources, source: Source) -> LoadedView | None:
        """Return the view of a source as it is; None where there is none yet."""
        view = sources.view(source)
        return None if view is None else self._views.loaded(view)

    def _rounds(self, begun: Unfinished, on_texts: OnTexts | None) -> Generator[list[SearchResult], None, bool]:
        """Yield answers as more texts are read, until the hits no longer change.

        Returns:
            Whether the last was final; not where the queries' vectors are not of the index's views any longer.
        """
        most = self._options.costly_rounds if begun.queries.source.in_words else self._options.rounds
        reading = Reading(begun, on_texts, most)
        before: list[SearchResult] | None = None
        for number in range(most):
            try:
                if not self._serves(begun):
                    return False
                begun.queries.shown()  # now, and not while a state of the database is held
                wanted, read = (self._asked if begun.queries.source.in_words else self._read)(reading, number)
                self._judge(reading)
                last = self._steadily(lambda: self._final(begun))
            except RetrieverError:
                if self._serves(begun):
                    raise
                return False
            if last is None:
                return False
            results = last.results
            whole = all(result.path == "complete" for result in results)
            same = before is not None and read > 0 and same_hits(before, results)
            exhausted = not wanted and reading.read == len(reading.tried)
            changed = None if before is None else changed_hits(before, results)
            stopped = reading.fault is not None  # what cannot be read now may be another time
            settled = not stopped and (whole or exhausted or same)
            final = settled or stopped or not read or number + 1 == most
            if settled or (final and read and not stopped):  # asked again, the search gives the same list
                note_settled(self._store, begun.asked, self._options, last)
            progress = Settling(number + 1, reading.read, changed, settled)
            yield [replace(result, final=final, settling=progress, reader_fault=reading.fault) for result in results]
            if final:
                return True
            before = results
        return True

    def _serves(self, begun: Unfinished) -> bool:
        """Return whether the same source serves the instruction as when the queries came, beside the same base view."""
        sources = self._sources()
        base, source = sources.view(sources.base), sources.of(begun.asked.request.instruction or "")
        return base is not None and base.view_id == begun.queries.base.view_id and source == begun.queries.source

    def _read(self, reading: Reading, number: int) -> tuple[int, int]:
        """Embed what the view of the instruction lacks, as far as a round reaches.

        The first of several rounds is known to be followed by another: only two lists can be compared.

        Returns:
            How many texts were wanted, and how many of them were read.
        """
        queries, pool = reading.begun.queries, reading.begun.found
        encoder, filled = queries.source.root.encoder, queries.filled
        view = self._views.loaded(self._store.views.ensure(queries.source.key, lazy=True))
        learns = queries.asked is None and not mostly_filled(view, pool.allowed)
        parts = 2 if learns else 1
        wanted = read = 0
        for part in range(parts):
            if learns and (number or part):
                pool = replace(pool, learned=self._learned(reading.begun))
            with self._store.snapshot():
                view = self._views.loaded(view.view)
                chosen = texts_to_read(self._store, encoder, view, pool, self._options, 1 / parts, reading.begun.since)
            sample = set(self._unread_sample(queries)).difference(chosen)
            if chosen and not reading.total:
                rounds = len(chosen) * parts * reading.most  # no more than that, however short later texts are
                reading.total = min(rounds, len(view.lacking(pool.allowed))) + len(sample)
            chosen = dict(islice(chosen.items(), max(0, reading.total - reading.read - len(sample))))
            if chosen:
                notify, ids = self._notify(reading, chosen), list(chosen)
                size = len(ids) if notify is None else KEPT_AT_ONCE
                for start in range(0, len(ids), size):
                    self._views.keep(queries.sources, filled, ids[start : start + size], notify)
                reading.tried.update(chosen)
                done = len(chosen) - len(self._store.vectors.missing(view.view.view_id, list(chosen)))
                reading.read += done
                wanted, read = wanted + len(chosen), read + done
        return wanted, read

    def _notify(self, reading: Reading, texts: Mapping[int, str]) -> Callable[[int], None] | None:
        """Return what tells how many texts are read, of the most that the search reads."""
        behind = max(0, reading.total - reading.read - len(texts))
        encoder = reading.begun.queries.source.root.encoder
        return texts_read(encoder, list(texts.values()), reading.on_texts, before=reading.read, after=behind)

    def _judge(self, reading: Reading) -> None:
        """Judge whether the question is followed where nobody has: the order of the hits depends on it.

        The view keeps the sample of texts that is read for it.
        """
        queries, on_texts = reading.begun.queries, reading.on_texts
        view = self._unjudged(queries)
        if view is None:
            return
        unread = self._store.documents.texts(self._unread_sample(queries))
        if unread:
            notify = self._notify(reading, unread)
            self._views.keep(queries.sources, queries.filled, list(unread), notify)
            reading.tried.update(unread)
            reading.read += len(unread)

        def still(done: int, total: int) -> None:
            if on_texts is not None:
                on_texts(reading.read, max(reading.read, reading.total))

        judge_view(self._store, queries.sources.encoders, view, on_texts=still)

    def _unjudged(self, queries: Queries) -> View | None:
        """Return the view whose question has yet to be judged; None where there is none."""
        view = None if queries.source.in_words else queries.sources.view(queries.source.root)
        return view if view is not None and wants_judging(self._store, view) else None

    def _unread_sample(self, queries: Queries) -> list[int]:
        """Return the texts that a verdict has yet to read."""
        view = self._unjudged(queries)
        if view is None:
            return []
        return self._store.vectors.missing(view.view_id, sampled(self._store.documents.live_contents()))

    def _asked(self, reading: Reading, number: int) -> tuple[int, int]:
        """Have a language model answer about the best candidates that nobody was asked about; as `_read`.

        Where it cannot be asked, the reading notes why, and is over.
        """
        begun, source = reading.begun, reading.begun.queries.source
        self._store.views.ensure(source.key, lazy=True)
        catch_up(begun.queries.sources, source)
        pool = replace(begun.found, learned=self._learned(begun)) if number else begun.found
        with self._store.snapshot():
            view = self._loaded(begun.queries.sources, source)
            further: Sequence[int] | Ids = [] if view is None else texts_to_ask(view, pool, reading.tried, begun.since)
        if self._ask is None or not isinstance(source, AnswersInWords) or not source.by.name:
            return 0, 0
        chosen = source.unasked(np.array(further, dtype=np.int64))[: self._options.costly_texts]
        if not reading.total:
            possible = self._store.documents.live_contents() if begun.found.allowed is None else begun.found.allowed
            reading.total = min(self._options.costly_texts * reading.most, len(source.unasked(possible)))

        def notify(done: int, _: int) -> None:
            if reading.on_texts is not None:
                reading.on_texts(reading.read + done, reading.total)

        reading.tried.update(chosen.tolist())
        try:
            if unread := self._ask(source, chosen, notify):
                raise ReadingLimitError(f"A limit is reached: {unread} texts stay unread.", hint=KEPT_HINT)
        except (ConsentError, EncoderError, ReadingLimitError) as error:
            reading.fault = error
        read = len(chosen) - len(self._store.vectors.missing(source.view_id, chosen))
        reading.read += read
        return len(chosen), read

    def _learned(self, begun: Unfinished) -> list[Ranking]:
        """Draw candidates by what the texts read so far teach."""
        queries = begun.queries
        with self._store.snapshot():
            view = self._loaded(queries.sources, queries.source)
            if view is None or not self._serves(begun):
                return []
            depth = max(self._options.candidates, self._depth(begun.asked.request))
            teachers = [self._views.loaded(queries.base), *self._views.complete_beside(queries.source.root)]
            return learned_rankings(self._store, teachers, view, queries.shown(), depth, begun.found.allowed)

    def _final(self, begun: Unfinished) -> Round | None:
        """Answer from the instruction's view as it is now; what was found before is used where it still holds."""
        now, queries, pool = self._capped(begun.asked), begun.queries, begun.found
        view = self._loaded(queries.sources, queries.source)
        if view is None or not self._serves(begun):
            return None
        if pool.state != state_of(self._store, queries.base):
            pool = self._in_base(now.request, queries, self._by_words(now))
        answers = self._in_view(now.request, queries.source, view, queries.shown(), pool)
        answers = replace(answers, steps=_steps(queries.source, now.request))
        return Round(answers, self._answered(now, answers).results)

    def _by_words(self, search: Asked) -> Found:
        """Find what the filter allows and what the words of the queries find, where they have a say."""
        request = search.request
        words = [Ranking([], []) for _ in search.queries]
        if request.mode != "dense" and request.like is None:
            depth = max(self._options.candidates, self._views.reach(request.k) + 1)
            words = lexical(self._store, search.queries, depth, search.where)
        return Found(None if search.where is None else self._store.documents.matching(search.where), words)

    def _in_base(self, request: SearchRequest, queries: Queries, pool: Found) -> Found:
        """Find the nearest in the base view to the queries, under either instruction where one encoder made both."""
        comparable = [queries.plain] if queries.asked is None else [queries.plain, queries.asked]
        depth = max(self._options.candidates, self._depth(request))
        base = self._views.loaded(queries.base)
        beside = nearest_beside(base, np.concatenate(comparable), depth, pool.allowed)
        half = len(queries.plain)
        under = beside.rankings[half:] or [Ranking([], []) for _ in beside.rankings]
        weighed = beside if queries.source.evidence and request.like is None else None
        state = state_of(self._store, queries.base)
        return replace(pool, plain=beside.rankings[:half], asked=under, state=state, beside=weighed)

    def _beside(self, search: Asked, sources: Sources, pool: Found) -> Beside | None:
        """Search the base view for what is weighed beside; None where there is none."""
        view = self._loaded(sources, sources.base)
        if view is None:
            return None
        queries = sources.base.encoder.encode_queries(plain_queries(search.queries, search.request))
        return nearest_beside(view, queries, self._depth(search.request, fused=True), pool.allowed)

    def _in_view(
        self, request: SearchRequest, source: Source, view: LoadedView, vectors: Embeddings, pool: Found
    ) -> Answers:
        """Find what is nearest in a view to the queries' vectors (n, dim), as its source has them.

        Less alike are candidates that the view lacks, in the base view's order.
        """
        towards, fusion = view.centred(vectors), self._answer_fusion if source.in_words else self._fusion
        dense = nearest(view, towards, self._depth(request, fused=pool.beside is not None), pool.allowed)
        if view.coverage(pool.allowed) == 1 or not view.view.key.instruction:
            return replace(self._fused(request, view, dense, vectors, pool, fusion), answer_words=source.answer_words)
        answers = []
        every = zip(vectors, towards, dense, pool.by_vectors(), pool.words, strict=True)
        for number, (vector, toward, held, candidates, words) in enumerate(every):
            lacking = view.lacking(np.array(candidates.ids, dtype=np.int64)).tolist()
            last = min(held.scores, default=0.0)
            behind = Ranking(
                held.ids + lacking, held.scores + [last - STEP * place for place in range(1, len(lacking) + 1)]
            )
            ranking = fusion.together(view, toward, behind, pool, number)
            answers.append(Answer(ranking, vector, places(behind.ids), places(words.ids)))
        return Answers(view.view, "lazy", answers, answer_words=source.answer_words)

    def _fused(
        self,
        request: SearchRequest,
        view: LoadedView,
        dense: Sequence[Ranking],
        vectors: Embeddings,
        pool: Found,
        fusion: Fusion | None = None,
    ) -> Answers:
        """Return rankings by vectors of a whole view, together with those by words and by the base encoder."""
        path: SearchPath = "complete" if view.view.key.instruction else "base"
        every = enumerate(zip(view.centred(vectors), dense, strict=True))
        rankings = [(fusion or self._fusion).together(view, *pair, pool, number) for number, pair in every]
        pure = not (view.shift.any() or pool.beside)
        scored = request.mode == "dense" and pure  # the rankings' numbers are the cosines
        answers = [
            Answer(ranking, vector, places(by_vector.ids), places(words.ids), scored)
            for ranking, vector, by_vector, words in zip(rankings, vectors, dense, pool.words, strict=True)
        ]
        return Answers(view.view, path, answers)

    def _depth(self, request: SearchRequest, *, fused: bool = False) -> int:
        """Compute the depth to which the rankings of a request have to go; `rankings` makes hits of their beginning."""
        reach = self._views.reach(request.k + (request.like is not None))
        return max(self._options.candidates, reach + 1) if fused or request.mode == "hybrid" else reach

    def _capped(self, search: Asked) -> Asked:
        """Return the request for no more hits than there are documents in the state that is read."""
        k = max(1, self._store.documents.count_to(search.request.k))
        return replace(search, request=replace(search.request, k=k))

    def _answered(self, search: Asked, answers: Answers, unfinished: Unfinished | None = None) -> First:
        results = as_results(self._store, search.queries, search.request, search.where, answers, search.started)
        if not any(result.hits for result in results):
            require_fitting(self._store, search.where)
        known = None if search.where is None else search.where.known
        return First([replace(result, final=unfinished is None, known_answers=known) for result in results], unfinished)


def _steps(source: Source, request: SearchRequest) -> int | None:
    """Return K that is spent on a query of a source; None where its encoder generates nothing."""
    return None if source.root.in_words else with_steps(source.root.encoder, request.steps).spec.steps
