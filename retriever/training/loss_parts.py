"""The parts that losses are made of: cosines and cross entropy in full precision, InfoNCE, errors of similarities."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus


def full_precision(tensor: Tensor) -> Tensor:
    """Return the tensor as float32; float64 stays what it is, so that derivatives can be checked in it."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def unit(vectors: Tensor) -> Tensor:
    """Return vectors (..., d) of length 1; a zero vector stays zero and its gradient stays finite."""
    vectors = full_precision(vectors)
    norms = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)  # (..., 1)
    return vectors / torch.where(norms > 0, norms, 1)


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """Return the cosine of every vector (..., A, d) with every vector (..., C, d): (..., A, C).

    Autocast is off inside: it would multiply in half precision whatever comes in.
    """
    with torch.autocast(left.device.type, enabled=False):
        return unit(left) @ unit(right).transpose(-1, -2)


def paired_cosines(left: Tensor, right: Tensor) -> Tensor:
    """Return the cosine of each vector (..., d) with its partner (..., d): (...)."""
    return (unit(left) * unit(right)).sum(dim=-1)


def mean_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of -log P(target) over logits (C, V) and token ids (C,), 0 where there are none."""
    return cross_entropy(full_precision(logits), targets, reduction="sum") / max(len(targets), 1)


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

    def beside(self, other: "Negatives") -> "Negatives":
        """Return these and the others, side by side, as one."""
        return Negatives(
            torch.cat([self.vectors, other.vectors], dim=-2),  # (..., B, sum H, d)
            torch.cat([self.mask, other.mask], dim=-1),  # (B, sum H)
        )

    def cosines(self, anchors: Tensor) -> Tensor:
        """Return the cosine of each row's anchor (..., B, d) with its negatives: (..., B, H); empty places give 0."""
        vectors = self.vectors.masked_fill(~self.mask.unsqueeze(-1), 0)  # (..., B, H, d)
        return cosines(anchors.unsqueeze(-2), vectors).squeeze(-2)


def infonce(
    anchors: Tensor,
    positives: Tensor,
    *,
    temperature: float,
    groups: Tensor | None = None,
    own: Negatives | None = None,
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
        own: further negatives of each row, beside the other rows' positives.
    """
    scores = cosines(anchors, positives)  # (..., B, B)
    sets = torch.arange(scores.shape[-1], device=scores.device) if groups is None else groups  # (B,)
    allowed = sets.unsqueeze(1) != sets.unsqueeze(0)  # (B, B)
    positive = scores.diagonal(dim1=-2, dim2=-1)  # (..., B)
    if own is not None:
        scores = torch.cat([scores, own.cosines(anchors)], dim=-1)  # (..., B, B + H)
        allowed = torch.cat([allowed, own.mask], dim=-1)  # (B, B + H)
    lowest = torch.finfo(scores.dtype).min  # minus infinity would make the gradient of an empty sum undefined
    negatives = (scores / temperature).masked_fill(~allowed, lowest)
    return softplus(negatives.logsumexp(dim=-1) - positive / temperature)


NEW_WEIGHT = 0.5
ORDER_TEMPERATURE = 0.05
ORDER = 0.05
"""Weight of the order beside the values: a trained model was off by 0.8 in the one and 0.01 in the other."""


def fused_target(new: Tensor, base: Tensor, *, new_weight: float = NEW_WEIGHT) -> Tensor:
    """Return lambda E_new + (1 - lambda) E_base, both of length 1 first and the sum of length 1 again: (B, d).

    ``new`` is by the fine-tuned model, ``base`` by the model as it was before; lambda is from 0 to 1, and the paper
    stays within 0.4 and 0.6 ("General-Purpose Instruction-Aware Text Embeddings via Dual-Level Contrastive Learning",
    section 3.4, eq. 4).
    """
    return unit(new_weight * unit(new.detach()) + (1 - new_weight) * unit(base.detach()))


def squared_error(student: Tensor, target: Tensor) -> Tensor:
    """Return eq. 5: the mean over texts of ||E_student - E_fused||^2, the sum over d of vectors (B, d) of length 1."""
    return (unit(student) - unit(target.detach())).square().sum(dim=-1).mean()


def similarity_error(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean squared difference of the two models' cosines over all pairs of different rows (B, d), (B, e).

    For a teacher of another width, whose vectors cannot be compared with the student's one by one. A single row makes
    no pair and gives 0.
    """
    difference = cosines(student, student) - cosines(teacher, teacher).detach()  # (B, B)
    pairs = ~torch.eye(len(student), dtype=torch.bool, device=student.device)  # (B, B)
    return difference[pairs].square().sum() / max(len(student) * (len(student) - 1), 1)


def order_error(student: Tensor, teacher: Tensor, *, temperature: float = ORDER_TEMPERATURE) -> Tensor:
    """Compute how far the student is from the teacher in which texts are nearest to each: a mean KL divergence.

    For each row the cosines with the others become a distribution, p for the teacher (B, e) and q for the student (B,
    d), each by a softmax over cosines / temperature; the error is the mean over rows of the sum of p log(p / q). The
    lower the temperature, the more the nearest texts alone count. A single row gives 0.
    """
    others = ~torch.eye(len(student), dtype=torch.bool, device=student.device)  # (B, B)
    width = len(student) - 1
    if width < 1:
        return student.sum() * 0

    def logs(vectors: Tensor) -> Tensor:
        return (cosines(vectors, vectors)[others].view(-1, width) / temperature).log_softmax(dim=-1)  # (B, B - 1)

    wanted, given = logs(teacher.detach()), logs(student)
    return (wanted.exp() * (wanted - given)).sum(dim=-1).mean()


def mean_similarity_error(students: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean over K students (K, B, d) of what each has wrong: `similarity_error` + 0.05 `order_error`.

    The values matter to all that compares scores, the order to what a search finds first. The students are such as
    those of K soft-token steps; the teacher's vectors are (B, e).
    """
    errors = [similarity_error(student, teacher) + ORDER * order_error(student, teacher) for student in students]
    return torch.stack(errors).mean()
