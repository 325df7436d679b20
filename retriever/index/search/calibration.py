"""Tell what a cosine is worth in a view, by the cosines of random pairs of its documents.

A percentile says how many of these pairs are less alike than query and hit; their spread is the unit in which vectors
are weighed against words.

Cosines of one view crowd near 1, those of another near 0; the share of random pairs below one can be compared. The
distribution comes from all pairs of a sample, read once, and is stored with the view.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from retriever.core.results import SearchResult
from retriever.core.similarity import pair_quantiles, percentile, spread
from retriever.store.database import Store
from retriever.store.vectors import VectorRevision
from retriever.store.views import Similarities

SAMPLE = 500
"""Most vectors whose pairs are looked at."""

LEAST = 30
"""Fewest vectors of a view that say something about it."""

USUAL_SPREAD = 0.1
"""Of the cosines of sentence encoders, about."""

GROWTH = 1.5  # of the vectors, at which the distribution is made anew
_SEED = 0


class Calibration:
    """The distributions of an index's views, read and made as they are needed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, tuple[VectorRevision, Similarities | None]] = {}  # by view: of which vectors
        self._unsaved: dict[int, Similarities] = {}  # what was drawn where nothing may be written

    def rated(self, result: SearchResult) -> SearchResult:
        """Return a result whose hits have percentiles; none in a view of few vectors, or without a cosine."""
        similarities = None if result.view is None else self.of(result.view)
        self.save()
        if similarities is None:
            return result
        known = similarities.quantiles
        rated = [(hit, None if hit.score is None else percentile(hit.score, known)) for hit in result.hits]
        return replace(result, hits=[replace(hit, percentile=share) for hit, share in rated])

    def of(self, view_id: int) -> Similarities | None:
        """Return the distribution of a view, made anew where it has grown by half; None where it has few vectors."""
        revision = self._store.vectors.revision(view_id)
        if view_id not in self._known or self._known[view_id][0] != revision:
            self._known[view_id] = (revision, self._current(view_id))
        return self._known[view_id][1]

    def spread(self, view_id: int) -> float:
        """Return the spread of a view's random cosines; `USUAL_SPREAD` where it has few vectors or all are alike."""
        similarities = self.of(view_id)
        return (0.0 if similarities is None else spread(similarities.quantiles)) or USUAL_SPREAD

    def save(self) -> None:
        """Store what was drawn since the last time, where that can be written without waiting."""
        for view_id in list(self._unsaved):
            made = self._unsaved.pop(view_id, None)  # None where another thread stores it
            if made is not None:
                self._store.best_effort_write(partial(self._store.similarities.put, view_id, made))

    def _current(self, view_id: int) -> Similarities | None:
        vectors = self._store.vectors.count(view_id)
        stored = self._store.similarities.get(view_id)
        if stored is not None and vectors < GROWTH * stored.vectors:
            return stored
        if vectors < LEAST:
            return None
        made = drawn(self._store, view_id)
        self._unsaved[view_id] = made
        return made


def drawn(store: Store, view_id: int) -> Similarities:
    """Return the distribution of all pairs among at most `SAMPLE` vectors of a view, the same for the same vectors."""
    ids = store.vectors.held(view_id)
    chosen = np.random.default_rng(_SEED).permutation(len(ids))[:SAMPLE]
    return Similarities(len(ids), pair_quantiles(store.vectors.get(view_id, np.sort(ids[chosen])).embeddings))
