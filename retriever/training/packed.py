"""Sequences of different lengths one behind the other, without padding between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Block:
    """Some sequences of one length that lie side by side.

    Attributes:
        first: the place of their first token among all.
        count: how many sequences.
        length: T, of each.
        hidden: (count or 1, 1, T, T) what is added to the attention's scores: 0 where a token (row) sees another
            (column).
    """

    first: int
    count: int
    length: int
    hidden: Tensor

    @property
    def places(self) -> slice:
        """The places of all tokens of the block."""
        return slice(self.first, self.first + self.count * self.length)


def causal_blocks(lengths: Sequence[int], dtype: torch.dtype, device: torch.device) -> list[Block]:
    """Return sequences of some lengths, one behind the other, those of like length that are neighbours as one block."""
    blocks: list[Block] = []
    first = 0
    for length in lengths:
        if blocks and blocks[-1].length == length:
            before = blocks.pop()
            blocks.append(Block(before.first, before.count + 1, length, before.hidden))
        else:
            columns = torch.arange(length, device=device)
            blocks.append(Block(first, 1, length, added(columns[:, None] < columns, dtype).view(1, 1, length, length)))
        first += length
    return blocks


def added(hidden: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what hides places from attention where it is added to scores: the lowest number, and 0 elsewhere."""
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill(hidden, torch.finfo(dtype).min)
