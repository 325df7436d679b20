"""Clusters of clusters: the centroids of one level are what the next one clusters, each counting the same."""

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.choice import choose_k
from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.core.types import Embeddings


def grouped(centroids: Embeddings, levels: int, *, seed: int = 0) -> list[NDArray[np.int64]]:
    """Return for every level above the clusters themselves the group of every cluster, (k,) each.

    Every level has as many groups as `choose_k` finds; levels end where it finds one.

    Args:
        centroids: (k, dim) of length 1.
        levels: most levels, the clusters themselves counted.
        seed: of k-means.
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
