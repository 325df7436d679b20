"""InstEmb's losses: distilling the answer's states into look-ahead tokens, and contrast over views (section 3.2).

Source: Gao et al., "InstEmb: Instruction-Following Embeddings through Glimpses of the Future". Student and teacher
are aligned by position: look-ahead token j stands where the teacher reads answer token j. Answers shorter than the L
look-ahead tokens leave places empty; a mask (B, L) says which places count, and what stands in the others is never
read. The teacher gets no gradient.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import kl_div

from retriever.training.losses.vectors import cosines, full_precision, mean_cross_entropy

TEMPERATURE = 0.1

KlDirection = Literal["student-first", "teacher-first"]
ContrastForm = Literal["inside", "outside"]

_LOWEST_LOG = -1e4  # of a probability; exp of it is 0, and 0 times it is 0 where 0 times minus infinity is undefined


def mse(student: Tensor, teacher: Tensor, mask: Tensor) -> Tensor:
    """Return eq. 1: the mean over counted positions of ||h^S - h^T||^2, a sum over d; 0 where none counts.

    Hidden states (B, L, d) are those at the look-ahead positions and, of the teacher, at the answer's.
    """
    difference = full_precision(student[mask]) - full_precision(teacher[mask].detach())  # (C, d)
    return difference.square().sum() / max(len(difference), 1)


def kl(student: Tensor, teacher: Tensor, mask: Tensor, *, direction: KlDirection = "student-first") -> Tensor:
    """Return eq. 2: the mean over counted positions of the divergence of next-token distributions; 0 where none counts.

    ``student-first`` is as printed, sum_v P^S(v) log(P^S(v) / P^T(v)); ``teacher-first`` is the forward direction,
    sum_v P^T(v) log(P^T(v) / P^S(v)). Logits (B, L, V) stand as the states of `mse`.
    """
    ours, theirs = _log_probabilities(student[mask]), _log_probabilities(teacher[mask].detach())  # (C, V)
    first, second = (ours, theirs) if direction == "student-first" else (theirs, ours)
    return kl_div(second, first, reduction="sum", log_target=True) / max(len(ours), 1)


def cross_entropy(student: Tensor, answers: Tensor, mask: Tensor) -> Tensor:
    """Return the control without a teacher (table 3, CE): the mean of -log P^S(y_j) over counted positions.

    Nothing is shifted: look-ahead token j, with logits (B, L, V), names token j of the answers (B, L).
    """
    return mean_cross_entropy(student[mask], answers[mask])


def view_contrast(
    views: Tensor,
    groups: Tensor,
    *,
    temperature: float = TEMPERATURE,
    form: ContrastForm = "inside",
    left_out: Tensor | None = None,
) -> Tensor:
    """Return the supervised contrastive loss over all views of a batch, the mean over its V N views.

    For a view z with positives P(z), the other views of its set, and A(z), all other views:
    ``inside`` is eq. 3, -log(sum_{p in P(z)} exp(s_zp / tau) / sum_{a in A(z)} exp(s_za / tau));
    ``outside`` is the mean over p in P(z) of -log(exp(s_zp / tau) / sum_{a in A(z)} exp(s_za / tau)) (Khosla et al.,
    "Supervised Contrastive Learning", 2020, eq. 2). s is the cosine; a view is never compared with itself. A view
    without a positive is left out of the mean; where no view has one the loss is 0.

    Args:
        views: (V, N, d), one to four views of N instances.
        groups: (N,) ids of positive sets; distinct ids for the paper's one-instance-one-set form.
        temperature: tau.
        form: where the sum over positives stands.
        left_out: (V N, V N), the views of the first instances first, true for views of different sets that are not
            compared with each other: they are missing from A(z). None for none.
    """
    every = views.flatten(0, 1)  # (V N, d)
    sets = groups.repeat(len(views))  # (V N,)
    itself = torch.eye(len(every), dtype=torch.bool, device=views.device)  # (V N, V N)
    positive = (sets.unsqueeze(1) == sets.unsqueeze(0)) & ~itself  # (V N, V N)
    counted = positive.any(dim=1)  # (V N,)
    positive = positive[counted]  # (A, V N)
    hidden = itself if left_out is None else itself | left_out  # (V N, V N)
    scores = (cosines(every, every) / temperature).masked_fill(hidden, float("-inf"))[counted]  # (A, V N)
    among_all = scores.logsumexp(dim=1)  # (A,)
    if form == "inside":
        among_positives = scores.masked_fill(~positive, float("-inf")).logsumexp(dim=1)  # (A,)
    else:
        among_positives = scores.masked_fill(~positive, 0).sum(dim=1) / positive.sum(dim=1)  # (A,)
    return (among_all - among_positives).sum() / max(len(scores), 1)


def _log_probabilities(logits: Tensor) -> Tensor:
    return full_precision(logits).log_softmax(dim=-1).clamp(min=_LOWEST_LOG)
