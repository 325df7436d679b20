"""InfoNCE over a batch's other rows and a row's own negatives: the one form GIRCSE, DICL and the tiers share."""

from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor
from torch.nn.functional import softplus

from retriever.training.losses.vectors import cosines

Scope = Literal["batch", "row"]


@dataclass(frozen=True, slots=True)
class Negatives:
    """Texts (..., B, H, d) that are wrong answers to one row alone, H places a row.

    The mask (B, H) is true where a place holds a negative; the others may hold anything.
    """

    vectors: Tensor
    mask: Tensor

    @classmethod
    def of(cls, vectors: Tensor) -> Self:
        """Return negatives (B, H, d) of which every place is taken."""
        return cls(vectors, torch.ones(vectors.shape[-3:-1], dtype=torch.bool, device=vectors.device))

    def beside(self, *others: "Negatives | None") -> "Negatives":
        """Return these and the others, side by side, as one."""
        every = [self, *(other for other in others if other is not None)]
        return Negatives(
            torch.cat([one.vectors for one in every], dim=-2),  # (..., B, sum H, d)
            torch.cat([one.mask for one in every], dim=-1),  # (B, sum H)
        )

    def cosines(self, anchors: Tensor) -> Tensor:
        """Return the cosine of each row's anchor (..., B, d) with its negatives: (..., B, H); empty places give 0."""
        vectors = self.vectors.masked_fill(~self.mask.unsqueeze(-1), 0)  # (..., B, H, d)
        return cosines(anchors.unsqueeze(-2), vectors).squeeze(-2)


def other_rows(groups: Tensor) -> Tensor:
    """Return (B, B), true where row j may be a negative of row i: where their sets (B,) differ."""
    return groups.unsqueeze(1) != groups.unsqueeze(0)


def infonce(
    anchors: Tensor,
    positives: Tensor,
    *,
    temperature: float,
    groups: Tensor | None = None,
    own: Negatives | None = None,
    scope: Scope = "batch",
) -> Tensor:
    """Return each row's loss (..., B): -log(exp(s_i+ / tau) / (exp(s_i+ / tau) + sum_j exp(s_ij- / tau))).

    s is the cosine (van den Oord et al., "Representation Learning with Contrastive Predictive Coding", 2018, eq. 4).
    The positive is always in its own denominator. It is computed as softplus(logsumexp(s- / tau) - s+ / tau), which
    keeps its relative precision when it is tiny; a difference of two logarithms would round to zero.

    Args:
        anchors: (..., B, d).
        positives: (..., B, d), row i's belongs to anchor i.
        temperature: tau.
        groups: (B,) ids of positive sets; a row's positive is no negative of a row of the same set. None: every row
            is a set of its own.
        own: further negatives of each row.
        scope: ``batch`` takes the other rows' positives as negatives too, ``row`` only ``own``.
    """
    scores = cosines(anchors, positives)  # (..., B, B)
    rows = torch.arange(scores.shape[-1], device=scores.device)  # (B,)
    allowed = other_rows(rows if groups is None else groups)  # (B, B)
    positive = scores.diagonal(dim1=-2, dim2=-1)  # (..., B)
    if scope == "row":
        allowed = torch.zeros_like(allowed)
    if own is not None:
        scores = torch.cat([scores, own.cosines(anchors)], dim=-1)  # (..., B, B + H)
        allowed = torch.cat([allowed, own.mask], dim=-1)  # (B, B + H)
    lowest = torch.finfo(scores.dtype).min  # minus infinity would make the gradient of an empty sum undefined
    negatives = (scores / temperature).masked_fill(~allowed, lowest)
    return softplus(negatives.logsumexp(dim=-1) - positive / temperature)
