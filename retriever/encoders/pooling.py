"""Poolings over hidden states: functions of tensors, in float32."""

from torch import Tensor


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
