"""Trained parameters by name: copied, and put in the place of others for a while."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from retriever.core.errors import UsageError


class Trained(ABC):
    """A model in training, known by its trained parameters."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, nn.Parameter]:
        """The trained parameters by name, all float32, in an order that does not change."""

    @property
    def values(self) -> dict[str, Tensor]:
        """A copy of the trained parameters' values by name, which `holding` puts back."""
        return {name: parameter.detach().clone() for name, parameter in self.parameters.items()}

    @contextmanager
    def holding(self, values: Mapping[str, Tensor]) -> Iterator[None]:
        """Within the block those of the trained parameters that ``values`` names have other values."""
        parameters = {name: parameter for name, parameter in self.parameters.items() if name in values}
        own = {name: parameter.data for name, parameter in parameters.items()}
        try:
            for name, parameter in parameters.items():
                parameter.data = values[name]
            yield
        finally:
            for name, parameter in parameters.items():
                parameter.data = own[name]


def require_gradients(dtype: torch.dtype) -> None:
    """Refuse a number format that nothing can be trained in.

    Raises:
        UsageError: it is float16.
    """
    if dtype == torch.float16:
        raise UsageError("float16 gradients vanish.", hint="Train in bfloat16 or float32 (--dtype).")
