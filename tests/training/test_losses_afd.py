from math import exp, log, sqrt

import loss_references as slow
import pytest
import torch
from loss_checks import check, check_finite, draw

from retriever.training.loss_parts import (
    fused_target,
    mean_similarity_error,
    order_error,
    similarity_error,
    squared_error,
)


def texts():
    return {"student": draw(3, 4), "new": draw(3, 4, seed=1), "base": draw(3, 4, seed=2)}


@pytest.mark.parametrize("weight", [0.4, 1.0])
def test_squared_error_to_the_fused_target_equals_the_reference(weight):
    def reference(student, new, base):
        target = slow.fused(new, base, weight)
        return slow.mean(slow.distance(slow.unit(s), t) for s, t in zip(student, target, strict=True))

    check(
        lambda student, new, base: squared_error(student, fused_target(new, base, new_weight=weight)),
        reference,
        texts(),
        frozen=["new", "base"],
    )


def test_fused_target_by_hand():
    new, base = torch.tensor([[3.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.0, 0.5], [-7.0, 0.0]])
    assert fused_target(new, base)[0].tolist() == pytest.approx([sqrt(0.5), sqrt(0.5)])
    assert fused_target(new, base, new_weight=0.6)[0].tolist() == pytest.approx([0.6 / sqrt(0.52), 0.4 / sqrt(0.52)])
    assert fused_target(new, base, new_weight=0.6)[1].tolist() == [1, 0]


def test_opposite_models_leave_no_target_but_no_nan_either():
    new = torch.tensor([[1.0, 0.0]])
    assert fused_target(new, -new).tolist() == [[0, 0]]
    check_finite(lambda student: squared_error(student, fused_target(new, -new)), {"student": new}, 1.0)


def test_the_target_itself_gets_no_gradient():
    target = draw(3, 4).requires_grad_()
    assert not fused_target(target, draw(3, 4)).requires_grad
    assert not fused_target(draw(3, 4), target).requires_grad
    squared_error(draw(3, 4, seed=1).requires_grad_(), target).backward()
    assert target.grad is None


@pytest.mark.parametrize("width", [2, 7])
def test_similarity_error_equals_the_reference(width):
    check(
        similarity_error,
        slow.similarity_error,
        {"student": draw(3, 4), "teacher": draw(3, width, seed=1)},
        frozen=["teacher"],
    )


def test_similarity_error_by_hand():
    student = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    teacher = torch.tensor([[1.0], [1.0], [-1.0]])
    assert similarity_error(student, teacher).item() == pytest.approx((1 + 4 + 1) * 2 / 6)


@pytest.mark.parametrize("width", [2, 7])
def test_order_error_equals_the_reference(width):
    check(
        order_error,
        slow.order_error,
        {"student": draw(3, 4), "teacher": draw(3, width, seed=1)},
        frozen=["teacher"],
    )


def test_order_error_by_hand():
    student = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])  # the first and the last are alike
    teacher = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])  # the last two are
    sure, unsure = exp(2) / (1 + exp(2)), 1 / (1 + exp(2))  # cosines 1 and 0 at temperature 1/2
    first = log(0.5) - (log(sure) + log(unsure)) / 2
    second = sure * log(sure / 0.5) + unsure * log(unsure / 0.5)
    third = (sure - unsure) * log(sure / unsure)
    found = order_error(student, teacher, temperature=0.5)
    assert found.item() == pytest.approx((first + second + third) / 3)
    assert order_error(student, 5 * student).item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("error", [similarity_error, order_error])
def test_one_text_makes_no_pair(error):
    check_finite(error, {"student": draw(1, 4), "teacher": draw(1, 2)}, 0.0)


def test_the_mean_error_of_several_students_equals_the_reference():
    def reference(students, teacher):
        return slow.mean(
            slow.similarity_error(one, teacher) + 0.05 * slow.order_error(one, teacher) for one in students
        )

    check(
        mean_similarity_error,
        reference,
        {"students": torch.stack([draw(3, 4), draw(3, 4, seed=2)]), "teacher": draw(3, 5, seed=1)},
        frozen=["teacher"],
    )
