"""Hard negatives: what an encoder puts near a query though it does not belong there, mined with a margin.

A candidate that is nearly as similar to the query as the positive is more often an unmarked right answer than a useful
wrong one. So candidates above ``margin`` times the positive's similarity are skipped, and the most similar of the
others are taken.

Source: Moreira et al., "NV-Retriever: Improving text embedding models with effective hard-negative mining"
(arXiv 2407.15831): positive-aware mining, TopK-PercPos with 95 %.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import UsageError
from retriever.core.protocols import VectorIndex
from retriever.core.types import Embeddings, Ids
from retriever.vectors.exact import ExactIndex

MINING_MARGIN = 0.95
_EXACT = 4096  # vectors up to which NumPy compares with all
_AT_ONCE = 1 << 22  # (queries x candidates) of one search
_DEEPER = 4  # how many times as many candidates are fetched when too few are left


@dataclass(frozen=True, slots=True)
class MiningOptions:
    """Settings of how negatives are mined.

    Attributes:
        count: most negatives of a row.
        margin: share of the positive's similarity above which a candidate is taken for right, and skipped.
        depth: candidates fetched at first.
    """

    count: int = 4
    margin: float = MINING_MARGIN
    depth: int = 32

    def __post_init__(self) -> None:
        if self.count < 1 or self.depth < 1:
            raise UsageError("Mining needs a count and a depth of at least 1.", hint="Four negatives are usual.")
        if not 0 < self.margin <= 1:
            raise UsageError(f"The margin is {self.margin}.", hint="Give a share between 0 and 1; 0.95 is usual.")


@dataclass(frozen=True, slots=True)
class MinedIds:
    """The ids of the negatives found for each query.

    Attributes:
        ids: per query, the ids of its negatives, most similar first; fewer than asked for where there are no more.
    """

    ids: list[list[int]]
    skipped: list[int]


@dataclass(frozen=True, slots=True)
class MiningQueries:
    """Queries to mine for.

    Attributes:
        vectors: (q, dim) rows of length 1.
        positive: (q,) similarity of each query to its positive.
        right: per query, the ids that are right or the query itself; empty for none.
        allowed: sorted ids that may be negatives of these queries; None allows all.
    """

    vectors: Embeddings
    positive: NDArray[np.float32]
    right: Sequence[Collection[int]]
    allowed: Ids | None = None


def threshold(positive: NDArray[np.float32], margin: float) -> NDArray[np.float32]:
    """Return the highest similarity a negative may have, (q,): the positive's less a share of its size.

    For a positive above 0 that is ``margin`` times its similarity. A negative similarity times ``margin`` would lie
    above it, so there as much is taken off.
    """
    return np.asarray(positive - (1 - margin) * np.abs(positive), dtype=np.float32)


def mine(queries: MiningQueries, index: VectorIndex, options: MiningOptions) -> MinedIds:
    """Return each query's most similar ids that are neither right nor above the threshold.

    Candidates are fetched from the index, more of them for the queries that have too few left.
    """
    ids: list[list[int]] = [[] for _ in queries.right]
    skipped = [0] * len(ids)
    available = index.size if queries.allowed is None else len(queries.allowed)
    limits = threshold(queries.positive, options.margin)
    open_ended = np.arange(len(ids))
    depth = max(options.depth, options.count)
    while open_ended.size and available:
        step = max(1, _AT_ONCE // max(depth, _EXACT))
        for start in range(0, len(open_ended), step):
            part = open_ended[start : start + step]
            found = index.search(queries.vectors[part], min(depth, available), allowed=queries.allowed)
            for query, near, scores in zip(part.tolist(), found.ids, found.scores, strict=True):
                right = set(queries.right[query])
                wrong = np.array([one >= 0 and one not in right for one in near.tolist()], dtype=bool)
                below = scores <= limits[query]
                ids[query] = near[wrong & below][: options.count].tolist()
                skipped[query] = int((wrong & ~below).sum())
        if depth >= available:
            break
        open_ended = open_ended[[len(ids[query]) < options.count for query in open_ended.tolist()]]
        depth *= _DEEPER
    return MinedIds(ids, skipped)


def vector_index(vectors: Embeddings) -> VectorIndex:
    """Return an index over (n, dim) rows of length 1, whose ids are their places; on FAISS where they are many."""
    ids = np.arange(len(vectors), dtype=np.int64)
    if len(vectors) <= _EXACT:
        return ExactIndex(ids, vectors)
    from retriever.vectors.faiss.building import build_index

    return build_index(ids, [vectors], vectors.shape[1]).index
