"""What an objective is, and what it is made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from retriever.training.adapters import Adapted
from retriever.training.prompt_batches import PromptTokeniser, can_share


class Objective(Protocol):
    """What is learned; `Trainer` takes its two methods."""

    def batches(self, epoch: int) -> Sequence[Sequence[int]]:
        """Return the epoch's batches of row numbers, the same whenever they are asked for."""
        ...

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of a batch to the parameters; return its losses, ``loss`` the total."""
        ...


@dataclass(frozen=True, slots=True)
class Learner:
    """The model in training and how its prompts are made.

    Attributes:
        adapted: the model.
        tokeniser: makes prompts and answers.
        seed: of everything that is drawn.
    """

    adapted: Adapted
    tokeniser: PromptTokeniser
    seed: int

    @property
    def shares(self) -> bool:
        """Whether a text's questions can be read in one pass."""
        return self.tokeniser.template.text_first and can_share(self.adapted.backbone)
