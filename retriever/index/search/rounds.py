"""Reading texts for a search, a round at a time: they are embedded, or a language model answers about them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np

from retriever.core.errors import ConsentError, EncoderError, ReadingLimitError
from retriever.core.text import counted
from retriever.index.asking.limits import KEPT_HINT
from retriever.index.completing import ask
from retriever.index.encoding import texts_read
from retriever.index.opened import Opened
from retriever.index.search.lazy import Queries, learned_rankings, mostly_filled, texts_to_ask, texts_to_read
from retriever.index.search.ranker import Ranker
from retriever.index.search.rankings import Ranking
from retriever.index.search.settling import Reading
from retriever.index.sources.answers import of_model
from retriever.index.sources.catalog import Sources
from retriever.index.sources.filling import catch_up
from retriever.index.verdicts.judging import judge_view, sampled, wants_judging
from retriever.store.views import View

KEPT_AT_ONCE = 10
"""Texts that are read first before they are stored where somebody is told of them, who can look (`Searcher.stored`)."""

QUICK = 0.25
"""Seconds: where reading and storing took less, twice as many are read before the next time."""


class Rounds:
    """Reads texts for searches of one index; ``asks`` is whether language models are asked."""

    def __init__(self, opened: Opened, sources: Callable[[], Sources], ranker: Ranker, *, asks: bool) -> None:
        self._opened = opened
        self._store, self._views, self._options = opened.store, opened.views, opened.search_options
        self._sources, self._ranker = sources, ranker
        self._asks = asks

    def read(self, reading: Reading, number: int) -> tuple[int, int]:
        """Read the texts of the round of a number, from 0, and judge whether the question is followed.

        Returns:
            How many texts were wanted, and how many of them were read.
        """
        counts = (self._have_answered if reading.queries.source.in_words else self._embed)(reading, number)
        self._judge(reading)
        return counts

    def _embed(self, reading: Reading, number: int) -> tuple[int, int]:
        """Embed what the view of the instruction lacks, as far as a round reaches.

        The first of several rounds is known to be followed by another: only two lists can be compared.
        """
        queries, pool = reading.queries, reading.found
        encoder, filled = queries.source.root.encoder, queries.filled
        view = self._views.loaded(self._store.views.ensure(queries.source.key, lazy=True))
        learns = queries.asked is None and not mostly_filled(view, pool.allowed)
        parts = 2 if learns else 1
        wanted = read = 0
        for part in range(parts):
            if learns and (number or part):
                pool = replace(pool, learned=self._learned(reading))
            with self._store.snapshot():
                view = self._views.loaded(view.view)
                chosen = texts_to_read(self._store, encoder, view, pool, self._options, 1 / parts, reading.since)
            sample = set(self._unread_sample(queries)).difference(chosen)
            if chosen and not reading.total:
                rounds = len(chosen) * parts * reading.most  # no more than that, however short later texts are
                reading.total = min(rounds, len(view.lacking(pool.allowed))) + len(sample)
            chosen = dict(islice(chosen.items(), max(0, reading.total - reading.read - len(sample))))
            if chosen:
                notify, ids = self._notify(reading, chosen), list(chosen)
                size = len(ids) if notify is None else KEPT_AT_ONCE
                while ids:
                    began, (at_once, ids) = time.perf_counter(), (ids[:size], ids[size:])
                    self._views.keep(queries.sources, filled, at_once, notify)
                    size *= 2 if time.perf_counter() - began < QUICK else 1
                reading.tried.update(chosen)
                done = len(chosen) - len(self._store.vectors.missing(view.view.view_id, list(chosen)))
                reading.read += done
                wanted, read = wanted + len(chosen), read + done
        return wanted, read

    def _notify(self, reading: Reading, texts: Mapping[int, str]) -> Callable[[int], None] | None:
        """Return what tells how many texts are read, of the most that the search reads."""
        behind = max(0, reading.total - reading.read - len(texts))
        encoder = reading.queries.source.root.encoder
        return texts_read(encoder, list(texts.values()), reading.on_texts, before=reading.read, after=behind)

    def _judge(self, reading: Reading) -> None:
        """Judge whether the question is followed where nobody has: the order of the hits depends on it.

        The view keeps the sample of texts that is read for it.
        """
        queries, on_texts = reading.queries, reading.on_texts
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

    def _have_answered(self, reading: Reading, number: int) -> tuple[int, int]:
        """Have a language model answer about the best candidates that nobody was asked about; as `_embed`.

        Where it cannot be asked, the reading notes why, and is over.
        """
        sources, source, pool = reading.queries.sources, reading.queries.source, reading.found
        self._store.views.ensure(source.key, lazy=True)
        catch_up(sources, source)
        pool = replace(pool, learned=self._learned(reading)) if number else pool
        with self._store.snapshot():
            view = self._views.of(sources, source)
            further = np.empty(0, np.int64) if view is None else texts_to_ask(view, pool, reading.tried, reading.since)
        answers = of_model(source)
        if answers is None or not self._asks:
            return 0, 0
        chosen = answers.unasked(further)[: self._options.costly_texts]
        if not reading.total:
            possible = self._store.documents.live_contents() if pool.allowed is None else pool.allowed
            reading.total = min(self._options.costly_texts * reading.most, len(answers.unasked(possible)))

        def notify(done: int, _: int) -> None:
            if reading.on_texts is not None:
                reading.on_texts(reading.read + done, reading.total)

        reading.tried.update(chosen.tolist())
        try:
            if unread := ask(self._opened, source, chosen, notify):
                raise ReadingLimitError(f"A limit is reached: {counted(unread, 'unread text')}.", hint=KEPT_HINT)
        except (ConsentError, EncoderError, ReadingLimitError) as error:
            reading.fault = error
        read = len(chosen) - len(self._store.vectors.missing(source.view_id, chosen))
        reading.read += read
        return len(chosen), read

    def _learned(self, reading: Reading) -> list[Ranking]:
        """Draw candidates by what the texts read so far teach."""
        queries = reading.queries
        with self._store.snapshot():
            view = self._views.of(queries.sources, queries.source)
            if view is None or not reading.serves(self._sources()):
                return []
            depth = max(self._options.candidates, self._ranker.depth(reading.asked.request))
            teachers = [self._views.loaded(queries.base), *self._views.complete_beside(queries.source.root)]
            return learned_rankings(self._store, teachers, view, queries.shown(), depth, reading.found.allowed)
