"""Spherical k-means, the same from the same vectors whatever the number of threads.

Rows and centroids have length 1, so that the nearest centroid is the one of highest cosine (Dhillon and Modha, 2001).
The centroids are those of a partition that many runs agree on (`consensus`). Rows keep what they have in common: less
their mean, the rows of a group that most of them belong to would be told apart by noise alone.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.consensus import WHOLE, Stability, consensus, directions, reduced, trained
from retriever.core.contexts import single_threaded
from retriever.core.errors import UsageError
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings

TRAINED_ON = 50_000  # most rows that centroids are learned from; the rest are assigned to them
COMPARED, _ROWS_A_CLUSTER = 2000, 10  # rows that many runs cluster: so many, or so many a cluster where that is more
_ROWS_AT_ONCE = 65_536  # of which cosines with all centroids are held at once


@dataclass(frozen=True, slots=True)
class Partition:
    """Rows in clusters, the largest cluster first.

    Attributes:
        centroids: (k, dim) of length 1.
        labels: (n,) number of every row's cluster, from 0.
        cosines: (n,) of every row with its centroid.
        margins: (n,) what the cosine with the next best centroid is lower by; the cosine itself with one cluster.
        stability: how well it holds; None where the rows are too few to say.
    """

    centroids: Embeddings
    labels: NDArray[np.int64]
    cosines: NDArray[np.float32]
    margins: NDArray[np.float32]
    stability: Stability | None = WHOLE

    @property
    def k(self) -> int:
        """The number of clusters."""
        return len(self.centroids)


def spherical_kmeans(vectors: Embeddings, k: int) -> Partition:
    """Cluster rows, every one into a cluster.

    Args:
        vectors: (n, dim) rows of length 1.
        k: clusters wanted; there are fewer where fewer rows differ.

    Raises:
        UsageError: there are no rows, or more clusters wanted than rows, or k is below 1.
    """
    check_count(k, len(vectors))
    with single_threaded():
        sampled = _sampled(vectors, TRAINED_ON)
        distinct = different(sampled)
        if k >= len(distinct):
            return assign(vectors, distinct)
        if k == 1:
            return assign(vectors, normalise(sampled.mean(axis=0, keepdims=True)))
        rows = compared_rows(sampled, k)
        labels, stability = consensus(reduced(rows), k)
        return replace(assign(vectors, trained(sampled, directions(rows, labels, k))), stability=stability)


def compared_rows(rows: Embeddings, k: int) -> Embeddings:
    """Return the rows that many runs cluster to find k clusters, in the order they stand."""
    return _sampled(rows, max(COMPARED, _ROWS_A_CLUSTER * k))


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
    given = nearest(vectors, centroids)
    sizes = np.bincount(given.labels, minlength=len(centroids))
    first = np.full(len(centroids), len(vectors))
    np.minimum.at(first, given.labels, np.arange(len(vectors)))
    order = np.lexsort((first, -sizes))[: np.count_nonzero(sizes)]
    numbers = np.zeros(len(centroids), dtype=np.int64)
    numbers[order] = np.arange(len(order))
    return replace(given, centroids=centroids[order], labels=numbers[given.labels])


def grouped(vectors: Embeddings, labels: NDArray[np.int64], k: int) -> Partition:
    """Return rows (n, dim) in given groups (n,), each of which has a row, as a partition in the order of the groups."""
    centroids = directions(vectors, labels, k)
    against = vectors @ centroids.T  # (n, k)
    own = against[np.arange(len(vectors)), labels]
    against[np.arange(len(vectors)), labels] = -np.inf
    margins = own - against.max(axis=1) if k > 1 else own
    return Partition(centroids, labels.astype(np.int64), own, margins, stability=None)


def nearest(vectors: Embeddings, centroids: Embeddings) -> Partition:
    """Put every row to its nearest centroid; centroids without rows stay, all in the order given."""
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


def _sampled(vectors: Embeddings, most: int) -> Embeddings:
    if len(vectors) <= most:
        return vectors
    rows = np.random.default_rng(0).choice(len(vectors), most, replace=False)
    return vectors[np.sort(rows)]
