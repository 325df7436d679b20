"""A partition that many clusterings agree on, and how well it holds.

One run of k-means ends in another optimum from a rounding error. So rows are clustered many times, each time from other
starts and without a tenth of the rows, and the partition is what most of these say: their clusters are matched to those
of a reference, the rows go where most put them, and that is the next reference (Ayad and Kamel, "On Voting-Based
Consensus of Cluster Ensembles", Pattern Recognition 2010). Starts are drawn as k-means++ draws them, by the largest of
randomly disturbed distances rather than by summing them up: a rounding error rarely changes which row that is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.core.similarity import normalise
from retriever.core.types import Embeddings

LEAST = 30
"""Fewest rows of which is measured how well a partition holds: halves of fewer say nothing."""

ITERATIONS, _RUN_ITERATIONS = 25, 10
REPEATED, HALVES = 0.9, 0.65
"""Least agreements of a partition that holds. Of eight views three hold by them: their clusters at the chosen k were
the same in float32 as in bfloat16, those of the others agreed by 0.92 in the mean (clusters-that-hold.md)."""

_DRAWS, _MOST_CENTROIDS = 80, 4000  # runs that vote; fewer where they have many centroids together
_KEPT = 0.9  # share of the rows in a run
_REFERENCES = 4
_ROUNDS = 10
_SPLITS = 4
_HALF_RUNS = 12
_DIMENSIONS = 64

Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stability:
    """How well a partition holds: mean adjusted Rand indices, 1 for what is always the same, 0 for chance.

    Attributes:
        repeated: of partitions that disjoint halves of the runs agree on, with one another.
        halves: of the partition with k-means of random halves of the rows.
    """

    repeated: float
    halves: float

    @property
    def holds(self) -> bool:
        """Whether both are high enough."""
        return self.repeated >= REPEATED and self.halves >= HALVES

    def to_json(self) -> dict[str, float | bool]:
        """Return the documented JSON object."""
        return {"repeated": self.repeated, "halves": self.halves, "holds": self.holds}


WHOLE = Stability(1.0, 1.0)
"""Of a partition that nothing can change: all rows together, or every different row by itself."""


def reduced(rows: Embeddings) -> Embeddings:
    """Return rows (n, dim) by their first principal axes about the origin (n, 64 at most), which distances hang on."""
    if rows.shape[1] <= _DIMENSIONS:
        return rows
    _, axes = np.linalg.eigh(rows.T @ rows)  # ascending
    return np.ascontiguousarray(rows @ axes[:, -_DIMENSIONS:])


def consensus(rows: Embeddings, k: int) -> tuple[Labels, Stability | None]:
    """Return the cluster of every row (n,), from 0 to k - 1 with none empty, and how well the partition holds.

    Args:
        rows: (n, dim) of length 1 before `reduced`; of fewer than `LEAST` is not said how well it holds.
        k: clusters, at least 2 and no more than there are different rows.
    """
    draw = np.random.default_rng([0, k])
    runs = _best(rows, _runs(rows, k, max(8, min(_DRAWS, _MOST_CENTROIDS // k)), _KEPT, draw), k)
    agreed = _agreed(runs, k, _REFERENCES)
    labels = _labels(rows, trained(rows, directions(rows, agreed, k)))
    if len(np.unique(labels)) < k:
        labels = agreed
    return labels, None if len(rows) < LEAST else _stability(rows, k, runs, labels, draw)


def _stability(rows: Embeddings, k: int, runs: Labels, labels: Labels, draw: np.random.Generator) -> Stability:
    from sklearn.metrics import adjusted_rand_score

    repeated = []
    for _ in range(_SPLITS):
        order = draw.permutation(len(runs))
        halves = (_agreed(runs[part], k, 2) for part in np.array_split(order, 2))
        repeated.append(adjusted_rand_score(*halves))
    others = _runs(rows, k, _HALF_RUNS, 0.5, draw)
    fits = [adjusted_rand_score(labels, other) for other in others]
    return Stability(round(float(np.mean(repeated)), 4), round(float(np.mean(fits)), 4))


def directions(rows: Embeddings, labels: Labels, k: int) -> Embeddings:
    """Return the sum of every cluster's rows (n, dim) at length 1, (k, dim)."""
    return normalise(_sums(rows, labels, k))


def _sums(rows: Embeddings, labels: Labels, k: int) -> NDArray[np.float64]:
    sums = np.zeros((k, rows.shape[1]), dtype=np.float64)
    np.add.at(sums, labels, rows)
    return sums


def trained(rows: Embeddings, first: Embeddings, iterations: int = ITERATIONS) -> Embeddings:
    """Return centroids (k, dim) of length 1 after some rounds of assignment and mean, from ``first`` (k, dim)."""
    from retriever.vectors.faiss import faiss

    learner = faiss.Kmeans(
        rows.shape[1],
        len(first),
        niter=iterations,
        seed=0,
        spherical=True,
        min_points_per_centroid=1,
        max_points_per_centroid=len(rows),
    )
    learner.train(np.ascontiguousarray(rows), init_centroids=np.ascontiguousarray(first))
    return normalise(learner.centroids)


def _runs(rows: Embeddings, k: int, count: int, share: float, draw: np.random.Generator) -> Labels:
    """Return the clusters of all rows (count, n) by k-means of a share of them."""
    some = max(min(len(rows), k), round(share * len(rows)))
    runs = np.empty((count, len(rows)), dtype=np.int64)
    for run in runs:
        part = rows[np.sort(draw.permutation(len(rows))[:some])]
        run[:] = _labels(rows, trained(part, _starts(part, k, draw), _RUN_ITERATIONS))
    return runs


def _best(rows: Embeddings, runs: Labels, k: int) -> Labels:
    """Return the half of the runs (r, n) whose clusters are closest, those in the order of the runs."""
    lengths = [np.linalg.norm(_sums(rows, run, k), axis=1).sum() for run in runs]  # n times the mean cosine
    return runs[np.sort(np.argsort(lengths, kind="stable")[len(runs) // 2 :])]


def _starts(rows: Embeddings, k: int, draw: np.random.Generator) -> Embeddings:
    """Return k rows, each drawn with a probability that grows with its distance from those before (k-means++)."""
    disturbed = draw.gumbel(size=(k, len(rows)))  # the largest of log p + Gumbel noise is a draw by p
    distances = np.ones(len(rows))
    chosen = []
    for noise in disturbed:
        chosen.append(int((np.log(np.maximum(distances, 1e-9)) + noise).argmax()))
        distances = np.minimum(distances, 1 - rows @ rows[chosen[-1]])
    return normalise(rows[chosen])


def _labels(rows: Embeddings, centroids: Embeddings) -> Labels:
    return np.asarray((rows @ centroids.T).argmax(axis=1), dtype=np.int64)


def _agreed(runs: Labels, k: int, references: int) -> Labels:
    """Return the partition (n,) that most runs (r, n) agree with, of those that some of them lead to as references."""
    voted = [_voted(runs, k, reference) for reference in runs[:references]]
    whole = [(votes, labels) for votes, labels in voted if len(np.unique(labels)) == k]
    if not whole:  # a cluster that some runs have and most have not
        return max(runs, key=lambda labels: len(np.unique(labels)))
    return max(whole, key=lambda pair: pair[0])[1]


def _voted(runs: Labels, k: int, reference: Labels) -> tuple[float, Labels]:
    """Return what the runs vote for, and the share of votes that it has."""
    from scipy.optimize import linear_sum_assignment

    count, rows = runs.shape
    run = np.arange(count)[:, None]
    votes = np.zeros((rows, k), dtype=np.int64)
    for _ in range(_ROUNDS):
        shared = np.bincount(((run * k + runs) * k + reference).ravel(), minlength=count * k * k).reshape(count, k, k)
        names = np.stack([linear_sum_assignment(-table)[1] for table in shared])  # (r, k) cluster of the reference
        cells = np.arange(rows) * k + np.take_along_axis(names, runs, axis=1)
        votes = np.bincount(cells.ravel(), minlength=rows * k).reshape(rows, k)
        labels = np.asarray(votes.argmax(axis=1), dtype=np.int64)
        if np.array_equal(labels, reference):
            break
        reference = labels
    return float(votes.max(axis=1).mean()) / count, reference
