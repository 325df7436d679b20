"""Asymmetric fusion distillation: a student between the fine-tuned and the base model keeps general quality.

Source: "General-Purpose Instruction-Aware Text Embeddings via Dual-Level Contrastive Learning", section 3.4.
Targets and teachers get no gradient.
"""

import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.training.losses.vectors import cosines, unit

NEW_WEIGHT = 0.5
ORDER_TEMPERATURE = 0.05
ORDER = 0.05
"""Weight of the order beside the values: a trained model was off by 0.8 in the one and 0.01 in the other."""


def fused_target(new: Tensor, base: Tensor, *, new_weight: float = NEW_WEIGHT) -> Tensor:
    """Return eq. 4, lambda E_new + (1 - lambda) E_base, both of length 1 first and the sum of length 1 again: (B, d).

    ``new`` is by the fine-tuned model, ``base`` by the model as it was before; lambda is from 0 to 1, and the paper
    stays within 0.4 and 0.6.

    Raises:
        UsageError: lambda is below 0 or above 1.
    """
    if not 0 <= new_weight <= 1:
        raise UsageError(f"The new model's weight is {new_weight}.", hint="Give a number from 0 to 1, such as 0.5.")
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
    errors = [similarity_error(one, teacher) + ORDER * order_error(one, teacher) for one in students]
    return torch.stack(errors).mean()
