"""Metrics on vectors, one value per item or a statistic over row numbers, so that a bootstrap over items is cheap.

Ranked retrieval is in `retrieval_metrics`, the harmonic mean in `scores`. Where an item has to beat another, a tie is a
failure: an encoder that gives every text the same vector succeeds nowhere.

K-means runs once a seed on rows of length 1, where the squared distance is two less twice the cosine: the usual
stand-in for spherical k-means, though centres are means and not of length 1.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr
from scipy.stats import rankdata

from retriever.core.protocols import Encoder
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings
from retriever.evaluation.scores import PERCENT, Floats, Rows, Score, score

_QUERIES_AT_ONCE = 256  # compared with the pool at a time: 256 x 9,000 float32 is 9 MB


def cosines(left: Embeddings, right: Embeddings) -> Floats:
    """Return the cosine of every row of one array with the row beside it in the other: (..., dim) to (...).

    Rows have length 1. Equal rows give equal results to the last bit, wherever they stand.
    """
    return np.asarray((left.astype(np.float64) * right).sum(axis=-1), dtype=np.float64)


def triplet_successes(anchors: Embeddings, same: Embeddings, other: Embeddings) -> Floats:
    """Return 1 for every triplet whose anchor is closer to the text that shares the criterion, else 0; a tie is 0.

    All are (..., dim) rows of length 1, embedded under the criterion's instruction; ``other`` shares the other
    criterion alone. An encoder that ignores the instruction has the same cosines under both criteria, so its two
    success rates add up to at most 1 and their harmonic mean to at most 1/2.

    Source: Peng et al., "Answer is All You Need: Instruction-following Text Embedding via Answering the Question",
    ACL 2024, section 3.2 (IntentEmotion).
    """
    return (cosines(anchors, same) > cosines(anchors, other)).astype(np.float64)


def spearman(left: NDArray[np.generic], right: NDArray[np.generic]) -> float:
    """Return Spearman's rank correlation, -1 to 1, equal values sharing their mean rank; 0 where one side is constant.

    Equal to `scipy.stats.spearmanr`, which gives no number for a constant side and takes three times as long.
    """
    ranked = [rankdata(side) for side in (left, right)]
    x, y = (side - side.mean() for side in ranked)
    spread = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / spread if spread else 0.0


def own_output_first(queries: Embeddings, pool: Embeddings, own: Rows) -> Floats:
    """Return 1 for every query that is closer to its own output than to all else in the pool: the items of IRS.

    Queries (n, dim) are instruction and input together, the pool (p, dim) is of all distinct instructions, inputs and
    outputs, a query's own among them, and ``own`` (n,) is the row of each query's output in the pool.

    Source: the ICE benchmark's Instruction Retrieval Score, equation 1; its argmax leaves ties open.
    """
    values = np.empty(len(queries))
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        block = slice(start, start + _QUERIES_AT_ONCE)
        scores = queries[block] @ pool.T  # (b, p)
        rows = np.arange(len(scores))
        reached = scores[rows, own[block]].copy()
        scores[rows, own[block]] = -np.inf
        values[block] = reached > scores.max(axis=1)
    return values


def encode_each(
    encoder: Encoder, texts: Sequence[str], instructions: Sequence[str], *, queries: bool = False
) -> Embeddings:
    """Return (n, dim) vectors of n texts, each under the instruction beside it; equal pairs are read once.

    They are read instruction by instruction where there are fewer instructions than texts, else text by text, so that
    a text is read once for all of its instructions. ``queries`` are compared with documents: an encoder that has
    prompts reads them behind those of queries.
    """
    pairs = {pair: number for number, pair in enumerate(dict.fromkeys(zip(texts, instructions, strict=True)))}
    by_text: dict[str, list[str]] = defaultdict(list)
    by_instruction: dict[str, list[str]] = defaultdict(list)
    for text, instruction in pairs:
        by_text[text].append(instruction)
        by_instruction[instruction].append(text)
    vectors = np.empty((len(pairs), encoder.dim), dtype=np.float32)
    by_role = queries and bool(encoder.spec.prompts)
    if by_role or len(by_instruction) <= len(by_text):
        encode = encoder.encode_queries if by_role else encoder.encode
        for instruction, read in by_instruction.items():
            vectors[[pairs[text, instruction] for text in read]] = encode(read, instruction=instruction)
    else:
        for text, own in by_text.items():
            vectors[[pairs[text, instruction] for instruction in own]] = np.concatenate(
                encoder.encode_many([text], own)
            )
    return vectors[[pairs[pair] for pair in zip(texts, instructions, strict=True)]]


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
    """Cluster rows (n, dim) of any length once for every seed, with as many clusters as there are labels, one a row."""
    from sklearn.cluster import KMeans

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
    label in a single cluster scores 1. Labels (n,) and the clusterings (m, n) are numbers of true groups and clusters,
    from 0.

    Source: Rosenberg and Hirschberg, "V-Measure", EMNLP-CoNLL 2007, equation 3 with beta = 1.
    """
    shape = (len(assignments), int(labels.max()) + 1, int(assignments.max()) + 1)
    cells = (np.arange(shape[0])[:, None] * shape[1] + labels) * shape[2] + assignments  # (m, n)
    joint = np.bincount(cells.ravel(), minlength=math.prod(shape)).reshape(shape) / len(labels)
    apart = entr(joint.sum(axis=2)).sum(axis=1) + entr(joint.sum(axis=1)).sum(axis=1)  # (m,) entropies, in nats
    shared = apart - entr(joint).sum(axis=(1, 2))
    return np.where(apart > 0, np.maximum(0.0, 2 * shared / np.where(apart > 0, apart, 1.0)), 1.0)
