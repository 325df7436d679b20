"""Products and attention on a CPU, so computed that no row depends on what is read with it; weights laid out once.

Libraries take other kernels for very few rows, which add up in another order. From `LEAST_ROWS` on all rows are
computed alike (oneDNN in bfloat16, MKL in float32), so fewer are filled up with zeros. Attention over cached keys and
values takes every row without its padding. Grouped queries (Ainslie et al. 2023): heads of keys and values serve
several heads of queries each.

oneDNN multiplies fastest when the weights stand in blocks of its own; PyTorch re-orders plain bfloat16 weights call by
call, and leaves float32 to MKL, which is slower (on AMD less than half as fast, with AVX-512). The operators used here
are the ones PyTorch's own compiler emits for frozen models. Where they or the hardware are missing, layers stay as they
are, and the values are the same to rounding either way.

Why our own: a text has one vector, bit by bit, in whatever batch it is read, which transformers does not promise.
Queries one after the other take 1.33 times as long with plain linear layers (docs/decisions/own-kernels.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

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

    def gelu(self, inputs: Tensor) -> Tensor:
        """Return GELU of that, computed while the product is in the cache."""
        return in_rows(inputs, partial(self._product, activation="gelu", algorithm="none"))

    def _product(self, inputs: Tensor, activation: str = "none", algorithm: str = "") -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, self.packed, self.bias, activation, [], algorithm)
        return product


def pack_linear_layers(model: nn.Module, *, single: bool = False) -> None:
    """Replace the model's linear layers in bfloat16 where that is of use, and with ``single`` those in float32.

    A language model in float32 keeps its layers, whose weights an export reads back.
    """
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if (
                isinstance(child, nn.Linear)
                and type(child) in (nn.Linear, RowLinear)
                and _packable(child.weight, single)
            ):
                setattr(parent, name, PackedLinear(child))


def _packable(weight: Tensor, single: bool) -> bool:
    if weight.device.type != "cpu" or not can_pack():
        return False
    return (single and weight.dtype == torch.float32) or (weight.dtype == torch.bfloat16 and multiplies_bfloat16())


def can_pack() -> bool:
    """Tell whether PyTorch's operators are there."""
    return all(hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight"))


def multiplies_bfloat16() -> bool:
    """Tell whether the CPU has what oneDNN's bfloat16 kernels need (AVX-512)."""
    return can_pack() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


HEADROOM = 64  # positions kept free behind a prompt: an instruction, or look-ahead, soft or generated tokens
QUERY_BLOCK = 64  # queries that attend at a time on a CPU, whose caches hold the scores of so many


class KeyValues:
    """Keys and values of all layers of one batch, at the front of memory that is taken from the system in one piece.

    What is forgotten is overwritten by what is read next, so reading one more token copies nothing that came before.
    ``positions`` is how many the first block will have, all its parts together.
    """

    def __init__(self, positions: int, *, layers: int, groups: int, width: int) -> None:
        self.length = 0
        self._layers, self._groups, self._width = layers, groups, width
        self._room = positions + HEADROOM
        self._memory: Tensor | None = None  # (layers, 2, B, groups, room, width)

    def reserve(self, like: Tensor, more: int) -> None:
        """Make room for more positions of a batch like (B, S, d)."""
        needed, memory = self.length + more, self._memory
        if memory is not None and memory.shape[4] >= needed:
            return
        self._room = max(self._room, needed + HEADROOM if memory is not None else needed)
        self._memory = like.new_empty((self._layers, 2, like.shape[0], self._groups, self._room, self._width))
        if memory is not None:
            self._memory[..., : self.length, :] = memory[..., : self.length, :]

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put a layer's new keys and values (B, groups, S, width) behind its others; return all (B, groups, T, width).

        `length` is moved once all layers have theirs.
        """
        if self._memory is None:
            raise RuntimeError("no room was reserved")
        last = self.length + keys.shape[2]
        kept, read = self._memory[layer, 0], self._memory[layer, 1]
        kept[:, :, self.length : last] = keys
        read[:, :, self.length : last] = values
        return kept[:, :, :last], read[:, :, :last]

    def crop(self, tokens: int, /) -> None:
        """Forget the last positions, as many as the negative number says."""
        self.length += tokens


Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Of queries (B, S, heads, width) and keys and values (B, groups, T, width): what was taken, (B, S, heads * width)."""


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring rows of a batch, from ``first`` to before ``last``, with the same number of padded positions."""

    first: int
    last: int
    padding: int


def attention(mask: Tensor | None, read: int, new: int, like: Tensor) -> Attention:
    """Return the attention of all layers to one block of a batch.

    The mask (B, T) has ones for real tokens, T being the positions ``read`` into the cache and the S ``new`` ones
    behind them; ``like`` is a tensor of the batch.
    """
    if like.device.type == "cpu":
        return partial(_attended_by_row, runs=_runs(mask, len(like)))
    return partial(_attended, hidden=_hidden(mask, read, new, like.device))


def _runs(mask: Tensor | None, rows: int) -> list[Run]:
    """Return the rows of a batch by their padding, which stands in front; ``mask`` (B, T) is true for real tokens."""
    if mask is None:
        return [Run(0, rows, 0)]
    runs, first = [], 0
    for padding, group in groupby(mask.int().argmax(dim=1).tolist()):
        last = first + len(list(group))
        runs.append(Run(first, last, padding))
        first = last
    return runs


def _hidden(mask: Tensor | None, read: int, new: int, device: torch.device) -> Tensor | None:
    """Return (B or 1, S, T) float32: 0 where a new position sees an earlier one, else so low that its weight is 0."""
    if new == 1 and mask is None:
        return None
    columns = torch.arange(read + new, device=device)
    later = (columns > columns[read:, None]).unsqueeze(0)  # (1, S, T)
    if mask is not None:
        later = later | ~mask.bool().unsqueeze(1)  # (B, S, T); padding sees all alike, and nobody looks at it
    lowest = torch.finfo(torch.float32).min
    return torch.zeros(later.shape, device=device).masked_fill_(later, lowest)


def _attended(queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None) -> Tensor:
    """Return what queries (B, S, heads, width) find (B, S, heads * width) in (B, groups, T, width)."""
    share = queries.shape[2] // keys.shape[1]
    keys, values = (each.repeat_interleave(share, dim=1) for each in (keys, values))
    added = None if hidden is None else hidden.clamp(min=torch.finfo(queries.dtype).min).to(queries.dtype).unsqueeze(1)
    mixed = nn.functional.scaled_dot_product_attention(queries.transpose(1, 2), keys, values, attn_mask=added)
    return mixed.transpose(1, 2).flatten(2)


def _attended_by_row(queries: Tensor, keys: Tensor, values: Tensor, runs: Sequence[Run]) -> Tensor:
    """Return what `_attended` does, so computed that no query depends on its batch or on what is read with it.

    Every row is taken without its padding, and blocks of queries begin at fixed places of it: a query sees as many
    keys, those behind it at weight 0, whatever else is read. On a CPU this takes a little more than half as long as
    the fused kernel. Scores are float32 as in that kernel.
    """
    rows, new, heads, width = queries.shape
    groups, seen = keys.shape[1], keys.shape[2]
    split = (queries.float() * width**-0.5).unflatten(2, (groups, -1)).permute(0, 2, 3, 1, 4)  # (B, g, s, S, width)
    attended = queries.new_zeros(rows, new, groups, heads // groups, width)
    for run in runs:
        batch, filled = slice(run.first, run.last), -(seen - run.padding) % QUERY_BLOCK
        turned = keys[batch, :, run.padding :].float().transpose(2, 3)  # (b, g, width, t)
        turned = nn.functional.pad(turned, (0, filled)).flatten(0, 1)  # (b g, width, T), T a multiple of the block
        held = nn.functional.pad(values[batch, :, run.padding :], (0, 0, 0, filled)).flatten(0, 1)  # (b g, T, width)
        first = max(0, run.padding - (seen - new))
        while first < new:
            before = (seen - new + first - run.padding) % QUERY_BLOCK  # queries of the block that were read before
            last = min(first + QUERY_BLOCK - before, new)
            end = seen - new + first - run.padding - before + QUERY_BLOCK
            block = split[batch, :, :, first:last].reshape(len(held), -1, width)
            scores = row_product(block, turned[:, :, :end]).view(len(held), -1, last - first, end)
            scores[..., -QUERY_BLOCK:] += _later(before, last - first, scores.device)
            weights = scores.softmax(dim=-1).to(held.dtype).view(len(held), -1, end)
            mixed = row_product(weights, held[:, :end]).view(run.last - run.first, groups, -1, last - first, width)
            attended[batch, first:last] = mixed.permute(0, 3, 1, 2, 4)
            first = last
    return attended.flatten(2)


def _later(before: int, new: int, device: torch.device) -> Tensor:
    """Return (S, `QUERY_BLOCK`) what is added to the scores of some queries of a block: so little for later keys."""
    later = torch.full((new, QUERY_BLOCK), torch.finfo(torch.float32).min, device=device)
    return later.triu_(before + 1)
