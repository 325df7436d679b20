"""The seams of the package: what an encoder and a vector index promise to everything above them."""

from typing import Protocol

from retriever.core.encoder import Encoder
from retriever.core.types import Embeddings, Ids, Neighbours

__all__ = ["Encoder", "VectorIndex"]


class VectorIndex(Protocol):
    """Finds the nearest vectors by cosine."""

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    @property
    def size(self) -> int:
        """Number of vectors."""
        ...

    def search(self, queries: Embeddings, k: int, *, allowed: Ids | None = None) -> Neighbours:
        """Return the k nearest ids of each query: higher scores first, equal scores by ascending id.

        Args:
            queries: (q, dim) normalised rows.
            k: hits per query; a larger k than there are vectors is padded with id -1.
            allowed: sorted ids the search may return; None allows all.
        """
        ...
