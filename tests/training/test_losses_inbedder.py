from functools import partial

import loss_references as slow
import pytest
import torch
from loss_checks import booleans, check, check_finite, draw

from retriever.training.losses.inbedder import masked_token, next_token, predicted, predicting
from retriever.training.losses.tokens import mean_cross_entropy

IDS = torch.tensor([[0, 1, 2, 3, 4], [5, 5, 4, 1, 0], [3, 0, 0, 2, 1]])
LEFT_PADDED = booleans([0, 0, 0, 1, 1], [0, 0, 0, 0, 1], [0, 0, 1, 1, 1])
RIGHT_PADDED = booleans([0, 0, 1, 1, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0])
FROM_THE_START = booleans([1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0])
NONE = torch.zeros(3, 5, dtype=torch.bool)
MASKS = pytest.mark.parametrize(
    "answer", [LEFT_PADDED, RIGHT_PADDED, FROM_THE_START, NONE], ids=["left", "right", "from-the-start", "none"]
)


@MASKS
def test_next_token_equals_the_reference(answer):
    check(
        lambda logits: next_token(logits, IDS, answer),
        partial(slow.next_token, ids=IDS.tolist(), answer=answer.tolist()),
        {"logits": draw(3, 5, 6)},
    )


@MASKS
def test_logits_at_the_predicting_positions_are_enough(answer):
    logits, kept = draw(3, 5, 6), answer.clone()
    fewer = mean_cross_entropy(logits[predicting(answer)], predicted(IDS, answer))
    assert fewer.item() == next_token(logits, IDS, answer).item()
    assert torch.equal(answer, kept)


def test_positions_and_tokens_by_hand():
    assert predicting(LEFT_PADDED).int().tolist() == [[0, 0, 1, 1, 0], [0, 0, 0, 1, 0], [0, 1, 1, 1, 0]]
    assert predicted(IDS, LEFT_PADDED).tolist() == [3, 4, 0, 0, 2, 1]


def test_a_model_that_knows_the_answer_pays_nothing():
    logits = torch.full((1, 4, 6), -50.0)
    ids = torch.tensor([[0, 1, 2, 3]])
    logits[0, 1, 2] = logits[0, 2, 3] = 50.0
    assert next_token(logits, ids, booleans([0, 0, 1, 1])).item() == 0
    assert masked_token(logits, ids.roll(-1), booleans([0, 1, 1, 0])).item() == 0
    assert next_token(logits, ids, booleans([0, 1, 1, 1])).item() > 0


@MASKS
def test_masked_token_equals_the_reference(answer):
    check(
        lambda logits: masked_token(logits, IDS, answer),
        partial(slow.cross_entropy, answers=IDS.tolist(), mask=answer.tolist()),
        {"logits": draw(3, 5, 6)},
    )


@pytest.mark.parametrize("loss", [next_token, masked_token])
def test_prompt_and_padding_are_never_read(loss):
    logits = draw(3, 5, 6)
    read = predicting(RIGHT_PADDED) if loss is next_token else RIGHT_PADDED
    dirty = logits.masked_fill(~read.unsqueeze(-1), float("nan"))
    ids = torch.where(RIGHT_PADDED, IDS, -100)
    found = check_finite(
        lambda logits: loss(logits, ids, RIGHT_PADDED), {"logits": dirty}, loss(logits, IDS, RIGHT_PADDED).item()
    )
    assert found["logits"][~read].eq(0).all()


def test_every_answer_token_counts_the_same():
    logits = draw(3, 5, 6)
    parts = [next_token(logits[i : i + 1], IDS[i : i + 1], LEFT_PADDED[i : i + 1]).item() for i in range(3)]
    expected = (2 * parts[0] + 1 * parts[1] + 3 * parts[2]) / 6
    assert next_token(logits, IDS, LEFT_PADDED).item() == pytest.approx(expected)
