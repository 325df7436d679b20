"""Spherical k-means by FAISS, the same from the same vectors whatever the number of threads.

Rows and centroids have length 1, so that the nearest centroid is the one of highest cosine (Dhillon and Modha, 2001).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import kmeans_plusplus

from retriever.core.errors import UsageError
from retriever.core.one_thread import single_threaded
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings
from retriever.vectors.faiss._faiss import faiss

ITERATIONS = 25
STARTS = 5  # K-means++ starts; the best is kept
TRAINED_ON = 50_000  # most rows that centroids are learned from; the rest are assigned to them
_SEEDED_ON = 10_000
_ROWS_AT_ONCE = 65_536  # of which cosines with all centroids are held at once


@dataclass(frozen=True, slots=True)
class Partition:
    """Rows in clusters, the largest cluster first.

    Attributes:
        centroids: (k, dim) of length 1.
        labels: (n,) number of every row's cluster, from 0.
        cosines: (n,) of every row with its centroid.
        margins: (n,) what the cosine with the next best centroid is lower by; the cosine itself with one cluster.
    """

    centroids: Embeddings
    labels: NDArray[np.int64]
    cosines: NDArray[np.float32]
    margins: NDArray[np.float32]

    @property
    def k(self) -> int:
        """The number of clusters."""
        return len(self.centroids)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows of every cluster, (k,)."""
        return np.bincount(self.labels, minlength=self.k)


def spherical_kmeans(
    vectors: Embeddings, k: int, *, seed: int = 0, min_size: int = 1, distinct: Embeddings | None = None
) -> Partition:
    """Cluster rows, every one into a cluster.

    Args:
        vectors: (n, dim) rows of length 1.
        k: clusters wanted; there are fewer where fewer rows differ or clusters are too small.
        seed: of the starts and of the rows learned from.
        min_size: clusters with fewer rows are given up, the smallest first, and their rows go to the next nearest.
        distinct: the rows' `different` ones, where the caller has them already and the rows are at most `TRAINED_ON`.

    Raises:
        UsageError: there are no rows, or more clusters wanted than rows, or k or min_size is below 1.
    """
    check_count(k, len(vectors))
    if min_size < 1:
        raise UsageError(f"The smallest cluster cannot have {min_size} documents.", hint="Give at least 1.")
    with single_threaded():
        sampled = _sampled(vectors, seed)
        distinct = different(sampled) if distinct is None else distinct
        centroids = _learned(sampled, distinct, min(k, len(distinct)), seed)
        found = assign(vectors, centroids)
        while found.k > 1 and found.sizes[-1] < min_size:
            found = assign(vectors, found.centroids[:-1])
    return found


def check_count(k: int, documents: int) -> None:
    """Refuse a number of clusters that cannot be made.

    Raises:
        UsageError: k is below 1 or above the number of documents.
    """
    if not 1 <= k <= documents:
        raise UsageError(f"{k} clusters cannot be made of {documents} documents.", hint="Choose a smaller -k.")


def different(vectors: Embeddings) -> Embeddings:
    """Return the different rows in the order they stand, not sorted: rounding would change what the starts draw."""
    _, first = np.unique(vectors, axis=0, return_index=True)
    return vectors[np.sort(first)]


def assign(vectors: Embeddings, centroids: Embeddings) -> Partition:
    """Put every row to its nearest centroid.

    Centroids without rows are left out; the others go by size, those of equal size by their first row.
    """
    nearest = _nearest(vectors, centroids)
    sizes = np.bincount(nearest.labels, minlength=len(centroids))
    first = np.full(len(centroids), len(vectors))
    np.minimum.at(first, nearest.labels, np.arange(len(vectors)))
    order = np.lexsort((first, -sizes))[: np.count_nonzero(sizes)]
    numbers = np.zeros(len(centroids), dtype=np.int64)
    numbers[order] = np.arange(len(order))
    return replace(nearest, centroids=centroids[order], labels=numbers[nearest.labels])


def assign_to(vectors: Embeddings, centroids: Embeddings) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return for every row (n,) the number of its nearest centroid as given, and the cosine with it."""
    found = _nearest(vectors, centroids)
    return found.labels, found.cosines


def _nearest(vectors: Embeddings, centroids: Embeddings) -> Partition:
    labels = np.empty(len(vectors), dtype=np.int64)
    cosines = np.empty(len(vectors), dtype=np.float32)
    margins = np.empty(len(vectors), dtype=np.float32)
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        against = vectors[part] @ centroids.T  # (rows, k)
        labels[part] = against.argmax(axis=1)
        cosines[part] = against.max(axis=1)
        second = np.partition(against, -2, axis=1)[:, -2] if len(centroids) > 1 else 0.0
        margins[part] = cosines[part] - second
    return Partition(centroids, labels, cosines, margins)


def _sampled(vectors: Embeddings, seed: int) -> Embeddings:
    if len(vectors) <= TRAINED_ON:
        return vectors
    rows = np.random.default_rng(seed).choice(len(vectors), TRAINED_ON, replace=False)
    return vectors[np.sort(rows)]


def _learned(vectors: Embeddings, distinct: Embeddings, k: int, seed: int) -> Embeddings:
    """Return the best centroids (k, dim) over several k-means++ starts."""
    if k == len(distinct):
        return distinct
    starting = distinct[np.sort(np.random.default_rng(seed).permutation(len(distinct))[: max(_SEEDED_ON, k)])]
    best, score = distinct[:k], -np.inf
    for start in range(STARTS):
        drawn = int(np.random.default_rng([seed, start]).integers(1 << 31))
        first, _ = kmeans_plusplus(starting, k, random_state=drawn)
        centroids = _trained(vectors, normalise(first), seed)
        found = float(assign(vectors, centroids).cosines.mean(dtype=np.float64))
        if found > score + 1e-9:
            best, score = centroids, found
    return best


def _trained(vectors: Embeddings, first: Embeddings, seed: int) -> Embeddings:
    """Return centroids (k, dim) of length 1 after `ITERATIONS` of assignment and mean, from ``first`` (k, dim)."""
    learner = faiss.Kmeans(
        vectors.shape[1],
        len(first),
        niter=ITERATIONS,
        seed=seed,
        spherical=True,
        min_points_per_centroid=1,
        max_points_per_centroid=len(vectors),
    )
    learner.train(np.ascontiguousarray(vectors), init_centroids=np.ascontiguousarray(first))
    return normalise(learner.centroids)
