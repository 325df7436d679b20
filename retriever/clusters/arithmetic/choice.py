"""How many clusters a view has: the k whose clusters are most apart (Rousseeuw, "Silhouettes", 1987)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import silhouette_score
from threadpoolctl import threadpool_limits

from retriever.clusters.arithmetic.kmeans import different, spherical_kmeans
from retriever.core.types import Embeddings

CANDIDATES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 30)
_COMPARED = 2000
"""Rows looked at; silhouettes take the cosines of all pairs."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How the number of clusters was chosen.

    Attributes:
        k: the number.
        curve: every number tried with its mean silhouette, -1 to 1.
    """

    k: int
    curve: Sequence[tuple[int, float]]


def choose_k(vectors: Embeddings, *, seed: int = 0, candidates: Sequence[int] = CANDIDATES) -> Choice:
    """Return the number of clusters with the highest mean silhouette, the smaller of equals.

    At least three rows a cluster are asked for, so that a cluster is more than a pair; where the rows are too few or
    all alike there is one cluster.

    Args:
        vectors: (n, dim) rows of length 1.
        seed: of the sample and of k-means.
        candidates: numbers to try.
    """
    rows = np.random.default_rng(seed).permutation(len(vectors))[:_COMPARED]
    sample = vectors[np.sort(rows)]
    distinct = different(sample)  # sorting long rows takes a while: once for all candidates
    most = min(len(sample) // 3, len(distinct))
    curve = []
    for k in sorted(one for one in candidates if 2 <= one <= most):
        found = spherical_kmeans(sample, k, seed=seed, distinct=distinct)
        if found.k == k:
            with threadpool_limits(1):
                curve.append((k, round(float(silhouette_score(sample, found.labels, metric="cosine")), 6)))
    best = max(curve, key=lambda one: (one[1], -one[0]), default=(1, 0.0))
    return Choice(best[0], curve)
