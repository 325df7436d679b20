"""The seams of the package: what an encoder and a vector index promise to everything above them."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from retriever.core.types import Embeddings, Encoded, Ids, Neighbours


@runtime_checkable
class Encoder(Protocol):
    """Turns texts into vectors under an instruction; vectors of two fingerprints are never compared."""

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hex digest over weights, adapter, tokenizer, template and default instruction."""
        ...

    def encode(
        self,
        texts: Sequence[str],
        *,
        instruction: str = "",
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> Embeddings:
        """Return (n, dim) float32 rows of length 1, in the order of ``texts``.

        An empty instruction means the encoder's default one.
        """
        ...

    def encode_many(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> list[Embeddings]:
        """Return one (n, dim) array per instruction from one pass over the texts."""
        ...

    def encode_with_words(self, texts: Sequence[str], *, instruction: str = "", top: int = 5) -> Encoded:
        """Return the embeddings and the model's answers in words, from the same pass."""
        ...


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
