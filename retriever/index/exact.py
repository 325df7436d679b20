"""Brute-force search in NumPy: the oracle the FAISS indexes are held to, and the search of small sets."""

import numpy as np

from retriever.core.errors import UsageError
from retriever.core.similarity import top_k
from retriever.core.types import Embeddings, Ids, Neighbours
from retriever.index.checks import check_embeddings, check_ids, check_search


class ExactIndex:
    """Compares a query with every vector; implements `retriever.core.protocols.VectorIndex`.

    Scores are summed in float64 and rounded once to float32, so equal vectors tie wherever they stand.

    Args:
        ids: (n,) distinct integers, in any order.
        embeddings: (n, dim) float32 rows of length 1.

    Raises:
        UsageError: the arrays do not fit each other, an id occurs twice, or a vector is not finite.
    """

    def __init__(self, ids: Ids, embeddings: Embeddings) -> None:
        check_ids(ids)
        check_embeddings(embeddings, embeddings.shape[-1])
        if len(ids) != len(embeddings):
            raise UsageError(f"{len(ids)} ids were given for {len(embeddings)} vectors.")
        self._ids = ids.astype(np.int64)
        self._embeddings = embeddings.astype(np.float64)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self._embeddings.shape[1])

    @property
    def size(self) -> int:
        """Number of vectors."""
        return len(self._ids)

    def search(self, queries: Embeddings, k: int, *, allowed: Ids | None = None) -> Neighbours:
        """Return the k nearest ids of each query; see `retriever.core.protocols.VectorIndex.search`.

        Raises:
            UsageError: the queries are not finite (q, dim) float32, or k is below 1.
        """
        check_search(queries, k, self.dim)
        keep = slice(None) if allowed is None else np.isin(self._ids, allowed)
        scores = queries.astype(np.float64) @ self._embeddings[keep].T  # (q, n)
        return top_k(scores.astype(np.float32), self._ids[keep], k)
