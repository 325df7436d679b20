"""Check the arrays given to any index, so that all indexes refuse the same things in the same words."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import UsageError


def check_search(queries: NDArray[Any], k: int, dim: int) -> None:
    """Raise UsageError unless ``queries`` is a finite (q, dim) float32 array and ``k`` at least 1."""
    if k < 1:
        raise UsageError(f"k is {k}.", hint="Ask for at least one hit.")
    check_embeddings(queries, dim, what="query")


def check_embeddings(embeddings: NDArray[Any], dim: int, *, what: str = "vector") -> None:
    """Raise UsageError unless ``embeddings`` is a finite (n, dim) float32 array; ``what`` is one row's name."""
    if embeddings.ndim != 2 or embeddings.shape[1] != dim:
        raise UsageError(
            f"Expected {what} rows of shape (n, {dim}), got {embeddings.shape}.",
            hint="Embed with the encoder this index was made with.",
        )
    if embeddings.dtype != np.float32:
        raise UsageError(f"A {what} is float32, not {embeddings.dtype}.", hint="Convert with .astype(np.float32).")
    if not np.isfinite(embeddings).all():
        row = int(np.flatnonzero(~np.isfinite(embeddings).all(axis=1))[0])
        raise UsageError(f"The {what} in row {row} holds NaN or infinity.", hint="Embed its text again, in float32.")


def check_ids(ids: NDArray[Any]) -> None:
    """Raise UsageError unless ``ids`` is one-dimensional, of integers, non-negative and without repeats."""
    if ids.ndim != 1 or not (ids.size == 0 or np.issubdtype(ids.dtype, np.integer)):
        raise UsageError(f"Ids are one row of integers, not {ids.dtype} of shape {ids.shape}.")
    if ids.size and ids.min() < 0:
        raise UsageError(f"The id {ids.min()} is negative.", hint="-1 marks a missing hit.")
    if np.unique(ids).size != ids.size:
        raise UsageError("An id occurs twice.", hint="Give every vector its own id.")
