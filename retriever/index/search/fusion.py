"""Put scores of several kinds together: the cosine in a view, the base encoder's cosine, and the words."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from retriever.core.requests import SearchOptions
from retriever.index.search.calibration import Calibration
from retriever.index.search.lazy import Found
from retriever.index.search.rankings import Part, Ranking, combined
from retriever.index.search.view_searcher import LoadedView
from retriever.index.search.windows import best_vectors
from retriever.index.verdicts.stored import stored_verdict
from retriever.store.database import Store
from retriever.store.views import View


class Fusion:
    """Orders the texts of one index by all that is known of them.

    Args:
        store: the index's database.
        calibration: of its views; cosines are weighed in spreads of their own view.
        options: the weights.
    """

    def __init__(self, store: Store, calibration: Calibration, options: SearchOptions) -> None:
        self._store = store
        self._calibration = calibration
        self._options = options

    def together(
        self, view: LoadedView, toward: NDArray[np.float32], dense: Ranking, found: Found, number: int
    ) -> Ranking:
        """Return the ranking of the query of a number by a view, by its words and by the base encoder together.

        ``dense`` has what is nearest in the view to ``toward`` (dim,), and ``found`` the other rankings.
        """
        words, beside = found.words[number], found.beside
        if not words.ids and beside is None:
            return dense
        spread = self._calibration.spread(view.view.view_id)
        ids = {*dense.ids, *words.ids, *([] if beside is None else beside.rankings[number].ids)}
        parts, word_weight = [self._by_cosine(view.view, toward, dense, ids)], self._options.word_weight
        if beside is not None:
            plain_weight = self._plain_weight(view.view)
            worth = plain_weight * spread / self._calibration.spread(beside.view.view_id)
            parts.append(self._by_cosine(beside.view, beside.towards[number], beside.rankings[number], ids, worth))
            word_weight *= max(1.0, plain_weight)  # as beside the base encoder alone, where that counts most
        return combined(*parts, Part(words, word_weight * spread))

    def _plain_weight(self, view: View) -> float:
        """Return what the base encoder's cosine counts: more where the view's question is not answered."""
        verdict = stored_verdict(self._store, view.view_id)
        answered = verdict is None or verdict.answered
        return self._options.plain_weight if answered else self._options.unfollowed_plain_weight

    def _by_cosine(
        self, view: View, toward: NDArray[np.float32], ranking: Ranking, ids: Iterable[int], weight: float = 1.0
    ) -> Part:
        """Return a view's part in the order of some texts; one that lacks a vector is as far as the last found."""
        others = best_vectors(self._store, view.view_id, set(ids).difference(ranking.ids), toward)
        known = {content_id: best.cosine for content_id, best in others.items()}
        return Part(ranking, weight, known, min(ranking.scores, default=0.0))
