"""The tiered ranking loss: five tiers of relevance to a target, each to be ranked above the ones below it.

Source: "General-Purpose Instruction-Aware Text Embeddings via Dual-Level Contrastive Learning", appendix A. I is an
instruction and Q a query, + the row's own and - a wrong one. The temperature is ours: the paper gives none.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from retriever.training.losses.infonce import Negatives, infonce

TEMPERATURE = 0.05


@dataclass(frozen=True, slots=True)
class TieredEmbeddings:
    """One batch, embedded.

    Attributes:
        target: p (B, d), the right answer.
        both: tier 1 (B, d), I+ and Q+ rendered together.
        instruction: tier 2 (B, d), I+ alone.
        query: tier 2 (B, d), Q+ alone.
        half_wrong: tier 3 (B, 2, d), I+ with Q- and I- with Q+.
        wrong: tier 4 (B, 2, d), I- alone and Q- alone.
        taken: (B, 4), true where the two places of ``half_wrong`` and the two of ``wrong`` hold something; the others
            may hold anything. None for all.
        external: tier 5, other wrong answers, vectors (B, H, d) and mask (B, H); None for none.
        groups: (B,) ids of equal (question group, answer), which are never each other's negatives; None for the
            paper's form, every other row.
    """

    target: Tensor
    both: Tensor
    instruction: Tensor
    query: Tensor
    half_wrong: Tensor
    wrong: Tensor
    taken: Tensor | None = None
    external: Negatives | None = None
    groups: Tensor | None = None


@dataclass(frozen=True, slots=True)
class TieredLoss:
    """The parts of the tiered objective, each a scalar.

    Attributes:
        first: L_T1, eq. 11.
        symmetric: L_sym, eq. 12.
        instruction: L_I+, eq. 13.
        query: L_Q+, eq. 14.
        first_over_second: L_T1>T2, eq. 15.
    """

    first: Tensor
    symmetric: Tensor
    instruction: Tensor
    query: Tensor
    first_over_second: Tensor

    @property
    def total(self) -> Tensor:
        """The sum of the five (eq. 16)."""
        return self.first + self.symmetric + self.instruction + self.query + self.first_over_second


def tiered(batch: TieredEmbeddings, *, temperature: float = TEMPERATURE) -> TieredLoss:
    """Return the five terms, each the batch mean of InfoNCE with the positive in its own denominator.

    - L_T1: anchor p, positive tier 1, against tiers 2 to 5 and the other rows' tier 1.
    - L_sym: anchor tier 1, positive p, against tier 5 and the other rows' targets.
    - L_I+ and L_Q+: anchor one part of tier 2, positive p, against tiers 3 to 5 and the other rows' targets.
    - L_T1>T2: anchor p, positive tier 1, against this row's tier 2 only.
    """
    second = Negatives.of(torch.stack([batch.instruction, batch.query], dim=1))  # (B, 2, d)
    corrupted = Negatives.of(torch.cat([batch.half_wrong, batch.wrong], dim=1))  # (B, 4, d)
    if batch.taken is not None:
        corrupted = Negatives(corrupted.vectors, batch.taken)
    lower = corrupted.beside(batch.external)  # (B, 4 + H, d)

    def against(anchors: Tensor, positives: Tensor, own: Negatives | None) -> Tensor:
        return infonce(anchors, positives, own=own, groups=batch.groups, temperature=temperature).mean()

    return TieredLoss(
        first=against(batch.target, batch.both, second.beside(lower)),
        symmetric=against(batch.both, batch.target, batch.external),
        instruction=against(batch.instruction, batch.target, lower),
        query=against(batch.query, batch.target, lower),
        first_over_second=infonce(batch.target, batch.both, own=second, scope="row", temperature=temperature).mean(),
    )
