"""Score how well k-means finds known groups again: V-measure over several seeds, fit for resampling.

K-means runs once a seed on rows of length 1, where the squared distance is two less twice the cosine: the usual
stand-in for spherical k-means, though centres are means and not of length 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr
from sklearn.cluster import KMeans

from retriever.core.errors import UsageError
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings
from retriever.evaluation.scores import PERCENT, Floats, Rows, Score, score

SEEDS = 5
_STARTS = 1  # k-means++ starts a seed: the spread over seeds is that of single runs


@dataclass(frozen=True, slots=True)
class ClusteringTask:
    """The same items clustered once for every seed: their true groups (n,) and clusters (seeds, n), numbered from 0."""

    labels: NDArray[np.int64]
    assignments: NDArray[np.int64]

    @property
    def values(self) -> Floats:
        """The V-measure of every seed, 0 to 1, shape (seeds,)."""
        return self.v_measures(np.arange(len(self.labels)))

    def v_measures(self, rows: Rows) -> Floats:
        """Return (seeds,) V-measures of the items at some row numbers, which may repeat; nothing is clustered anew."""
        return v_measures(self.labels[rows], self.assignments[:, rows])

    def mean(self, rows: Rows) -> float:
        """Return the mean V-measure over the seeds; times 100 it is what the papers print."""
        return float(self.v_measures(rows).mean())


def cluster_v_measures(embeddings: Embeddings, labels: Sequence[str], seeds: Sequence[int]) -> ClusteringTask:
    """Cluster rows (n, dim) of any length once for every seed, with as many clusters as there are labels, one a row.

    Raises:
        UsageError: there are not as many labels as rows, or none.
    """
    if len(labels) != len(embeddings) or not labels:
        raise UsageError(f"{len(embeddings)} vectors have {len(labels)} labels.", hint="Give one label a vector.")
    vectors = normalise(embeddings)
    names, codes = np.unique(np.asarray(labels), return_inverse=True)
    runs = [
        KMeans(n_clusters=len(names), n_init=_STARTS, random_state=seed).fit_predict(vectors).astype(np.int64)
        for seed in seeds
    ]
    return ClusteringTask(codes.astype(np.int64), np.array(runs, dtype=np.int64).reshape(len(seeds), len(codes)))


def clustering_seeds(seed: int) -> list[int]:
    """Return the seeds of the clusterings that one seed of an evaluation stands for."""
    return [SEEDS * seed + place for place in range(SEEDS)]


def clustering_score(
    task: str,
    clusterings: ClusteringTask,
    *,
    seed: int,
    metric: str = "V-measure",
    scale: float = PERCENT,
    headline: bool = False,
    note: str = "",
) -> Score:
    """Return the mean V-measure of the clusterings, times ``scale``, with an interval from resampling the items.

    The clusterings stay as they are. Repeated items make any two partitions agree better, so that the V-measure of a
    resample lies above that of all items, by points where there are many labels: the resamples are moved to have the
    value as their mean, and the interval speaks of spread alone. The spread over seeds is added to the note.
    """
    plain = score(task, metric, len(clusterings.labels), lambda rows: scale * clusterings.mean(rows), seed=seed)
    shift = plain.value - float(plain.resampled.mean())
    deviation = scale * clusterings.values.std()
    spread = f"{len(clusterings.assignments)} runs, standard deviation {deviation:.2g}"
    return replace(
        plain,
        low=plain.low + shift,
        high=plain.high + shift,
        resampled=plain.resampled + shift,
        headline=headline,
        note=f"{note}; {spread}" if note else spread,
    )


def v_measure(labels: NDArray[np.int64], clusters: NDArray[np.int64]) -> float:
    """Return the V-measure of one clustering (n,) of items with labels (n,); see `v_measures`."""
    return float(v_measures(labels, clusters[None])[0])


def v_measures(labels: NDArray[np.int64], assignments: NDArray[np.int64]) -> Floats:
    """Return the V-measure of every clustering: the harmonic mean of homogeneity and completeness, 0 to 1.

    Equal to scikit-learn's `v_measure_score`, without the checks that make that one slow under a bootstrap. A single
    label in a single cluster scores 1.

    Args:
        labels: (n,) numbers of the true groups, from 0.
        assignments: (m, n) numbers of the clusters, from 0.

    Source: Rosenberg and Hirschberg, "V-Measure", EMNLP-CoNLL 2007, equation 3 with beta = 1.
    """
    shape = (len(assignments), int(labels.max()) + 1, int(assignments.max()) + 1)
    cells = (np.arange(shape[0])[:, None] * shape[1] + labels) * shape[2] + assignments  # (m, n)
    joint = np.bincount(cells.ravel(), minlength=math.prod(shape)).reshape(shape) / len(labels)
    apart = entr(joint.sum(axis=2)).sum(axis=1) + entr(joint.sum(axis=1)).sum(axis=1)  # (m,) entropies, in nats
    shared = apart - entr(joint).sum(axis=(1, 2))
    return np.where(apart > 0, np.maximum(0.0, 2 * shared / np.where(apart > 0, apart, 1.0)), 1.0)
