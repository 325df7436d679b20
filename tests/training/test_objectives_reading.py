from collections import Counter
from itertools import pairwise

import pytest
import torch
from objective_checks import EVERY, ROWS, learner, prompt
from training_models import gradients

from retriever.training.objectives import reading
from retriever.training.objectives.base import BatchSettings, Keys, TextBatches
from retriever.training.objectives.reading import (
    Prompts,
    backward,
    in_order,
    pieces,
    separate_pieces,
)
from retriever.training.passes import student_states
from retriever.training.prompt_batches import SeparatePrompts, SharedPrompts


def keys(texts=40, questions=3, sources=2, answers=12):
    """Every text with some questions, each with its own answers."""
    return [
        Keys(f"source {text % sources}", f"text {text}", (question, text % answers))
        for text in range(texts)
        for question in range(1 + text % questions)
    ]


def batches(rows, *, epoch=0, seed=5, **settings):
    return TextBatches(rows, BatchSettings(**{"texts": 6, "questions": 2, **settings}), seed)(epoch)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("texts", [2, 6, 100])
def test_every_row_comes_once_an_epoch(texts, paired):
    rows = keys()
    found = batches(rows, texts=texts, paired=paired)
    assert sorted(row for batch in found for row in batch) == [*range(len(rows))]
    assert all(found)


@pytest.mark.parametrize("paired", [True, False])
def test_a_batch_is_of_one_source_and_no_larger_than_asked(paired):
    rows = keys()
    for batch in batches(rows, paired=paired):
        assert len({rows[row].source for row in batch}) == 1
        assert len(batch) <= 6 * 2
        assert len({rows[row].text for row in batch}) <= 6


def test_the_questions_of_a_text_stand_side_by_side():
    rows = keys(questions=5)
    for batch in batches(rows, questions=10):
        texts = [rows[row].text for row in batch]
        changes = sum(one != other for one, other in pairwise(texts))
        assert changes == len(set(texts)) - 1
    whole = Counter(text for batch in batches(rows, questions=10) for text in {rows[row].text for row in batch})
    assert set(whole.values()) == {1}


def test_a_text_with_many_questions_comes_in_parts():
    rows = [Keys("s", "one", number) for number in range(7)] + [Keys("s", f"text {n}", n) for n in range(7, 27)]
    parts = []
    for batch in batches(rows, questions=3, texts=2):
        runs = "".join("1" if rows[row].text == "one" else " " for row in batch).split()
        parts += map(len, runs)
    assert sum(parts) == 7


def share_with_a_positive(rows, found):
    with_one = 0
    for batch in found:
        for row in batch:
            same = [
                other for other in batch if rows[other].same == rows[row].same and rows[other].text != rows[row].text
            ]
            with_one += bool(same)
    return with_one / len(rows)


def test_pairing_raises_the_share_of_rows_with_a_positive():
    rows = [Keys("s", f"text {text}", text % 100) for text in range(400)]
    apart, paired = (share_with_a_positive(rows, batches(rows, texts=16, paired=one)) for one in (False, True))
    assert apart < 0.25
    assert paired > 0.9


def test_any_of_a_text_s_questions_may_find_the_partner():
    rows = [
        Keys("s", f"text {text}", ("shared", text // 2) if question == text % 3 else ("own", text, question))
        for text in range(80)
        for question in range(3)
    ]
    assert share_with_a_positive(rows, batches(rows, texts=8, questions=3)) == pytest.approx(1 / 3)


def test_a_text_is_not_its_own_partner():
    rows = [Keys("s", text, text.upper()[0]) for text in ("a one", "a two", "b one", "b two") for _ in range(2)]
    for seed in range(10):
        for batch in batches(rows, seed=seed, texts=2, questions=1):
            first, second = (rows[row] for row in batch)
            assert first.same == second.same
            assert first.text != second.text


def test_seed_and_epoch_alone_decide():
    rows = keys()
    maker = TextBatches(rows, BatchSettings(texts=6), 5)
    first = maker(0)
    assert maker(1) != first
    assert maker(0) == first == TextBatches(rows, BatchSettings(texts=6), 5)(0)
    assert TextBatches(rows, BatchSettings(texts=6), 6)(0) != first


TEXTS = [one.text for one in ROWS]
ASKED = [one.instruction for one in ROWS]
CASES = [("llama", "input-first"), ("llama", "instruct-query"), ("mistral", "input-first")]


def read(one, *, tail):
    return pieces(one, TEXTS, ASKED, tail=tail)


@pytest.mark.parametrize("budget", [1, 100, 2048])
@pytest.mark.parametrize(("name", "template"), CASES)
def test_pieces_hold_every_row_once_and_stay_within_the_budget(tiny, monkeypatch, name, template, budget):
    monkeypatch.setattr(reading, "PIECE_TOKENS", budget)
    one = learner(tiny(name), template)
    found = read(one, tail=2)
    assert sorted(row for piece in found for row in piece.rows) == [*EVERY]
    for piece in found:
        texts = {TEXTS[row] for row in piece.rows}
        assert piece.tokens <= budget or len(texts) == 1
        assert piece.prompts.size == len(piece.rows)
        assert width(piece.prompts) <= piece.tokens
    expected = {1: len(set(TEXTS)), 2048: 1}
    assert len(found) == expected.get(budget, len(found))
    kind = SharedPrompts if (name, template) == CASES[0] else SeparatePrompts
    assert {type(piece.prompts) for piece in found} == {kind}


def width(prompts):
    """Tokens that a pass really reads, with padding, and two more behind every prompt."""
    if isinstance(prompts, SeparatePrompts):
        return len(prompts.rows) * (max(map(len, prompts.rows)) + 2)
    lines = [len(one.trunk) + sum(len(branch) + 2 for branch in one.branches) for one in prompts.groups]
    return len(lines) * max(lines)


@pytest.mark.parametrize("budget", [1, 150])
@pytest.mark.parametrize(("name", "template"), CASES)
def test_pieces_give_the_states_of_prompts_read_alone(tiny, monkeypatch, name, template, budget):
    monkeypatch.setattr(reading, "PIECE_TOKENS", budget)
    one = learner(tiny(name), template, look_ahead=2)
    found = read(one, tail=2)
    states = [student_states(one.adapted, piece.prompts) for piece in found]
    last, tail = (in_order(found, torch.cat([getattr(each, part) for each in states])) for part in ("last", "tail"))
    for row in EVERY:
        expected = student_states(one.adapted, prompt(one, TEXTS[row], ASKED[row]))
        assert torch.allclose(last[row], expected.last[0], atol=1e-5)
        assert torch.allclose(tail[row], expected.tail[0], atol=1e-5)


def test_separate_pieces_hold_every_prompt_once_the_shortest_first(monkeypatch):
    monkeypatch.setattr(reading, "PIECE_TOKENS", 14)
    rows = [[1] * 9, [2], [3] * 4, [4] * 2]
    found = separate_pieces(SeparatePrompts(rows), tail=2)
    assert [(piece.rows, piece.tokens) for piece in found] == [([1, 3], 8), ([2], 6), ([0], 11)]
    assert [piece.prompts.rows for piece in found] == [[rows[1], rows[3]], [rows[2]], [rows[0]]]
    restored = in_order(found, torch.tensor([[1.0], [3.0], [2.0], [0.0]]))
    assert restored.flatten().tolist() == [0, 1, 2, 3]


def test_equal_prompts_get_one_place():
    prompts = Prompts()
    asked = [("a", "mood"), ("b", "mood"), ("a", " mood\n"), ("a", ""), ("b", "mood")]
    assert [prompts.place(*one) for one in asked] == [0, 1, 0, 2, 1]
    assert (prompts.texts, prompts.instructions) == (["a", "b", "a"], ["mood", "mood", ""])


def spread(states):
    """Every row against every other."""
    return torch.cdist(states, states).sum() + states.sin().sum()


@pytest.mark.parametrize(("held", "passes"), [(10**6, 1), (1, 2)])
def test_beyond_the_held_tokens_everything_is_read_twice_with_the_same_gradients(tiny, monkeypatch, held, passes):
    monkeypatch.setattr(reading, "PIECE_TOKENS", 150)
    one = learner(tiny("llama"))
    found, seen = read(one, tail=0), []

    def encode(piece):
        seen.append(piece)
        return {"last": student_states(one.adapted, piece.prompts).last}

    value = backward(encode, found, lambda outputs: spread(in_order(found, outputs["last"])), held_tokens=held)
    cached = gradients(one.adapted)
    assert len(seen) == passes * len(found) > 1
    alone = [prompt(one, *row) for row in zip(TEXTS, ASKED, strict=True)]
    expected = spread(torch.cat([student_states(one.adapted, row).last for row in alone]))
    expected.backward()
    assert not value.requires_grad
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    for name, gradient in gradients(one.adapted).items():
        assert torch.allclose(cached[name], gradient, atol=1e-4, rtol=2e-3), name


def test_the_last_piece_that_fits_is_read_once():
    weight = torch.nn.Parameter(torch.tensor(2.0))
    found = separate_pieces(SeparatePrompts([[1] * 1500, [2] * 1500]), tail=0)
    seen = []

    def encode(piece):
        seen.append(piece)
        return {"sum": weight * torch.tensor([float(row) for row in piece.rows])}

    for held, reads in [(3000, 2), (2999, 4)]:
        seen.clear()
        backward(encode, found, lambda outputs: outputs["sum"].sum(), held_tokens=held)
        assert len(seen) == reads
