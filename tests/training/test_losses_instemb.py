from functools import partial
from math import e, log

import loss_references as slow
import pytest
import torch
from loss_checks import booleans, check, check_finite, draw, gradients

from retriever.training.losses import cross_entropy, kl, mse, view_contrast

FULL = booleans([1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1])
SHORT = booleans([1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0])
ONE_EMPTY = booleans([0, 0, 0, 0], [1, 1, 1, 0], [1, 1, 0, 0])
NONE = torch.zeros(3, 4, dtype=torch.bool)
MASKS = pytest.mark.parametrize("mask", [FULL, ONE_EMPTY, NONE], ids=["full", "one-empty", "none"])
ANSWERS = torch.tensor([[0, 1, 2, 3], [4, 0, 0, 0], [2, 2, 1, 1]])


def states(*, seed=0):
    return {"student": draw(3, 4, 5, seed=seed), "teacher": draw(3, 4, 5, seed=seed + 1)}


@MASKS
def test_mse_equals_the_reference(mask):
    check(
        lambda student, teacher: mse(student, teacher, mask),
        partial(slow.mse, mask=mask.tolist()),
        states(),
        frozen=["teacher"],
    )


def test_mse_by_hand():
    student = torch.tensor([[[1.0, 2.0], [3.0, 0.0]], [[0.0, 1.0], [9.0, 9.0]]])
    teacher = torch.tensor([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    assert mse(student, teacher, booleans([1, 1], [1, 0])).item() == pytest.approx((4 + 9 + 1) / 3)


@MASKS
@pytest.mark.parametrize("direction", ["student-first", "teacher-first"])
def test_kl_equals_the_reference(mask, direction):
    check(
        lambda student, teacher: kl(student, teacher, mask, direction=direction),
        partial(slow.kl, mask=mask.tolist(), direction=direction),
        states(),
        frozen=["teacher"],
    )


def test_kl_is_student_first_by_default_and_the_directions_differ():
    student = torch.tensor([0.9, 0.1]).log()[None, None]
    teacher = torch.tensor([0.5, 0.5]).log()[None, None]
    mask = booleans([1])
    assert kl(student, teacher, mask).item() == pytest.approx(0.9 * log(1.8) + 0.1 * log(0.2), rel=1e-5)
    forward = kl(student, teacher, mask, direction="teacher-first")
    assert forward.item() == pytest.approx(0.5 * log(1 / 1.8) + 0.5 * log(5), rel=1e-5)


@pytest.mark.parametrize("direction", ["student-first", "teacher-first"])
def test_kl_of_ruled_out_tokens_is_finite(direction):
    logits = torch.tensor([[[0.0, 0.0, float("-inf")]]])
    check_finite(
        lambda student, teacher: kl(student, teacher, booleans([1]), direction=direction),
        {"student": logits, "teacher": logits},
        0.0,
    )


@MASKS
def test_cross_entropy_equals_the_reference(mask):
    check(
        lambda logits: cross_entropy(logits, ANSWERS, mask),
        partial(slow.cross_entropy, answers=ANSWERS.tolist(), mask=mask.tolist()),
        {"logits": draw(3, 4, 5)},
    )


@pytest.mark.parametrize("loss", [mse, kl])
def test_what_stands_in_uncounted_places_is_never_read(loss):
    clean = states()
    dirty = {name: tensor.masked_fill(~SHORT.unsqueeze(-1), float("nan")) for name, tensor in clean.items()}
    expected = loss(clean["student"], clean["teacher"], SHORT).item()
    found = check_finite(lambda student, teacher: loss(student, teacher, SHORT), dirty, expected)
    assert found["student"][~SHORT].eq(0).all()


@pytest.mark.parametrize("form", ["inside", "outside"])
@pytest.mark.parametrize("groups", [[0, 1, 2], [7, 3, 7], [4, 4, 4]], ids=["strict", "two-rows-one-set", "one-set"])
@pytest.mark.parametrize("count", [1, 3])
def test_view_contrast_equals_the_reference(count, groups, form):
    check(
        lambda views: view_contrast(views, torch.tensor(groups), form=form),
        partial(slow.view_contrast, groups=groups, tau=0.1, form=form),
        {"views": draw(count, 3, 4)},
    )


@pytest.mark.parametrize("form", ["inside", "outside"])
def test_what_is_left_out_is_compared_with_nothing(form):
    left_out = torch.zeros(6, 6, dtype=torch.bool)
    for one, other in ((0, 4), (3, 4), (5, 1)):
        left_out[one, other] = left_out[other, one] = True
    check(
        lambda views: view_contrast(views, torch.tensor([0, 1, 0]), form=form, left_out=left_out),
        partial(slow.view_contrast, groups=[0, 1, 0], tau=0.1, form=form, left_out=[{0, 4}, {3, 4}, {5, 1}]),
        {"views": draw(2, 3, 4)},
    )


def test_view_contrast_by_hand():
    views = torch.eye(2).expand(3, 2, 2) * torch.tensor([1.0, 2.0, 3.0])[:, None, None]
    inside = view_contrast(views, torch.tensor([0, 1]), temperature=1.0)
    outside = view_contrast(views, torch.tensor([0, 1]), temperature=1.0, form="outside")
    assert inside.item() == pytest.approx(-log(2 * e / (2 * e + 3)))
    assert outside.item() == pytest.approx(-log(e / (2 * e + 3)))


@pytest.mark.parametrize("form", ["inside", "outside"])
def test_a_lone_view_contrasts_with_nothing(form):
    check_finite(lambda views: view_contrast(views, torch.tensor([0]), form=form), {"views": draw(1, 1, 4)}, 0.0)
    check_finite(lambda views: view_contrast(views, torch.tensor([0, 1]), form=form), {"views": draw(1, 2, 4)}, 0.0)


def test_a_zero_view_has_finite_gradients():
    views = draw(2, 3, 4)
    views[0, 1] = 0
    value, found = gradients(lambda views: view_contrast(views, torch.arange(3)), {"views": views}, torch.float32)
    assert value.isfinite()
    assert found["views"].abs().max() < 1e3
