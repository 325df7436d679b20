"""DICL's four losses over queries and answers with an instruction part and a text part.

Source: "General-Purpose Instruction-Aware Text Embeddings via Dual-Level Contrastive Learning", section 3.3 (it also
writes DIDL). ``mix`` is instruction and text rendered together. Margin and temperature are ours: the paper gives no
values.
"""

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import relu

from retriever.training.losses.infonce import Negatives, infonce
from retriever.training.losses.vectors import paired_cosines

MARGIN = 0.2
TEMPERATURE = 0.05


@dataclass(frozen=True, slots=True)
class DiclEmbeddings:
    """One batch, embedded.

    Attributes:
        query: q_mix (B, d).
        query_text: q_text (B, d), the text without the instruction.
        query_instruction: q_inst (B, d), the instruction without the text.
        positive: p_mix (B, d).
        negatives: n_mix, vectors (B, H, d) and mask (B, H); None for none.
        groups: (B,) ids of equal (question group, answer), which are never each other's negatives; None for the
            paper's form, every other row.
    """

    query: Tensor
    query_text: Tensor
    query_instruction: Tensor
    positive: Tensor
    negatives: Negatives | None = None
    groups: Tensor | None = None


@dataclass(frozen=True, slots=True)
class DiclLoss:
    """The parts of DICL's objective, each a scalar."""

    improvement: Tensor
    contrast: Tensor
    batch: Tensor
    symmetric: Tensor

    @property
    def total(self) -> Tensor:
        """The sum of the four."""
        return self.improvement + self.contrast + self.batch + self.symmetric


def improvement(batch: DiclEmbeddings, *, margin: float = MARGIN) -> Tensor:
    """Return L_imp: the whole query must be nearer to its answer than its text alone and its instruction alone are.

    The mean over rows of max(0, g - sim(q_mix, p_mix) + sim(q_text, p_mix))
    + max(0, g - sim(q_mix, p_mix) + sim(q_inst, p_mix)).
    """
    whole = paired_cosines(batch.query, batch.positive)  # (B,)
    text = paired_cosines(batch.query_text, batch.positive)  # (B,)
    instruction = paired_cosines(batch.query_instruction, batch.positive)  # (B,)
    return (relu(margin - whole + text) + relu(margin - whole + instruction)).mean()


def contrast(batch: DiclEmbeddings, *, margin: float = MARGIN) -> Tensor:
    """Return L_con: the query must be nearer to its answer than to its negatives.

    The mean over rows of the mean over the row's negatives of max(0, g - sim(q_mix, p_mix) + sim(q_mix, n_mix)); a
    row without negatives counts as 0.
    """
    whole = paired_cosines(batch.query, batch.positive)  # (B,)
    if batch.negatives is None:
        return whole.new_zeros(())
    mask = batch.negatives.mask  # (B, H)
    hinges = relu(margin - whole.unsqueeze(1) + batch.negatives.cosines(batch.query))  # (B, H)
    return (hinges.masked_fill(~mask, 0).sum(dim=1) / mask.sum(dim=1).clamp(min=1)).mean()


def in_batch(batch: DiclEmbeddings, *, temperature: float = TEMPERATURE) -> Tensor:
    """Return L_batch: InfoNCE with each q_mix as the anchor, against every p_mix of the batch."""
    return infonce(batch.query, batch.positive, groups=batch.groups, temperature=temperature).mean()


def symmetric(batch: DiclEmbeddings, *, temperature: float = TEMPERATURE) -> Tensor:
    """Return L_sym: InfoNCE with each p_mix as the anchor, against every q_mix of the batch."""
    return infonce(batch.positive, batch.query, groups=batch.groups, temperature=temperature).mean()


def dicl(batch: DiclEmbeddings, *, margin: float = MARGIN, temperature: float = TEMPERATURE) -> DiclLoss:
    """Return L_imp + L_con + L_batch + L_sym and its parts."""
    return DiclLoss(
        improvement=improvement(batch, margin=margin),
        contrast=contrast(batch, margin=margin),
        batch=in_batch(batch, temperature=temperature),
        symmetric=symmetric(batch, temperature=temperature),
    )
