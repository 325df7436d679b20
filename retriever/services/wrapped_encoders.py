"""Encoders around another encoder: everything is passed on but what a wrapper does its own way."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from retriever.core.fingerprint import content_hash
from retriever.core.protocols import Encoder
from retriever.core.types import Embeddings, Encoded
from retriever.services.encoding import count_tokens


class WrappedEncoder:
    """An encoder that passes everything on; implements the `Encoder` contract.

    Args:
        encoder: what is asked in the end.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the encoder offers
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._encoder, name)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._encoder.dim

    @property
    def fingerprint(self) -> str:
        """The wrapped encoder's."""
        return self._encoder.fingerprint

    def encode(
        self,
        texts: Sequence[str],
        *,
        instruction: str = "",
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> Embeddings:
        """Return (n, dim) float32 rows of length 1, in the order of ``texts``."""
        return self._encoder.encode(texts, instruction=instruction, batch_size=batch_size, show_progress=show_progress)

    def encode_many(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> list[Embeddings]:
        """Return one (n, dim) array per instruction."""
        return self._encoder.encode_many(texts, instructions, batch_size=batch_size, show_progress=show_progress)

    def encode_with_words(self, texts: Sequence[str], *, instruction: str = "", top: int = 5) -> Encoded:
        """Return the embeddings and the model's answers in words."""
        return self._encoder.encode_with_words(texts, instruction=instruction, top=top)


class WordlessEncoder(WrappedEncoder, ABC):
    """A wrapper that writes one method, `encode_many`, and gives no words: ask the wrapped encoder for them."""

    @abstractmethod
    def encode_many(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> list[Embeddings]:
        """Return one (n, dim) array per instruction."""

    def encode(
        self,
        texts: Sequence[str],
        *,
        instruction: str = "",
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> Embeddings:
        """Return (n, dim) float32 rows of length 1, in the order of ``texts``."""
        return self.encode_many(texts, [instruction], batch_size=batch_size, show_progress=show_progress)[0]

    def encode_with_words(self, texts: Sequence[str], *, instruction: str = "", top: int = 5) -> Encoded:
        """Return the embeddings, and no words."""
        return self.encode_many_with_words(texts, [instruction], top=top)[0]

    def encode_many_with_words(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        top: int = 5,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Return the embeddings under every instruction, and no words."""
        encoded = [Encoded(rows, [[] for _ in texts]) for rows in self.encode_many(texts, instructions)]
        if on_tokens is not None:
            on_tokens(sum(count_tokens(self._encoder, texts)))
        return encoded


class WithoutInstruction(WordlessEncoder):
    """An encoder that never sees an instruction; its texts are embedded once whatever is asked."""

    @property
    def fingerprint(self) -> str:
        """Another than the wrapped encoder's: under an instruction the vectors differ."""
        return content_hash(f"{self._encoder.fingerprint} without instruction").hex()

    @property
    def spec(self) -> str:
        """The wrapped encoder's name, and what is done with it."""
        return f"{getattr(self._encoder, 'spec', '')} without instruction"

    def encode_many(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> list[Embeddings]:
        """Return the same (n, dim) rows for every instruction."""
        rows = self._encoder.encode(texts, batch_size=batch_size, show_progress=show_progress)
        return [rows for _ in instructions]
