"""Corpora whose scores a person can compute, and realistic ones, for the tests of the indexes."""

import numpy as np

from retriever.core.similarity import normalise


def signs(rng: np.random.Generator, count: int) -> np.ndarray:
    """Rows of four halves with random signs: every product is exact in any precision, and ties abound."""
    return rng.choice(np.array([-0.5, 0.5], dtype=np.float32), size=(count, 4))


def clustered(count: int, dim: int = 32, clusters: int = 25, seed: int = 0) -> np.ndarray:
    """Normalised rows around random centres, already rounded to half precision."""
    rng = np.random.default_rng(seed)
    centres = normalise(rng.standard_normal((clusters, dim)))
    rows = centres[rng.integers(0, clusters, count)] + 0.6 * normalise(rng.standard_normal((count, dim)))
    return normalise(rows).astype(np.float16).astype(np.float32)


def ids_for(rng: np.random.Generator, count: int, *, step: int = 1000, first: int = 0) -> np.ndarray:
    """Ascending ids with gaps of up to `step`."""
    return first + np.cumsum(rng.integers(1, step + 1, size=count)).astype(np.int64)
