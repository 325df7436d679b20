import pytest
import torch
from training_models import ANSWERS, INSTRUCTIONS, TEXTS, gradients, last_states, model, tokeniser

from retriever.training.objectives.reading import cached_backward
from retriever.training.passes import soft_token_states, teacher_states

ROWS = list(range(4))


@pytest.fixture(scope="module")
def one(tiny):
    return model(tiny("llama"))


def views(one, rows, dropout=0.0):
    """Two passes and the teacher's, as a chunk's tensors."""
    words = tokeniser(one)
    prompts = words.separate([TEXTS[i] for i in rows], [INSTRUCTIONS[i] for i in rows])
    taught = teacher_states(one, prompts, words.answers([ANSWERS[i] for i in rows]), length=2)
    last = last_states(one, prompts, dropout=dropout)
    return {"last": last, "soft": soft_token_states(one, prompts, steps=2)[:, -1], "taught": taught.last}


def contrast(states):
    """Every row against every other row of the batch: no chunk's loss stands alone."""
    anchors, positives, taught = (torch.nn.functional.normalize(one.float(), dim=-1) for one in states.values())
    logits = anchors @ positives.T / 0.1
    return torch.nn.functional.cross_entropy(logits, torch.arange(len(logits))) + (anchors - taught).square().sum()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_gradients_equal_those_of_the_whole_batch(one, size):
    plain = contrast(views(one, ROWS))
    plain.backward()
    expected = gradients(one)
    cached = cached_backward(lambda rows: views(one, rows), [ROWS[i : i + size] for i in range(0, 4, size)], contrast)
    assert not cached.requires_grad
    assert torch.allclose(cached, plain, atol=1e-5)
    for name, gradient in gradients(one).items():
        assert torch.allclose(gradient, expected[name], atol=1e-5, rtol=1e-3), name


def noisy(states):
    return contrast(states) + torch.rand(()) * states["last"].sum()


def test_random_numbers_are_those_of_one_plain_pass(one):
    torch.manual_seed(3)
    every = [views(one, [i], 0.3) for i in ROWS]
    noisy({name: torch.cat([each[name] for each in every]) for name in every[0]}).backward()
    expected, after = gradients(one), torch.rand(1)
    torch.manual_seed(3)
    cached_backward(lambda rows: views(one, rows, 0.3), [[row] for row in ROWS], noisy)
    assert torch.equal(torch.rand(1), after)
    for name, gradient in gradients(one).items():
        assert torch.allclose(gradient, expected[name], atol=1e-5, rtol=1e-3), name


def test_gradients_add_up_with_what_was_there():
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    weight.grad = torch.tensor([10.0, 10.0])
    value = cached_backward(
        lambda rows: {"out": torch.stack([weight * row for row in rows])},
        [[1.0], [2.0, 3.0]],
        lambda outputs: outputs["out"].sum() ** 2,
    )
    assert float(value) == (6 * 3) ** 2  # the rows' weights sum to 6, the parameter's to 3
    assert weight.grad.tolist() == [10 + 2 * 18 * 6] * 2


def test_chunks_may_have_outputs_of_their_own_and_some_that_the_loss_leaves_out():
    weight = torch.nn.Parameter(torch.tensor(2.0))

    def encode(rows):
        mine = {"idle": weight * torch.tensor(rows), "number": torch.tensor([0])}
        return mine | ({"used": weight * torch.tensor(rows)} if rows[0] > 1 else {"other": 10 * weight.view(1)})

    cached_backward(encode, [[1.0], [2.0], [3.0]], lambda outputs: outputs["used"].sum() + outputs["other"].sum())
    assert float(weight.grad) == 2 + 3 + 10
