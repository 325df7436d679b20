"""Values between the shared machinery and an encoder's own `read`: a batch that was read, and its output."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from retriever.core.errors import EncoderError
from retriever.encoders.prefix import PromptStates
from retriever.encoders.run import PromptRun


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """One batch under one instruction, read up to the last prompt token and whatever stands behind every prompt.

    Attributes:
        read: hidden states of prompt (B, N, d) and tail (B, L, d), and which columns are content.
        texts: the batch's texts.
        instruction: the instruction they were read under.
    """

    read: PromptStates
    texts: Sequence[str]
    instruction: str

    @property
    def states(self) -> Tensor:
        """Hidden states (B, N, d) of the prompt."""
        return self.read.states

    @property
    def tail(self) -> Tensor:
        """Hidden states (B, L, d) of what stands behind the prompt."""
        return self.read.tail

    @property
    def mask(self) -> Tensor:
        """(B, N), true where the prompt holds a token that is neither padding nor special."""
        return self.read.content

    @property
    def last(self) -> Tensor:
        """h_N, the hidden state of the last prompt token, (B, d)."""
        return self.states[:, -1]

    @property
    def run(self) -> PromptRun:
        """The run to read on from.

        Raises:
            EncoderError: the model is not causal.
        """
        if self.read.run is None:
            raise EncoderError("A masked language model cannot read on behind its prompt.")
        return self.read.run


@dataclass(frozen=True, slots=True)
class BatchOutput:
    """The output of an encoder for a batch.

    Attributes:
        vectors: (B, dim), not normalised.
        answers: (B, V) probabilities over the vocabulary of what the model would say, or None when not asked for.
    """

    vectors: Tensor
    answers: Tensor | None = None
