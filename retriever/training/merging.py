"""LoRA trained through merged weights: one matrix product a layer where there were three.

W + s B A is worked out once a step and the model reads with it, as it will at inference. Its gradient G then gives
those of the two factors by the chain rule: s G A' for B and s B' G for A (LoRA, section 4.1). In bfloat16 the sum is
rounded as merging rounds it, so that what is trained is what will run.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from peft.tuners.lora.layer import Linear
from torch import Tensor, nn


class MergedLayer:
    """A vanilla LoRA layer over a linear one that reads with its merged weight."""

    def __init__(self, layer: Linear) -> None:
        self._layer: Any = layer
        self._forward = layer.forward
        self._weight: Tensor | None = None

    @torch.no_grad()
    def merge(self) -> None:
        """Work out the merged weight and read with it, unless the adapter is off or a pass drops inputs."""
        frozen = self._layer.base_layer.weight
        added = (self._up.float() @ self._down.float()) * self._scaling
        self._weight = (frozen.float() + added).to(frozen.dtype).requires_grad_()
        self._layer.forward = partial(self._read, self._weight)

    @torch.no_grad()
    def unmerge(self) -> None:
        """Read with the factors again, and add the merged weight's gradient to theirs."""
        self._layer.forward = self._forward
        weight, self._weight = self._weight, None
        if weight is None or weight.grad is None:
            return
        gradient = weight.grad.float() * self._scaling  # (out, in)
        _add(self._up, gradient @ self._down.T)
        _add(self._down, self._up.T @ gradient)

    def _read(self, weight: Tensor, x: Tensor) -> Tensor:
        if self._layer.disable_adapters or self._layer.lora_dropout["default"].p:
            read: Tensor = self._forward(x)
            return read
        return nn.functional.linear(x, weight, self._layer.base_layer.bias)

    @property
    def _up(self) -> nn.Parameter:
        """B (out, r)."""
        weight: nn.Parameter = self._layer.lora_B["default"].weight
        return weight

    @property
    def _down(self) -> nn.Parameter:
        """A (r, in)."""
        weight: nn.Parameter = self._layer.lora_A["default"].weight
        return weight

    @property
    def _scaling(self) -> float:
        return float(self._layer.scaling["default"])


@contextmanager
def merged(model: nn.Module) -> Iterator[None]:
    """Within the block LoRA layers over linear ones read with merged weights; at its end their factors get gradients.

    The factors must not change within the block. Layers of other kinds are left alone.
    """
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, Linear) and isinstance(module.base_layer, nn.Linear):
                layer = MergedLayer(module)
                stack.callback(layer.unmerge)
                layer.merge()
        yield


def _add(parameter: nn.Parameter, gradient: Tensor) -> None:
    gradient = gradient.to(parameter.dtype)
    parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
