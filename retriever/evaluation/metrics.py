"""Metrics on vectors, as one value per item or a statistic over row numbers, so that a bootstrap over items is cheap.

V-measure is in `clustering`, ranked retrieval in `retrieval_metrics`, the harmonic mean in `scores`. Where an item has
to beat another, a tie is a failure: an encoder that gives every text the same vector succeeds nowhere.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from retriever.core.types import Embeddings
from retriever.evaluation.scores import Floats, Rows

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


def delta(values: Floats) -> Floats:
    """Return the first row less the second of (2, n): Delta_ci for correct and incorrect wordings, else Delta_ii.

    Made for `combine`: both scores are from the same resamples, so the interval of their gap is paired.
    """
    return np.asarray(values[0] - values[1], dtype=np.float64)


def own_output_first(queries: Embeddings, pool: Embeddings, own: Rows) -> Floats:
    """Return 1 for every query that is closer to its own output than to all else in the pool: the items of IRS.

    Args:
        queries: (n, dim) embeddings of instruction and input together.
        pool: (p, dim) embeddings of all distinct instructions, inputs and outputs; a query's own stay among them.
        own: (n,) the row of each query's output in the pool.

    Source: the ICE benchmark's Instruction Retrieval Score, equation 1; its argmax leaves ties open.
    """
    values = np.empty(len(queries))
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        block = slice(start, start + _QUERIES_AT_ONCE)
        found = queries[block] @ pool.T  # (b, p)
        rows = np.arange(len(found))
        reached = found[rows, own[block]].copy()
        found[rows, own[block]] = -np.inf
        values[block] = reached > found.max(axis=1)
    return values


def beats_negatives(queries: Embeddings, outputs: Embeddings, negatives: Sequence[Embeddings]) -> Floats:
    """Return 1 for every query that is closer to its output than to any of its negatives: the items of IGS.

    Queries (n, dim) are instruction and input together, outputs (n, dim) the right ones, and negatives n arrays (k,
    dim) of wrong ones, k at least 1.

    Source: the ICE benchmark's Instruction Guidance Strength, equation 2.
    """
    hardest = [cosines(query[None], wrong).max() for query, wrong in zip(queries, negatives, strict=True)]
    return (cosines(queries, outputs) > np.array(hardest)).astype(np.float64)


def margins(queries: Embeddings, outputs: Embeddings, negatives: Sequence[Embeddings]) -> Floats:
    """Return by how much every query is closer to its output than to its negatives on average: the items of ITDS.

    Times 100 their mean is what the paper prints. Arguments as for `beats_negatives`.

    Source: the ICE benchmark's Instruction Target Differential Score, equation 3.
    """
    typical = [cosines(query[None], wrong).mean() for query, wrong in zip(queries, negatives, strict=True)]
    return np.asarray(cosines(queries, outputs) - np.array(typical), dtype=np.float64)
