"""Brute-force search in NumPy: a backend, the search of small sets, and the measure of approximate indexes."""

from collections.abc import Callable, Iterable

import numpy as np

from retriever.core.errors import UsageError
from retriever.core.similarity import normalise, top_k
from retriever.core.types import Embeddings, Ids, Neighbours
from retriever.vectors.backend import (
    BuildOptions,
    BuiltIndex,
    Handle,
    ListedIndex,
    ViewVectors,
    check_embeddings,
    check_ids,
    check_search,
)
from retriever.vectors.files import FileBackend, new_path, read_arrays, write_arrays


class ExactIndex:
    """Compares a query with every vector; implements `retriever.core.protocols.VectorIndex`.

    The ids (n,) are distinct, in any order. Scores are summed in float64 and rounded once to float32, so equal vectors
    tie wherever they stand.

    Raises:
        UsageError: the arrays do not fit each other, an id occurs twice, or a vector is not finite.
    """

    def __init__(self, ids: Ids, embeddings: Embeddings) -> None:
        check_ids(ids)
        check_embeddings(embeddings, embeddings.shape[-1])
        if len(ids) != len(embeddings):
            raise UsageError(f"{len(ids)} ids were given for {len(embeddings)} vectors.")
        self.ids = ids.astype(np.int64)
        self.dim = int(embeddings.shape[1])
        self.size = len(ids)
        self._embeddings = embeddings.astype(np.float64)

    def search(self, queries: Embeddings, k: int, *, allowed: Ids | None = None) -> Neighbours:
        """Return the k nearest ids of each query; see `retriever.core.protocols.VectorIndex.search`.

        Raises:
            UsageError: the queries are not finite (q, dim) float32, or k is below 1.
        """
        check_search(queries, k, self.dim)
        keep = slice(None) if allowed is None else np.isin(self.ids, allowed)
        scores = queries.astype(np.float64) @ self._embeddings[keep].T  # (q, n)
        return top_k(scores.astype(np.float32), self.ids[keep], k)


class ExactBackend(FileBackend):
    """Keeps the vectors of a view in single precision and compares with all of them; implements `VectorBackend`.

    The device is not used: NumPy computes on the CPU.
    """

    suffix = ".npy"

    def build(self, view: int, vectors: ViewVectors, options: BuildOptions) -> BuiltIndex:
        """Write the vectors of a view; see `VectorBackend.build`."""
        handle = write_arrays(vectors, self.folder, new_path(self.folder, view, self.suffix))
        return BuiltIndex(handle, details={"bytes_per_vector": 4 * vectors.dim + 8})

    def hold(self, ids: Ids, embeddings: Embeddings) -> ListedIndex:
        """Return an exact index of a few vectors; see `VectorBackend.hold`."""
        return ExactIndex(ids, embeddings)

    def read(self, handle: Handle) -> ListedIndex:
        """Read the vectors in the file of a handle; see `FileBackend.read`."""
        stored = read_arrays(self.folder, handle)
        return ExactIndex(stored.ids, stored.embeddings)


NEAREST = 10
SAMPLE = 512
_NOISE = 0.75  # length of what is added to a vector to make a query: a cosine of 0.8 to where it came from


def sample_rows(size: int, *, most: int = SAMPLE, seed: int = 0) -> Ids:
    """Return the rows (q,), ascending, of vectors to make queries of."""
    return np.sort(np.random.default_rng(seed).choice(size, min(most, size), replace=False))


def queries_near(vectors: Embeddings, *, seed: int = 0) -> Embeddings:
    """Return (q, dim) queries near vectors (q, dim): these, moved by noise to a cosine of about 0.8."""
    noise = normalise(np.random.default_rng(seed).standard_normal(vectors.shape, dtype=np.float32))
    return normalise(vectors + np.float32(_NOISE) * noise)


def picked(batches: Iterable[Embeddings], rows: Ids, dim: int) -> Embeddings:
    """Return some rows (q,), ascending, of vectors that come in batches, as (q, dim)."""
    at, parts = 0, [np.empty((0, dim), np.float32)]
    for batch in batches:
        parts.append(batch[rows[(rows >= at) & (rows < at + len(batch))] - at])
        at += len(batch)
    return np.concatenate(parts)


def exact_nearest(vectors: ViewVectors, queries: Embeddings, k: int = NEAREST) -> Ids:
    """Return the ids (q, k) of the exact nearest of each query, with one batch in memory at a time.

    Scores are in float32; of equal ones any may stand last.
    """
    ids, scores = np.full((len(queries), k), -1), np.full((len(queries), k), -np.inf, np.float32)
    at = 0
    for batch in vectors.batches:
        scores = np.concatenate([scores, queries @ batch.T], axis=1)
        there = np.broadcast_to(vectors.ids[at : at + len(batch)], (len(queries), len(batch)))
        ids, at = np.concatenate([ids, there], axis=1), at + len(batch)
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        ids, scores = np.take_along_axis(ids, best, axis=1), np.take_along_axis(scores, best, axis=1)
    return ids


def overlap(found: Ids, truth: Ids) -> float:
    """Return the share of the true ids (q, k) that were found (q, any); -1 stands for none."""
    hits = (truth[:, :, None] == found[:, None, :]).any(axis=2) & (truth >= 0)  # (q, k)
    return float(hits.sum() / max((truth >= 0).sum(), 1))


def least_effort(recall: Callable[[int], float], first: int, most: int, enough: float) -> tuple[int, float]:
    """Double an effort until a recall is reached; return the effort and the recall of where that ended."""
    effort = first
    while (reached := recall(effort)) < enough and effort < most:
        effort = min(2 * effort, most)
    return effort, reached
