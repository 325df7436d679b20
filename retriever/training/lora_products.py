"""Products with merged LoRA weights, W + s B A, and the gradients of the factors A and B.

These are taken from the layer's input x and the gradient of its output y, s B' y' x for A and s y' x A' for B (LoRA,
section 4.1, by the chain rule), through the rank and not through a gradient of W.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, cast

import torch
from peft.tuners.lora.layer import Linear
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


@dataclass(frozen=True, slots=True)
class MergedProduct:
    """The weights of one linear layer, or of several with one input, and what the factors' gradients are made of.

    Everything is in the model's number format; the factors must not change while it is used.

    Attributes:
        weight: the weights, merged with what LoRA adds, one below the other (out, in).
        widths: out, of every layer.
        trained: every A (r, in), then every B (out, r): the parameters that get the gradients.
        scalings: s, of every layer.
        down: every A, one below the other (R, in); None without LoRA.
        ups: every B times its s (out, r).
    """

    weight: Tensor
    widths: list[int]
    trained: list[nn.Parameter] = field(default_factory=list)
    scalings: list[float] = field(default_factory=list)
    down: Tensor | None = None
    ups: list[Tensor] = field(default_factory=list)

    @classmethod
    @torch.no_grad()
    def of_lora(cls, layers: Sequence[Any]) -> Self:
        """Return the product of vanilla LoRA layers over linear ones."""
        downs: list[nn.Parameter] = [layer.lora_A["default"].weight for layer in layers]  # A (r, in)
        ups: list[nn.Parameter] = [layer.lora_B["default"].weight for layer in layers]  # B (out, r)
        scalings = [float(layer.scaling["default"]) for layer in layers]
        parts = zip(layers, ups, downs, scalings, strict=True)
        merged = [
            torch.addmm(layer.base_layer.weight.float(), up, down, alpha=scale) for layer, up, down, scale in parts
        ]
        dtype = layers[0].base_layer.weight.dtype
        return cls(
            weight=torch.cat(merged).to(dtype),
            widths=[len(up) for up in ups],
            trained=[*downs, *ups],
            scalings=scalings,
            down=torch.cat([*downs]).to(dtype),
            ups=[(scale * up).to(dtype) for scale, up in zip(scalings, ups, strict=True)],
        )

    @classmethod
    @torch.no_grad()
    def frozen(cls, layers: Sequence[nn.Linear]) -> Self:
        """Return the product of layers that are not trained."""
        return cls(torch.cat([layer.weight for layer in layers]), [len(layer.weight) for layer in layers])

    def gradients(self, x: Tensor, y: Tensor) -> list[Tensor]:
        """Return the gradients of ``trained`` in float32, from inputs (T, in) and the outputs' gradients (T, out)."""
        if self.down is None:
            return []
        ranks = [up.shape[1] for up in self.ups]
        outs = torch.split(y, self.widths, dim=-1)
        inner = torch.split(x @ self.down.T, ranks, dim=-1)  # x A', each (T, r)
        outer = torch.cat([out @ up for out, up in zip(outs, self.ups, strict=True)], dim=-1)  # s y B, (T, R)
        downs = torch.split(outer.T @ x, ranks)  # each (r, in)
        ups = [scale * (out.T @ part) for scale, out, part in zip(self.scalings, outs, inner, strict=True)]  # (out, r)
        return [gradient.float() for gradient in (*downs, *ups)]


class MergedLayers:
    """Vanilla LoRA layers over linear ones that are given one input; they read with their merged weights."""

    def __init__(self, layers: Sequence[Linear]) -> None:
        self._layers: list[Any] = list(layers)
        self._forwards = [layer.forward for layer in layers]
        self._read_by: Tensor | None = None
        self._waiting: dict[int, Tensor] = {}
        self.product = MergedProduct.of_lora(layers)
        for place, layer in enumerate(self._layers):
            layer.forward = partial(self._read, place)

    def unmerge(self) -> None:
        """Read with the factors again."""
        for layer, forward in zip(self._layers, self._forwards, strict=True):
            layer.forward = forward
        self._read_by, self._waiting = None, {}

    @property
    def used(self) -> bool:
        """Whether a pass reads with the merged weights now: the adapter is not off, and no inputs are dropped."""
        return not any(layer.disable_adapters or layer.lora_dropout["default"].p for layer in self._layers)

    @property
    def biased(self) -> bool:
        """Whether a layer adds something to its product."""
        return any(layer.base_layer.bias is not None for layer in self._layers)

    def _read(self, place: int, x: Tensor) -> Tensor:
        """Return (..., out) of one layer; those of the others, which are asked next, are worked out with it."""
        if not self.used:
            read: Tensor = self._forwards[place](x)
            return read
        if x is not self._read_by or place not in self._waiting:
            multiply = cast("Callable[..., tuple[Tensor, ...]]", _Product.apply)
            outputs = multiply(x.to(self.product.weight.dtype), self.product, *self.product.trained)
            self._read_by, self._waiting = x, dict(enumerate(outputs))
        output = self._waiting.pop(place)
        if not self._waiting:
            self._read_by = None
        bias = self._layers[place].base_layer.bias
        return output if bias is None else output + bias


class _Product(torch.autograd.Function):
    """The product of inputs with merged weights, whose gradient goes to the factors."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, product: MergedProduct, *trained: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401
        """Return (..., out) of every layer."""
        ctx.save_for_backward(x)
        ctx.product = product
        return torch.split(nn.functional.linear(x, product.weight), product.widths, dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Return the gradients of x and of every A and B."""
        (x,) = ctx.saved_tensors
        product: MergedProduct = ctx.product
        with torch.autocast(x.device.type, enabled=False):
            y = gradients[0] if len(gradients) == 1 else torch.cat(gradients, dim=-1)  # (..., out)
            before = y @ product.weight if ctx.needs_input_grad[0] else None  # (..., in)
            return before, None, *product.gradients(x.flatten(0, -2), y.flatten(0, -2))
