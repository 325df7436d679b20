"""Brute-force search in NumPy: the oracle that other indexes are held to, the search of small sets, and a backend."""

import numpy as np

from retriever.core.errors import UsageError
from retriever.core.similarity import top_k
from retriever.core.types import Embeddings, Ids, Neighbours
from retriever.vectors.arrays import read_arrays, write_arrays
from retriever.vectors.backend import BuildOptions, BuiltIndex, Handle, ListedIndex, ViewVectors, refuse_location
from retriever.vectors.checks import check_embeddings, check_ids, check_search
from retriever.vectors.files import FileBackend, new_path


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

    def require(self, dim: int, options: BuildOptions) -> None:
        """Raise UsageError where a server's address is given; nothing else can be wrong."""
        refuse_location(options)

    def build(self, view: int, vectors: ViewVectors, options: BuildOptions) -> BuiltIndex:
        """Write the vectors of a view; see `VectorBackend.build`."""
        handle = write_arrays(vectors, self.folder, new_path(self.folder, view, self.suffix))
        return BuiltIndex(handle, details={"bytes_per_vector": 4 * vectors.dim + 8})

    def open(self, handle: Handle) -> ListedIndex:
        """Read the vectors of a view; see `VectorBackend.open`."""
        return self.read(handle)

    def hold(self, ids: Ids, embeddings: Embeddings) -> ListedIndex:
        """Return an exact index of a few vectors; see `VectorBackend.hold`."""
        return ExactIndex(ids, embeddings)

    def read(self, handle: Handle) -> ListedIndex:
        """Read the vectors in the file of a handle; see `FileBackend.read`."""
        found = read_arrays(self.folder, handle)
        return ExactIndex(found.ids, found.embeddings)
