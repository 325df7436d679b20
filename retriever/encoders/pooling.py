"""Poolings over hidden states: functions of tensors, in float32."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Shares:
    """A pooling as a weighted mean of states that one pass gives; weights need not sum to 1.

    Attributes:
        last: weight of the last prompt state.
        behind: weights of the states behind the prompt, in order; those left out weigh nothing.
        others: weight of every other state of the prompt, special tokens apart.
    """

    last: float
    behind: Sequence[float] = ()
    others: float = 0.0


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean (B, d) of states (B, N, d) where mask (B, N) is true; a row of none is zero."""
    weights = mask.unsqueeze(-1).float()  # (B, N, 1)
    total = (states.float() * weights).sum(dim=1)  # (B, d)
    return total / weights.sum(dim=1).clamp(min=1)


def daap(last: Tensor, tail: Tensor) -> Tensor:
    """Dual-anchor alignment pooling (InstEmb, eq. 10): half the last input state, half the mean look-ahead state."""
    return (last.float() + special_mean(last, tail)) / 2


def input_last(last: Tensor, tail: Tensor) -> Tensor:
    """The last input token's state (InstEmb, eq. 8)."""
    return last.float()


def special_first(last: Tensor, tail: Tensor) -> Tensor:
    """The first look-ahead token's state (InstEmb, eq. 6)."""
    return tail[:, 0].float()


def special_mean(last: Tensor, tail: Tensor) -> Tensor:
    """The mean look-ahead state (InstEmb, eq. 7)."""
    return tail.float().mean(dim=1)


def all_mean(last: Tensor, tail: Tensor) -> Tensor:
    """The mean over the last input state and the L look-ahead states (InstEmb, eq. 9)."""
    return (last.float() + tail.float().sum(dim=1)) / (tail.shape[1] + 1)


def input_last_special_first(last: Tensor, tail: Tensor) -> Tensor:
    """The mean of the last input state and the first look-ahead state."""
    return (last.float() + tail[:, 0].float()) / 2


LOOK_AHEAD_POOLINGS = {
    "daap": daap,
    "input-last": input_last,
    "special-first": special_first,
    "special-mean": special_mean,
    "all-mean": all_mean,
    "input-last+special-first": input_last_special_first,
}


def look_ahead_shares(pooling: str, length: int) -> Shares:
    """Return a pooling of `LOOK_AHEAD_POOLINGS` over L look-ahead states as weights."""
    one_hot = torch.eye(1 + length)  # a pooling is linear: fed with unit vectors, it gives its weights
    last, *behind = LOOK_AHEAD_POOLINGS[pooling](one_hot[:1], one_hot[1:].unsqueeze(0))[0].tolist()
    return Shares(last, behind)
