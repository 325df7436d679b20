"""Linear layers laid out once for the CPU's bfloat16 matrix kernels, instead of at every call.

oneDNN multiplies fastest when the weights stand in blocks of its own; PyTorch re-orders plain weights call by call.
The operators used here are the ones PyTorch's own compiler emits for frozen models. Where they or the hardware are
missing, layers stay as they are, and the values are the same to rounding either way.
"""

import torch
from torch import Tensor, nn

_TYPICAL_ROWS = 1024


class PackedLinear(nn.Module):
    """A linear layer for inference on a CPU; its weights cannot be trained or read back.

    Args:
        linear: the layer to take the place of.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _TYPICAL_ROWS)
        self.bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, inputs: Tensor) -> Tensor:
        """Return inputs (..., in) times the weights: (..., out)."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, self.packed, self.bias, "none", [], "")
        return product


def pack_linear_layers(model: nn.Module) -> int:
    """Replace the model's linear layers where that is of use; return how many were replaced."""
    packed = 0
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and _packable(child):
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
