from math import e, log

import loss_references as slow
import pytest
import torch
from loss_checks import booleans, check, check_finite, draw

from retriever.training.loss_parts import Negatives
from retriever.training.losses import refinement, stepwise

MASK = booleans([1, 1], [0, 1], [0, 0])
ALL, NONE = booleans([1, 1], [1, 1], [1, 1]), booleans([0, 0], [0, 0], [0, 0])
GROUPS = pytest.mark.parametrize("groups", [[0, 1, 2], [5, 1, 5], [2, 2, 2]], ids=["apart", "two-equal", "one-group"])


def batch(steps=3, *, seed=0, hard=2):
    return {
        "queries": draw(steps, 3, 4, seed=seed),
        "documents": draw(steps, 3, 4, seed=seed + 1),
        "negatives": draw(steps, 3, hard, 4, seed=seed + 2),
    }


@GROUPS
@pytest.mark.parametrize("mask", [MASK, ALL, NONE], ids=["some", "all", "none"])
@pytest.mark.parametrize("steps", [1, 3])
def test_total_equals_the_reference(steps, mask, groups):
    def loss(queries, documents, negatives):
        found = stepwise(
            queries, documents, groups=torch.tensor(groups), negatives=Negatives(negatives, mask), temperature=0.3
        )
        return found.sum() + 0.7 * refinement(found)

    def reference(queries, documents, negatives):
        found = slow.stepwise(queries, documents, negatives, mask.tolist(), groups, 0.3)
        return sum(found) + 0.7 * slow.refinement(found)

    check(loss, reference, batch(steps))


@pytest.mark.parametrize("step", [0, 1, 2])
def test_each_step_equals_the_reference_at_the_papers_temperature(step):
    tensors = batch()
    tensors["documents"] = tensors["queries"] + 0.6 * tensors["documents"]  # as in training: mostly right already
    value = check(
        lambda queries, documents, negatives: stepwise(queries, documents, negatives=Negatives(negatives, MASK))[step],
        lambda **lists: slow.stepwise(**lists, mask=MASK.tolist(), groups=[0, 1, 2], tau=0.02)[step],
        tensors,
    )
    assert value != 0


def test_stepwise_by_hand():
    queries = torch.eye(2)[None]  # (1, 2, 2)
    assert stepwise(queries, queries, temperature=1.0).tolist() == pytest.approx([-log(e / (e + 1))])
    same = stepwise(queries, queries, temperature=1.0, groups=torch.tensor([3, 3]))
    assert same.tolist() == [0.0]
    hard = Negatives(queries.unsqueeze(2), booleans([1], [0]))
    alone = stepwise(queries, queries, temperature=1.0, groups=torch.tensor([3, 3]), negatives=hard)
    assert alone.tolist() == pytest.approx([log(2) / 2])


def test_an_equal_answer_is_never_a_negative():
    tensors = {name: tensor[:, :2] for name, tensor in batch().items() if name != "negatives"}
    groups = torch.tensor([9, 9])
    found = check_finite(lambda **inputs: stepwise(**inputs, groups=groups).sum(), tensors, 0.0)
    assert found["queries"].eq(0).all()


@pytest.mark.parametrize("steps", [1, 4])
def test_one_row_without_negatives_is_zero(steps):
    tensors = {name: tensor[:, :1] for name, tensor in batch(steps).items() if name != "negatives"}
    check_finite(lambda **inputs: stepwise(**inputs).sum(), tensors, 0.0)


def test_what_stands_in_empty_places_is_never_read():
    clean = batch()
    dirty = clean | {"negatives": clean["negatives"].masked_fill(~MASK[..., None], float("nan"))}

    def loss(queries, documents, negatives):
        return stepwise(queries, documents, negatives=Negatives(negatives, MASK), temperature=0.3).sum()

    found = check_finite(loss, dirty, loss(**clean).item())
    assert found["negatives"][:, ~MASK].eq(0).all()
    assert found["negatives"][:, MASK].ne(0).all()


def test_a_tiny_loss_keeps_its_digits():
    queries = torch.eye(2, dtype=torch.float64)[None]
    exact = stepwise(queries, queries).item()
    assert 0 < exact < 1e-20
    assert stepwise(queries.float(), queries.float()).item() == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([3.0, 2.0, 1.0], 0.0),
        ([1.0, e, 1.0], 0.5),
        ([1.0, e, e**3], 1.5),
        ([2.0], 0.0),
        ([0.0, 0.0], 0.0),
        ([0.0, 1e-6], log(100)),
        ([1.0, 0.0, 1e-9, 1.0], log(1e8) / 3),
    ],
)
def test_refinement_by_hand(steps, expected):
    assert slow.refinement(steps) == pytest.approx(expected)
    check_finite(lambda steps: refinement(steps), {"steps": torch.tensor(steps)}, expected)
