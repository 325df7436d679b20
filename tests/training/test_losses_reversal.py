from functools import partial

import loss_references as slow
import pytest
import torch
from loss_checks import check, check_finite, draw

from retriever.training.losses.reversal import GridCells, reversal

# Question a parts the texts by halves, b by odd and even; c asks two of them only, and one row of a comes twice.
QUESTIONS = ["a", "a", "a", "a", "b", "b", "b", "b", "c", "c", "a"]
TEXTS = ["1", "2", "3", "4", "1", "2", "3", "4", "1", "2", "1"]
ANSWERS = ["x", "x", "y", "y", "x", "z", "x", "z", "x", "y", "y"]


def numbered():
    found = {}
    for row, (question, text, answer) in enumerate(zip(QUESTIONS, TEXTS, ANSWERS, strict=True)):
        found.setdefault(question, {}).setdefault(text, (row, answer))
    return found


def test_reversal_equals_the_reference():
    cells = GridCells.of(QUESTIONS, TEXTS, ANSWERS)
    for temperature in (0.1, 0.7):
        value = check(
            lambda vectors, temperature=temperature: reversal(vectors, cells, temperature=temperature),
            partial(slow.reversal, cells=numbered(), tau=temperature),
            {"vectors": draw(11, 3)},
        )
        assert value > 0


def test_cells_know_what_is_missing_and_count_the_first_of_two_rows():
    cells = GridCells.of(QUESTIONS, TEXTS, ANSWERS)
    assert cells.rows.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, -1, -1]]
    assert cells.answers.tolist() == [[0, 0, 1, 1], [0, 2, 0, 2], [0, 1, -1, -1]]


@pytest.mark.parametrize("seed", range(5))
def test_vectors_that_ignore_the_question_cannot_go_below_the_chance_of_either(seed):
    cells = GridCells.of(QUESTIONS, TEXTS, ANSWERS)
    texts = torch.tensor([int(text) - 1 for text in TEXTS])
    vectors = draw(4, 3, seed=seed).requires_grad_()
    optimizer = torch.optim.Adam([vectors], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        loss = reversal(vectors[texts], cells, temperature=0.1)
        loss.backward()
        optimizer.step()
    assert loss.item() > 0.69  # log 2 where all are as near


def test_vectors_of_text_and_question_can():
    cells = GridCells.of(QUESTIONS, TEXTS, ANSWERS)
    vectors = torch.eye(4)[torch.tensor([0, 0, 1, 1, 2, 3, 2, 3, 0, 0, 0])]
    assert reversal(vectors, cells, temperature=0.1).item() < 1e-4


@pytest.mark.parametrize(("questions", "texts"), [("aab", "121"), ("abc", "111"), ("aaa", "123"), ("", "")])
def test_without_a_reversal_the_loss_is_nothing(questions, texts):
    cells = GridCells.of(list(questions), list(texts), list(texts))
    check_finite(lambda vectors: reversal(vectors, cells, temperature=0.1), {"vectors": draw(3, 4)}, 0.0)
