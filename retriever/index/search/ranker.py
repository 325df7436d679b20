"""Ranking the texts of an index for the queries of a search: by words, in the base view, in an instruction's view.

Scores of several kinds are put together: the cosine in a view, the base encoder's cosine, and the words.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.results import SearchPath
from retriever.core.types import Embeddings, Ids
from retriever.index.encoding import with_steps
from retriever.index.open_views import OpenViews
from retriever.index.search.beside import Beside, nearest_beside, plain_queries
from retriever.index.search.lazy import Found, Queries, state_of
from retriever.index.search.rankings import STEP, Answer, Answers, Part, Ranking, combined, lexical, nearest, places
from retriever.index.search.settling import Asked
from retriever.index.search.tiers import in_tiers, nearest_in_tiers
from retriever.index.search.view_searcher import LoadedView
from retriever.index.search.windows import best_vectors
from retriever.index.sources.catalog import Sources
from retriever.index.sources.source import Source
from retriever.index.verdicts.stored import stored_verdict
from retriever.store.database import Store
from retriever.store.views import View


def auto_mode(request: SearchRequest) -> Literal["dense", "hybrid"]:
    """Choose the mode of a request that leaves it open: vectors and words together, or vectors alone with ``like``.

    Without an instruction this rule loses least where it loses most, of all that benchmarks/search_modes.py compares on
    passages, restaurant and product reviews, stories and customers' questions, with the base encoder of new indexes: at
    worst it is 0.2 points of nDCG@10 behind the best single mode of a corpus, vectors alone 13.0, words alone 24.7. An
    instruction is nothing that words alone could follow.
    """
    return "hybrid" if request.like is None else "dense"


class Ranker:
    """Ranks the texts of one index; cosines are weighed in spreads of their own view (`OpenViews.calibration`)."""

    def __init__(self, store: Store, views: OpenViews, options: SearchOptions) -> None:
        self._store = store
        self._views = views
        self._options = options
        self._among_answers = options.among_answers()

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
        """Find what is nearest in a view to the queries' vectors (n, dim), as its source has them.

        Candidates that the view lacks come behind, in the base view's order.
        """
        depth = self.depth(now.request, fused=pool.beside is not None)
        dense = (nearest_in_tiers if source.in_words else nearest)(view, view.centred(vectors), depth, pool.allowed)
        if _path(view, pool.allowed) == "lazy":
            pairs = zip(dense, pool.by_vectors(), strict=True)
            dense = [_before_lacking(view, held, candidates) for held, candidates in pairs]
        options = self._among_answers if source.in_words else self._options
        found = self.fused(now.request, view, dense, vectors, pool, options)
        found = replace(found, steps=steps_of(source, now.request), answer_words=source.answer_words)
        return in_tiers(found, now.queries, view) if source.in_words else found

    def fused(
        self,
        request: SearchRequest,
        view: LoadedView,
        dense: Sequence[Ranking],
        vectors: Embeddings,
        pool: Found,
        options: SearchOptions | None = None,
    ) -> Answers:
        """Return rankings by vectors of a view, together with those by words and by the base encoder."""
        path, weights = _path(view, pool.allowed), options or self._options
        pure = not (path == "lazy" or view.shift.any() or pool.beside)
        scored = request.mode == "dense" and pure  # the rankings' numbers are the cosines
        answers, towards = [], view.centred(vectors)
        for number, (vector, by_vector, words) in enumerate(zip(vectors, dense, pool.words, strict=True)):
            ranking = self._together(view.view, towards[number], by_vector, pool, number, weights)
            answers.append(Answer(ranking, vector, places(by_vector.ids), places(words.ids), scored))
        return Answers(view.view, path, answers)

    def depth(self, request: SearchRequest, *, fused: bool = False) -> int:
        """Compute the depth to which the rankings of a request have to go; `rankings` makes hits of their beginning."""
        reach = self._views.reach(request.k + (request.like is not None))
        return max(self._options.candidates, reach + 1) if fused or request.mode == "hybrid" else reach

    def _together(
        self, view: View, toward: NDArray[np.float32], dense: Ranking, pool: Found, number: int, options: SearchOptions
    ) -> Ranking:
        """Return the ranking of the query of a number by a view, by its words and by the base encoder together.

        ``dense`` has what is nearest in the view to ``toward`` (dim,), and ``pool`` the other rankings.
        """
        words, beside = pool.words[number], pool.beside
        if not words.ids and beside is None:
            return dense
        spread = self._views.calibration.spread(view.view_id)
        ids = {*dense.ids, *words.ids, *([] if beside is None else beside.rankings[number].ids)}
        parts, word_weight = [self._by_cosine(view, toward, dense, ids)], options.word_weight
        if beside is not None:
            verdict = stored_verdict(self._store, view.view_id)  # the base encoder counts more where nothing answers
            answered = verdict is None or verdict.answered
            plain_weight = options.plain_weight if answered else options.unfollowed_plain_weight
            worth = plain_weight * spread / self._views.calibration.spread(beside.view.view_id)
            parts.append(self._by_cosine(beside.view, beside.towards[number], beside.rankings[number], ids, worth))
            word_weight *= max(1.0, plain_weight)  # as beside the base encoder alone, where that counts most
        return combined(*parts, Part(words, word_weight * spread))

    def _by_cosine(
        self, view: View, toward: NDArray[np.float32], ranking: Ranking, ids: Iterable[int], weight: float = 1.0
    ) -> Part:
        """Return a view's part in the order of some texts; one that lacks a vector is as far as the last found."""
        others = best_vectors(self._store, view.view_id, set(ids).difference(ranking.ids), toward)
        known = {content_id: best.cosine for content_id, best in others.items()}
        return Part(ranking, weight, known, min(ranking.scores, default=0.0))


def steps_of(source: Source, request: SearchRequest) -> int | None:
    """Return K that is spent on a query of a source; None where its encoder generates nothing."""
    return None if source.root.in_words else with_steps(source.root.encoder, request.steps).spec.steps


def _path(view: LoadedView, allowed: Ids | None) -> SearchPath:
    """Return whether a view is the base view, or has the vectors of all texts that are allowed."""
    if not view.view.key.instruction:
        return "base"
    return "complete" if view.coverage(allowed) == 1 else "lazy"


def _before_lacking(view: LoadedView, held: Ranking, candidates: Ranking) -> Ranking:
    """Return a ranking with those of some candidates behind it that the view lacks, in their order."""
    lacking = view.lacking(np.array(candidates.ids, dtype=np.int64)).tolist()
    last = min(held.scores, default=0.0)
    return Ranking(held.ids + lacking, held.scores + [last - STEP * place for place in range(1, len(lacking) + 1)])
