"""The losses of DICL, GIRCSE and InstEmb: functions of tensors that know no model.

Sources, by the functions' order: "General-Purpose Instruction-Aware Text Embeddings via Dual-Level Contrastive
Learning" (DICL; it also writes DIDL), section 3.3 and appendix A; "Let LLMs Speak Embedding Languages: Generative Text
Embeddings via Iterative Contrastive Refinement" (GIRCSE), section 3.3; Gao et al., "InstEmb: Instruction-Following
Embeddings through Glimpses of the Future", section 3.2.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import kl_div, relu

from retriever.training.loss_parts import (
    Negatives,
    cosines,
    full_precision,
    infonce,
    mean_cross_entropy,
    paired_cosines,
)

MARGIN = 0.2
DICL_TEMPERATURE = 0.05
"""Ours, and so is the margin: the paper gives no values."""
GIRCSE_TEMPERATURE = 0.02
INSTEMB_TEMPERATURE = 0.1

_LOWEST_LOSS = 1e-8  # what a step's loss counts as, at least, under the logarithm
_LOWEST_LOG = -1e4  # of a probability; exp of it is 0, and 0 times it is 0 where 0 times minus infinity is undefined


@dataclass(frozen=True, slots=True)
class DiclEmbeddings:
    """One batch, embedded; ``mix`` is instruction and text rendered together.

    Attributes:
        query: q_mix (B, d).
        query_text: q_text (B, d), the text without the instruction.
        query_instruction: q_inst (B, d), the instruction without the text.
        positive: p_mix (B, d).
        negatives: n_mix, vectors (B, H, d) and mask (B, H), H from 0.
        groups: (B,) ids of equal (question group, answer), which are never each other's negatives; None for the
            paper's form, every other row.
    """

    query: Tensor
    query_text: Tensor
    query_instruction: Tensor
    positive: Tensor
    negatives: Negatives
    groups: Tensor | None = None


def dicl(batch: DiclEmbeddings, *, margin: float = MARGIN, temperature: float = DICL_TEMPERATURE) -> dict[str, Tensor]:
    """Return the four scalars whose sum is DICL's objective.

    - ``improvement``: a query must be nearer to its answer than its text alone and its instruction alone are. The mean
      over rows of max(0, g - sim(q_mix, p_mix) + sim(q_text, p_mix)) + max(0, g - sim(q_mix, p_mix) + sim(q_inst,
      p_mix)).
    - ``contrast``: nearer than to its negatives. The mean over rows of the mean over the row's negatives of max(0, g -
      sim(q_mix, p_mix) + sim(q_mix, n_mix)); a row without negatives counts as 0.
    - ``batch``: InfoNCE with each q_mix as the anchor, against every p_mix of the batch.
    - ``symmetric``: the same with each p_mix as the anchor, against every q_mix.
    """
    return {
        "improvement": _improvement(batch, margin),
        "contrast": _contrast(batch, margin),
        "batch": infonce(batch.query, batch.positive, groups=batch.groups, temperature=temperature).mean(),
        "symmetric": infonce(batch.positive, batch.query, groups=batch.groups, temperature=temperature).mean(),
    }


def _improvement(batch: DiclEmbeddings, margin: float) -> Tensor:
    whole = paired_cosines(batch.query, batch.positive)  # (B,)
    text = paired_cosines(batch.query_text, batch.positive)  # (B,)
    instruction = paired_cosines(batch.query_instruction, batch.positive)  # (B,)
    return (relu(margin - whole + text) + relu(margin - whole + instruction)).mean()


def _contrast(batch: DiclEmbeddings, margin: float) -> Tensor:
    whole = paired_cosines(batch.query, batch.positive)  # (B,)
    mask = batch.negatives.mask  # (B, H)
    hinges = relu(margin - whole.unsqueeze(1) + batch.negatives.cosines(batch.query))  # (B, H)
    return (hinges.masked_fill(~mask, 0).sum(dim=1) / mask.sum(dim=1).clamp(min=1)).mean()


def tiered(batch: DiclEmbeddings, lower: Negatives, *, temperature: float = DICL_TEMPERATURE) -> dict[str, Tensor]:
    """Return the five scalars of eq. 11 to 15, each the batch mean of InfoNCE; eq. 16 is their sum.

    With I an instruction, Q a query, + the row's own and - a wrong one: p is ``positive``, tier 1 I+ and Q+ together,
    ``query``, tier 2 I+ alone and Q+ alone, tier 5 ``negatives``. ``lower`` (B, 4, d) holds tier 3, I+ with Q- and I-
    with Q+, and tier 4, I- alone and Q- alone.

    - ``first``, L_T1: anchor p, positive tier 1, against tiers 2 to 5 and the other rows' tier 1.
    - ``symmetric``, L_sym: anchor tier 1, positive p, against tier 5 and the other rows' targets.
    - ``instruction`` and ``query``, L_I+ and L_Q+: anchor one part of tier 2, positive p, against tiers 3 to 5 and the
      other rows' targets.
    - ``first_over_second``, L_T1>T2: anchor p, positive tier 1, against this row's tier 2 only.
    """
    target, both = batch.positive, batch.query
    second = Negatives.of(torch.stack([batch.query_instruction, batch.query_text], dim=1))  # (B, 2, d)
    every = torch.zeros(len(target), device=target.device)  # (B,): one set, so that no row meets another's
    lower = lower.beside(batch.negatives)  # (B, 4 + H, d)

    def against(anchors: Tensor, positives: Tensor, own: Negatives) -> Tensor:
        return infonce(anchors, positives, own=own, groups=batch.groups, temperature=temperature).mean()

    return {
        "first": against(target, both, second.beside(lower)),
        "symmetric": against(both, target, batch.negatives),
        "instruction": against(batch.query_instruction, target, lower),
        "query": against(batch.query_text, target, lower),
        "first_over_second": infonce(target, both, own=second, groups=every, temperature=temperature).mean(),
    }


def stepwise(
    queries: Tensor,
    documents: Tensor,
    *,
    groups: Tensor | None = None,
    negatives: Negatives | None = None,
    temperature: float = GIRCSE_TEMPERATURE,
) -> Tensor:
    """Return GIRCSE's losses L_k (K,) of eq. 7: InfoNCE of z_k^q against z_k^d (K, B, d), averaged over the batch.

    z_k is the mean of the first k soft tokens' states. The candidates of a row are its own document, the other rows'
    documents and the row's hard negatives, vectors (K, B, H, d); ``groups`` as for `infonce`. The objective is their
    sum; the paper's released code averages instead, which has the same optimum at another scale.
    """
    return infonce(queries, documents, temperature=temperature, groups=groups, own=negatives).mean(dim=-1)


def refinement(steps: Tensor) -> Tensor:
    """Return GIRCSE's penalty on steps that do worse than the one before: L_reg of eq. 8.

    That is 1 / (K - 1) sum_k max(log L_{k+1} - log L_k, 0), and 0 for K = 1. Of the ``steps`` L_k (K,) each is held at
    1e-8 or more before the logarithm.
    """
    logs = full_precision(steps).clamp(min=_LOWEST_LOSS).log()  # (K,)
    return relu(logs[1:] - logs[:-1]).sum() / max(len(steps) - 1, 1)


KlDirection = Literal["student-first", "teacher-first"]
ContrastForm = Literal["inside", "outside"]


def mse(student: Tensor, teacher: Tensor, mask: Tensor) -> Tensor:
    """Return InstEmb's eq. 1: the mean over counted positions of ||h^S - h^T||^2, a sum over d; 0 where none counts.

    Hidden states (B, L, d) are those at the look-ahead positions and, of the teacher, at the answer's: look-ahead token
    j stands where the teacher reads answer token j. The mask (B, L) says which places count; what stands in the others,
    which a short answer leaves empty, is never read. The teacher gets no gradient.
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


def _log_probabilities(logits: Tensor) -> Tensor:
    return full_precision(logits).log_softmax(dim=-1).clamp(min=_LOWEST_LOG)


def cross_entropy(student: Tensor, answers: Tensor, mask: Tensor) -> Tensor:
    """Return the control without a teacher (table 3, CE): the mean of -log P^S(y_j) over counted positions.

    Nothing is shifted: look-ahead token j, with logits (B, L, V), names token j of the answers (B, L).
    """
    return mean_cross_entropy(student[mask], answers[mask])


def view_contrast(
    views: Tensor,
    groups: Tensor,
    *,
    temperature: float = INSTEMB_TEMPERATURE,
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
