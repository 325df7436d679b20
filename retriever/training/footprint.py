"""The memory that a model in training takes, from its shapes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

_TRAINED = 16  # bytes of a trained number: itself, its gradient and AdamW's two means
_COPIES = 2  # of the weights: merged for a step, or those of the encoder that is measured; and laid out for its reading


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory that a model in training takes, in bytes.

    Attributes:
        fixed: beside the loaded model, whatever it reads.
        token: kept of a token for the way back.
        pair: kept of a token, beside that, for every token that it is read with.
    """

    fixed: int
    token: int
    pair: int

    @classmethod
    def of(cls, linear: Iterable[Sequence[int]], *, weights: int, trained: int, heads: int, size: int) -> Self:
        """Work it out from the shapes (out, in) of all linear layers.

        ``weights`` are bytes of the model, ``trained`` counts the trained numbers, ``heads`` those of all layers,
        ``size`` is the bytes of a number. Of every token a linear layer's input and output are kept, and of every head
        what the token takes of each other.
        """
        return cls(_COPIES * weights + _TRAINED * trained, size * sum(map(sum, linear)), size * heads)

    def kept(self, lengths: Iterable[int]) -> int:
        """Return the bytes that are kept of sequences of so many tokens each."""
        return sum(length * (self.token + length * self.pair) for length in lengths)
