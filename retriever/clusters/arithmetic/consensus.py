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

APART = 0.15
"""Least agreement of halves above chance (clusters-that-hold.md)."""

_DRAWS, _MOST_CENTROIDS = 80, 4000  # runs that vote; fewer where they have many centroids together
_KEPT = 0.9  # share of the rows in a run
_REFERENCES = 4
_ROUNDS = 10
_SPLITS = 4
_HALF_RUNS = 12
_CLOUDS, _CLOUD_RUNS = 2, 8
_DIMENSIONS = 64

Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stability:
    """How well a partition holds: mean adjusted Rand indices, 1 for what is always the same, 0 for chance.

    Rows that are alone in their cluster do not count.

    Attributes:
        repeated: of partitions that disjoint halves of the runs agree on, with one another.
        halves: of the partition with k-means of random halves of the rows.
        chance: of a partition of `shuffled` rows, with k-means of random halves of these; None where it was not looked
            into.
    """

    repeated: float
    halves: float
    chance: float | None = None

    @property
    def holds(self) -> bool:
        """Whether both are high enough."""
        return self.repeated >= REPEATED and self.halves >= HALVES

    @property
    def apart(self) -> bool:
        """Whether halves of the rows find the clusters again more than those of rows without any groups would."""
        return self.chance is None or self.halves - self.chance >= APART

    def to_json(self) -> dict[str, float | bool | None]:
        """Return the documented JSON object."""
        return {"repeated": self.repeated, "halves": self.halves, "chance": self.chance, "holds": self.holds}


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

    several = _several(labels, k)
    repeated = []
    for _ in range(_SPLITS):
        order = draw.permutation(len(runs))
        one, other = (_agreed(runs[part], k, 2)[several] for part in np.array_split(order, 2))
        repeated.append(adjusted_rand_score(one, other))
    return Stability(round(float(np.mean(repeated)), 4), _halves(rows, k, labels, draw))


def chance(rows: Embeddings, k: int) -> float:
    """Return the agreement of halves of rows (n, dim) without groups that spread as some rows do.

    It is high where one direction has most of the spread: a cloud is cut across it wherever its halves are clustered.
    """
    draw = np.random.default_rng([1, k])
    found = []
    for _ in range(_CLOUDS):
        cloud = shuffled(rows, draw)
        closest = _best(cloud, _runs(cloud, k, _CLOUD_RUNS, _KEPT, draw), k)[-1]
        found.append(_halves(cloud, k, closest, draw))
    return round(float(np.mean(found)), 4)


def shuffled(rows: Embeddings, draw: np.random.Generator) -> Embeddings:
    """Return rows (n, dim) of length 1 whose places along each principal axis are dealt out anew.

    It is much the reference of the gap statistic (Tibshirani, Walther and Hastie, 2001, section 3, b).
    """
    mean = rows.mean(axis=0)
    _, axes = np.linalg.eigh((rows - mean).T @ (rows - mean))
    return normalise(draw.permuted((rows - mean) @ axes, axis=0) @ axes.T + mean).astype(np.float32)


def _halves(rows: Embeddings, k: int, labels: Labels, draw: np.random.Generator) -> float:
    """Return the agreement of a partition with k-means of random halves of the rows."""
    from sklearn.metrics import adjusted_rand_score

    several = _several(labels, k)
    others = _runs(rows, k, _HALF_RUNS, 0.5, draw)
    return round(float(np.mean([adjusted_rand_score(labels[several], other[several]) for other in others])), 4)


def _several(labels: Labels, k: int) -> NDArray[np.bool_]:
    """Return the rows (n,) whose cluster has others; all where none has."""
    several = np.bincount(labels, minlength=k)[labels] > 1
    return np.asarray(several | (not several.any()))


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
