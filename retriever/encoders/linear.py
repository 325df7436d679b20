"""Products of matrices on a CPU: rows that do not depend on how many there are, and weights laid out once.

Libraries take other kernels for very few rows, which add up in another order. From `LEAST_ROWS` on all rows are
computed alike (oneDNN in bfloat16, MKL in float32), so fewer are filled up with zeros.

oneDNN multiplies bfloat16 fastest when the weights stand in blocks of its own; PyTorch re-orders plain weights call by
call. The operators used here are the ones PyTorch's own compiler emits for frozen models. Where they or the hardware
are missing, layers stay as they are, and the values are the same to rounding either way.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

LEAST_ROWS = 8


class RowLinear(nn.Linear):
    """A linear layer without bias whose rows do not depend on one another.

    The weight is (out, in).
    """

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__(weight.shape[1], weight.shape[0], bias=False, device="meta")
        self.weight = weight

    def forward(self, inputs: Tensor) -> Tensor:
        """Return inputs (..., in) times the weights: (..., out)."""
        return row_linear(inputs, self.weight)


def row_linear(inputs: Tensor, weight: Tensor) -> Tensor:
    """Return inputs (..., in) times weights (out, in): (..., out)."""
    return in_rows(inputs, lambda rows: nn.functional.linear(rows, weight))


def in_rows(inputs: Tensor, product: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a product (..., out) of inputs (..., in) with a matrix, computed with `LEAST_ROWS` rows at least."""
    rows = inputs.numel() // inputs.shape[-1]
    if rows >= LEAST_ROWS or inputs.device.type != "cpu":
        return product(inputs)
    return product(_filled(inputs.reshape(rows, -1)))[:rows].view(*inputs.shape[:-1], -1)


def row_product(rows: Tensor, matrices: Tensor) -> Tensor:
    """Return rows (n, m, in) times matrices (n, in, out): (n, m, out)."""
    if rows.shape[1] >= LEAST_ROWS or rows.device.type != "cpu":
        return torch.bmm(rows, matrices)
    return torch.bmm(_filled(rows), matrices)[:, : rows.shape[1]]


def _filled(rows: Tensor) -> Tensor:
    return nn.functional.pad(rows, (0, 0, 0, LEAST_ROWS - rows.shape[-2]))


_TYPICAL_ROWS = 1024


class PackedLinear(nn.Module):
    """A linear layer for inference on a CPU; its weights cannot be trained or read back."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _TYPICAL_ROWS)
        self.bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, inputs: Tensor) -> Tensor:
        """Return inputs (..., in) times the weights: (..., out)."""
        return in_rows(inputs, self._product)

    def _product(self, inputs: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, self.packed, self.bias, "none", [], "")
        return product


def pack_linear_layers(model: nn.Module) -> int:
    """Replace the model's linear layers where that is of use; return how many were replaced."""
    packed = 0
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and type(child) in (nn.Linear, RowLinear) and _packable(child):
                setattr(parent, name, PackedLinear(child))
                packed += 1
    return packed


def _packable(linear: nn.Linear) -> bool:
    weight = linear.weight
    return weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and can_pack()


def can_pack() -> bool:
    """Tell whether PyTorch's operators are there and the CPU has what oneDNN's bfloat16 kernels need (AVX-512)."""
    operators = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
    return all(hasattr(torch.ops.mkldnn, name) for name in operators) and bool(
        torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
