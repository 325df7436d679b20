"""Turn scores into percentiles: how many random pairs of a view's documents are less alike than query and hit.

Cosines of one view crowd near 1, those of another near 0; the share of random pairs below one can be compared. The
distribution comes from all pairs of a sample, read once, and is stored with the view.
"""

from dataclasses import replace

import numpy as np

from retriever.core.results import Hit, SearchResult
from retriever.core.similarity import pair_quantiles, percentile
from retriever.store.database import Store
from retriever.store.similarities import Similarities
from retriever.store.vectors import VectorRevision

SAMPLE = 1000
"""Most vectors whose pairs are looked at."""

LEAST = 30
"""Fewest vectors of a view that say something about it."""

GROWTH = 1.5  # of the vectors, at which the distribution is made anew
_SEED = 0


class Calibration:
    """The distributions of an index's views, read and made as they are needed.

    Args:
        store: the index's database.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, tuple[VectorRevision, Similarities | None]] = {}  # by view: of which vectors

    def rated(self, result: SearchResult) -> SearchResult:
        """Return a result whose hits have percentiles; none in a view of few vectors, or without a cosine."""
        found = None if result.view is None else self.of(result.view)
        if found is None:
            return result
        return replace(result, hits=[_rated(hit, found) for hit in result.hits])

    def of(self, view_id: int) -> Similarities | None:
        """Return the distribution of a view, made anew where it has grown by half; None where it has few vectors."""
        revision = self._store.vectors.revision(view_id)
        if view_id not in self._known or self._known[view_id][0] != revision:
            self._known[view_id] = (revision, self._current(view_id))
        return self._known[view_id][1]

    def _current(self, view_id: int) -> Similarities | None:
        vectors = self._store.vectors.count(view_id)
        stored = self._store.similarities.get(view_id)
        if stored is not None and vectors < GROWTH * stored.vectors:
            return stored
        if vectors < LEAST:
            return None
        made = drawn(self._store, view_id)
        self._store.best_effort_write(lambda: self._store.similarities.put(view_id, made))
        return made


def drawn(store: Store, view_id: int) -> Similarities:
    """Return the distribution of all pairs among at most `SAMPLE` vectors of a view, the same for the same vectors."""
    ids = store.vectors.content_ids(view_id, through=store.vectors.last_id(view_id))
    chosen = np.random.default_rng(_SEED).permutation(len(ids))[:SAMPLE]
    return Similarities(len(ids), pair_quantiles(store.vectors.get(view_id, np.sort(ids[chosen])).embeddings))


def _rated(hit: Hit, found: Similarities) -> Hit:
    return hit if hit.score is None else replace(hit, percentile=percentile(hit.score, found.quantiles))
