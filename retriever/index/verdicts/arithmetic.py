"""Features that tell a question which is followed from one that is not: arithmetic alone, in NumPy.

Views are compared by the cosines of all pairs of texts, as a search or a clustering sees them.
"""

import numpy as np
from numpy.typing import NDArray

from retriever.core.types import Embeddings

Floats = NDArray[np.float64]

SAME = 0.98
"""Correlation of all pairs' cosines above which two views group the texts in the same way."""

_TINY = 1e-9
_FLAT = 1e-6


def near(vectors: Embeddings, meanings: Embeddings) -> float:
    """Return how far a view (n, dim) has those texts together whose answers mean the same (n, e), as a correlation.

    A model that answers the question has both by the answer; where both go by different things, it hardly reads it.
    """
    return likeness(pair_cosines(vectors), pair_cosines(meanings - meanings.mean(axis=0)))


def first_share(vectors: Embeddings) -> float:
    """Return the share of a view's variance (n, dim) along its first principal component; 0 where texts are alike."""
    rows = vectors.astype(np.float64)
    variances = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    total = float(variances.sum())
    return float(variances[0]) / total if total > _FLAT else 0.0


def pair_cosines(vectors: Embeddings) -> Floats:
    """Return the cosines (n, n) of rows (n, dim)."""
    rows = vectors.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) + _TINY
    return np.asarray(rows @ rows.T)


def upper(cosines: Floats) -> Floats:
    """Return the values (n (n - 1) / 2,) of all pairs of different texts in (n, n)."""
    return cosines[np.triu_indices(len(cosines), k=1)]


def likeness(first: Floats, second: Floats) -> float:
    """Return Pearson's correlation of the cosines of all pairs in two views (n, n); 1 where both are flat."""
    ours, theirs = upper(first), upper(second)
    flat = [float(np.ptp(cosines)) < _FLAT for cosines in (ours, theirs)]
    if any(flat):  # all texts are alike in a view: there are no groups to compare
        return float(all(flat))
    return float(np.corrcoef(ours, theirs)[0, 1])
