"""Measure how far two views of the same texts are apart, and how the vectors of one lie.

Two ways to tell how far a view is from another are measured over the same texts. `moved`: one less the mean cosine of a
text's two vectors. It says that something changed, also where all texts moved the same way. `regrouped`: one less the
correlation of the cosines of all pairs of texts. It says that other texts are alike now, which is what a search or a
clustering sees, so the signal is made of it. The correlation is Pearson's: ranks would make much of the noise within a
group of texts that are all alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.core.types import Embeddings

_CLUSTERS = range(2, 9)
_TINY = 1e-6


@dataclass(frozen=True, slots=True)
class Shift:
    """The distance of a view from another: ``moved`` and ``regrouped``, as above."""

    moved: float
    regrouped: float


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a view's vectors.

    Attributes:
        spread: one less the mean cosine over all pairs of texts; 0 where all are alike.
        silhouette: the best mean silhouette of k-means with 2 to 8 clusters, -1 to 1; near 0 without clusters.
        clusters: the number of clusters that gave it.
    """

    spread: float
    silhouette: float
    clusters: int


def shift(view: Embeddings, other: Embeddings) -> Shift:
    """Measure how far two views (n, dim) of the same texts are apart."""
    moved = 1 - float((view * other).sum(axis=1).mean())
    ours, theirs = _pair_cosines(view), _pair_cosines(other)
    flat = [float(np.ptp(cosines)) < _TINY for cosines in (ours, theirs)]
    if any(flat):  # all texts are alike in a view: there are no groups to compare
        return Shift(max(0.0, moved), 0.0 if all(flat) else 1.0)
    return Shift(max(0.0, moved), max(0.0, 1 - float(np.corrcoef(ours, theirs)[0, 1])))


def shape(view: Embeddings) -> Shape:
    """Measure the shape of a view's vectors (n, dim): their spread, and the best silhouette of k-means clusters."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    spread = 1 - float(_pair_cosines(view).mean())
    best = Shape(spread, 0.0, 1)
    for k in range(_CLUSTERS.start, min(_CLUSTERS.stop, len(np.unique(view, axis=0)))):
        clusters = KMeans(n_clusters=k, n_init=4, random_state=0).fit_predict(view)
        if len(set(clusters.tolist())) > 1:
            found = float(silhouette_score(view, clusters))
            best = Shape(spread, found, k) if best.clusters == 1 or found > best.silhouette else best
    return best


def mean_shift(view: Embeddings, others: Sequence[Embeddings]) -> Shift:
    """Return the mean of the shifts from a view to several others."""
    shifts = [shift(view, other) for other in others]
    return Shift(float(np.mean([one.moved for one in shifts])), float(np.mean([one.regrouped for one in shifts])))


def _pair_cosines(view: Embeddings) -> NDArray[np.float64]:
    """Return the cosines of all pairs of rows, (n (n - 1) / 2,)."""
    rows = view.astype(np.float64)
    return np.asarray((rows @ rows.T)[np.triu_indices(len(rows), k=1)])
