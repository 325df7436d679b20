"""Choose the number of clusters of a view, and of groups of clusters: the one that sets them most apart.

The measure is the mean silhouette (Rousseeuw, "Silhouettes", 1987).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import silhouette_score

from retriever.clusters.arithmetic.kmeans import different, spherical_kmeans
from retriever.core.one_thread import single_threaded
from retriever.core.types import Embeddings

_TRIED = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 30)
_COMPARED = 2000  # rows looked at; silhouettes take the cosines of all pairs


@dataclass(frozen=True, slots=True)
class Choice:
    """The number of clusters, and every number tried with its mean silhouette, -1 to 1."""

    k: int
    curve: Sequence[tuple[int, float]]


def choose_k(vectors: Embeddings, *, seed: int = 0) -> Choice:
    """Return the number of clusters with the highest mean silhouette, the smaller of equals.

    At least three rows a cluster are asked for, so that a cluster is more than a pair; where the rows (n, dim) of
    length 1 are too few or all alike there is one cluster. The seed is that of the sample looked at and of k-means.
    """
    rows = np.random.default_rng(seed).permutation(len(vectors))[:_COMPARED]
    sample = vectors[np.sort(rows)]
    distinct = different(sample)  # sorting long rows takes a while: once for all candidates
    most = min(len(sample) // 3, len(distinct))
    curve = []
    for k in (one for one in _TRIED if one <= most):
        found = spherical_kmeans(sample, k, seed=seed, distinct=distinct)
        if found.k == k:
            with single_threaded():
                curve.append((k, round(float(silhouette_score(sample, found.labels, metric="cosine")), 6)))
    best = max(curve, key=lambda one: (one[1], -one[0]), default=(1, 0.0))
    return Choice(best[0], curve)


def grouped(centroids: Embeddings, levels: int, *, seed: int = 0) -> list[NDArray[np.int64]]:
    """Return for every level above the clusters themselves the group of every cluster, (k,) each.

    The centroids (k, dim) of one level are what the next one clusters, each counting the same. Every level has as many
    groups as `choose_k` finds; levels, the clusters themselves counted among them, end where it finds one.
    """
    found: list[NDArray[np.int64]] = []
    groups = np.arange(len(centroids))
    while len(found) < levels - 1:
        k = choose_k(centroids, seed=seed).k
        if k == 1:
            break
        above = spherical_kmeans(centroids, k, seed=seed)
        groups, centroids = above.labels[groups], above.centroids
        found.append(groups)
    return found
