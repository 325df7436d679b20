import pytest
import torch
from objective_checks import EVERY, ROWS, learner, prompt
from training_models import gradients

from retriever.training.objectives import reading
from retriever.training.objectives.reading import (
    Prompts,
    add_up,
    backward,
    in_order,
    pieces,
    separate_pieces,
    together,
)
from retriever.training.passes import student_states
from retriever.training.prompt_batches import SeparatePrompts, SharedPrompts

TEXTS = [one.text for one in ROWS]
ASKED = [one.instruction for one in ROWS]
CASES = [("llama", "input-first"), ("llama", "instruct-query"), ("mistral", "input-first")]


def read(one, *, tail):
    return pieces(one, together(TEXTS, ASKED, EVERY), tail=tail)


def test_rows_of_a_text_come_together_in_order():
    asked = together(["a", "b", "a"], ["1", "2", "3"], [7, 8, 9])
    assert [(one.text, one.instructions, one.rows) for one in asked] == [("a", ["1", "3"], [7, 9]), ("b", ["2"], [8])]


@pytest.mark.parametrize("budget", [1, 100, 200, 2048])
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


@pytest.mark.parametrize("budget", [1, 150, 2048])
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
    assert len(prompts) == 3
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
        return [student_states(one.adapted, piece.prompts).last]

    value = backward(encode, found, lambda outputs: spread(in_order(found, outputs[0])), held_tokens=held)
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
        return [weight * torch.tensor([float(row) for row in piece.rows])]

    for held, reads in [(3000, 2), (2999, 4)]:
        seen.clear()
        backward(encode, found, lambda outputs: outputs[0].sum(), held_tokens=held)
        assert len(seen) == reads


def test_losses_of_pieces_add_up():
    weight = torch.nn.Parameter(torch.tensor(2.0))
    found = separate_pieces(SeparatePrompts([[1] * 2000, [2] * 2000, [3] * 2000]), tail=0)
    value = add_up(lambda piece: weight * (1 + piece.rows[0]), found)
    assert (float(value), value.requires_grad, float(weight.grad)) == (12, False, 6)
