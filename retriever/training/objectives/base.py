"""Define an objective, its settings, and the parts that it is made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from retriever.training.adapters import Adapted
from retriever.training.prompt_batches import PromptTokeniser


class Objective(Protocol):
    """A training objective; `Trainer` takes its two methods."""

    def batches(self, epoch: int) -> Sequence[Sequence[int]]:
        """Return the epoch's batches of row numbers, the same whenever they are asked for."""
        ...

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of a batch to the parameters; return its losses, ``loss`` the total."""
        ...


class ObjectiveSettings:
    """A method's own settings, a frozen dataclass: what they say to the parts of a fine-tuning that know no method."""

    __slots__ = ()

    @property
    def negatives(self) -> int:
        """Most hard negatives of a row."""
        return 0

    @property
    def taught_by(self) -> str:
        """The encoder that teaches the objective beside the rows; empty for none."""
        return ""

    @property
    def steps(self) -> int | None:
        """K, the soft tokens that the model reads on with; None for none."""
        return None


@dataclass(frozen=True, slots=True)
class Learner:
    """The model in training and how its prompts are made; the seed is that of everything that is drawn."""

    adapted: Adapted
    tokeniser: PromptTokeniser
    seed: int

    @property
    def shares(self) -> bool:
        """Whether a text's questions can be read in one pass."""
        return self.tokeniser.template.text_first and self.adapted.backbone.attends_to_all
