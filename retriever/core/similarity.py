"""Arithmetic on embeddings and rankings, in NumPy alone: the plain form every faster one is held to."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retriever.core.types import Embeddings, Ids, Neighbours

LEVELS = np.concatenate([np.linspace(0, 0.99, 199), 1 - np.geomspace(1e-2, 1e-4, 101)[1:]])
"""Shares of random pairs at which a distribution of cosines is kept, (299,): closer together where it matters."""


def pair_quantiles(vectors: Embeddings) -> NDArray[np.float32]:
    """Return the cosines (299,) that the share `LEVELS` of all pairs of different rows (n, dim) lie below; n from 2."""
    cosines = np.sort((vectors @ vectors.T)[np.tri(len(vectors), k=-1, dtype=bool)])
    return np.asarray(np.quantile(cosines, LEVELS), dtype=np.float32)  # of what is in order already, quicker


def percentile(cosine: float, quantiles: NDArray[np.float32]) -> float:
    """Return the percentage of pairs, by their `pair_quantiles`, that are less alike than a cosine: 0 to 99.99."""
    above = int(np.searchsorted(quantiles, cosine))
    if above == 0:
        return 0.0
    if above == len(LEVELS):
        return 100 * float(LEVELS[-1])
    low, high = float(quantiles[above - 1]), float(quantiles[above])
    return 100 * float(np.interp(cosine, [low, high], LEVELS[above - 1 : above + 1]))


def spread(quantiles: NDArray[np.float32]) -> float:
    """Return half the distance between the 16th and the 84th percentile of the cosines of `pair_quantiles`.

    Of normally distributed cosines it is the standard deviation; the few pairs that are much alike do not move it.
    """
    low, high = np.interp([0.1587, 0.8413], LEVELS, quantiles)
    return float(high - low) / 2


def normalise(vectors: ArrayLike) -> Embeddings:
    """Return the (n, dim) rows as float32 of length 1; a zero row stays zero."""
    rows = np.asarray(vectors, dtype=np.float32)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1), dtype=np.float32)


def top_k(scores: NDArray[np.float32], ids: Ids, k: int) -> Neighbours:
    """Return the k best columns of (queries, n) scores: higher first, ties by ascending id, padded with -1.

    Ids are (n,), or (queries, n) with -1 for what is no result.
    """
    ids = np.broadcast_to(ids, scores.shape)
    last = np.iinfo(np.int64).max  # padding sorts behind every real id
    order = np.lexsort((np.where(ids < 0, last, ids), -scores), axis=1)[:, :k]
    return pad(Neighbours(np.take_along_axis(ids, order, axis=1), np.take_along_axis(scores, order, axis=1)), k)


def pad(result: Neighbours, k: int) -> Neighbours:
    """Return the result widened to k columns with id -1 and score -inf."""
    short = k - result.ids.shape[1]
    if short <= 0:
        return result
    return Neighbours(
        ids=np.pad(result.ids, ((0, 0), (0, short)), constant_values=-1),
        scores=np.pad(result.scores, ((0, 0), (0, short)), constant_values=-np.inf),
    )


def merge(parts: Sequence[Neighbours], k: int) -> Neighbours:
    """Return the k best of several results over disjoint ids, for the same queries."""
    scores = np.concatenate([part.scores for part in parts], axis=1)
    return top_k(scores, np.concatenate([part.ids for part in parts], axis=1), k)


def reciprocal_rank_fusion(rankings: Sequence[Sequence[int]], *, constant: int = 60) -> Mapping[int, float]:
    """Return the fused score of every id: the sum over rankings of 1 / (constant + rank), rank from 1.

    Source: Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual
    Rank Learning Methods", SIGIR 2009.
    """
    fused: dict[int, float] = {}
    for ranking in rankings:
        for rank, identifier in enumerate(ranking, start=1):
            fused[identifier] = fused.get(identifier, 0.0) + 1.0 / (constant + rank)
    return fused
