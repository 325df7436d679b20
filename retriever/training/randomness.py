"""The state of torch's random numbers, taken and put back: dropout repeats itself exactly."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RandomState:
    """The states of torch's generators, uint8: the processor's, and the GPU's where there is one."""

    cpu: Tensor
    cuda: Tensor | None = None

    @classmethod
    def now(cls) -> "RandomState":
        """Return the present state of the processor's generator and of the current GPU's, where there is one."""
        return cls(torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_available() else None)

    def restore(self) -> None:
        """Put the generators back to this state."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(self.cuda)
