"""Ranking the texts of an index for the queries of a search: by words, in the base view, in an instruction's view."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.results import SearchPath
from retriever.core.types import Embeddings
from retriever.index.open_views import OpenViews
from retriever.index.search.beside import Beside, nearest_beside, plain_queries
from retriever.index.search.fusion import Fusion
from retriever.index.search.lazy import Found, Queries, state_of
from retriever.index.search.rankings import STEP, Answer, Answers, Ranking, lexical, nearest, places
from retriever.index.search.settling import Asked
from retriever.index.search.tiers import in_tiers, nearest_in_tiers
from retriever.index.search.view_searcher import LoadedView
from retriever.index.sources.catalog import Sources
from retriever.index.sources.source import Source
from retriever.store.database import Store


class Ranker:
    """Ranks the texts of one index.

    Args:
        store: its database.
        views: its views.
        options: how far a search goes.
    """

    def __init__(self, store: Store, views: OpenViews, options: SearchOptions) -> None:
        self._store = store
        self._views = views
        self._options = options
        self._fusion = Fusion(store, views.calibration, options)
        self._answer_fusion = Fusion(store, views.calibration, options.among_answers())

    def by_words(self, search: Asked, further: int = 0) -> Found:
        """Find what the filter allows and what the words of the queries find, where they have a say.

        As many texts ``further`` are found as may go behind all others.
        """
        request = search.request
        words = [Ranking([], []) for _ in search.queries]
        if request.mode != "dense" and request.like is None:
            depth = max(self._options.candidates, self._views.reach(request.k) + 1) + further
            words = lexical(self._store, search.queries, depth, search.where)
        return Found(None if search.where is None else self._store.documents.matching(search.where), words)

    def in_base(self, request: SearchRequest, queries: Queries, pool: Found) -> Found:
        """Find the nearest in the base view to the queries, under either instruction where one encoder made both."""
        comparable = [queries.plain] if queries.asked is None else [queries.plain, queries.asked]
        depth = max(self._options.candidates, self.depth(request))
        base = self._views.loaded(queries.base)
        beside = nearest_beside(base, np.concatenate(comparable), depth, pool.allowed)
        half = len(queries.plain)
        under = beside.rankings[half:] or [Ranking([], []) for _ in beside.rankings]
        weighed = beside if queries.source.evidence and request.like is None else None
        state = state_of(self._store, queries.base)
        return replace(pool, plain=beside.rankings[:half], asked=under, state=state, beside=weighed)

    def beside(self, search: Asked, sources: Sources, pool: Found) -> Beside | None:
        """Search the base view for what is weighed beside; None where there is none."""
        base = sources.view(sources.base)
        if base is None:
            return None
        queries = sources.base.encoder.encode_queries(plain_queries(search.queries, search.request))
        return nearest_beside(self._views.loaded(base), queries, self.depth(search.request, fused=True), pool.allowed)

    def in_view(self, now: Asked, source: Source, view: LoadedView, vectors: Embeddings, pool: Found) -> Answers:
        """Find what is nearest in a view to the queries' vectors (n, dim), as its source has them."""
        towards, fusion = view.centred(vectors), self._answer_fusion if source.in_words else self._fusion
        depth = self.depth(now.request, fused=pool.beside is not None)
        dense = (nearest_in_tiers if source.in_words else nearest)(view, towards, depth, pool.allowed)
        if view.coverage(pool.allowed) == 1 or not view.view.key.instruction:
            found = self.fused(now.request, view, dense, vectors, pool, fusion)
        else:
            found = self._before_lacking(view, dense, vectors, pool, fusion)
        found = replace(found, answer_words=source.answer_words)
        return in_tiers(found, now.queries, view) if source.in_words else found

    def _before_lacking(
        self, view: LoadedView, dense: Sequence[Ranking], vectors: Embeddings, pool: Found, fusion: Fusion
    ) -> Answers:
        """Return rankings by vectors of a view, and behind them, in the base view's order, candidates that it lacks."""
        answers, towards = [], view.centred(vectors)
        every = zip(vectors, towards, dense, pool.by_vectors(), pool.words, strict=True)
        for number, (vector, toward, held, candidates, words) in enumerate(every):
            lacking = view.lacking(np.array(candidates.ids, dtype=np.int64)).tolist()
            last = min(held.scores, default=0.0)
            behind = Ranking(
                held.ids + lacking, held.scores + [last - STEP * place for place in range(1, len(lacking) + 1)]
            )
            ranking = fusion.together(view, toward, behind, pool, number)
            answers.append(Answer(ranking, vector, places(behind.ids), places(words.ids)))
        return Answers(view.view, "lazy", answers)

    def fused(
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

    def depth(self, request: SearchRequest, *, fused: bool = False) -> int:
        """Compute the depth to which the rankings of a request have to go; `rankings` makes hits of their beginning."""
        reach = self._views.reach(request.k + (request.like is not None))
        return max(self._options.candidates, reach + 1) if fused or request.mode == "hybrid" else reach
