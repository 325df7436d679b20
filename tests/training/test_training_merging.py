import pytest
import torch
from training_models import INSTRUCTIONS, TEXTS, gradients, model, tokeniser

from retriever.training import decoder
from retriever.training.decoder import causal_blocks
from retriever.training.merging import merged
from retriever.training.passes import soft_token_states, student_states, teacher_states


def total(every):
    """One number of every state, so that no gradient is the same everywhere."""
    weights = torch.linspace(-1, 1, every.numel()).reshape(every.shape)
    return (every * weights).sum()


def read(adapted, **options):
    states = student_states(adapted, tokeniser(adapted).separate(TEXTS, INSTRUCTIONS), **options)
    return total(torch.cat([states.last.unsqueeze(1), states.tail], dim=1))


def read_together(adapted):
    """Two questions of each text in one pass, which takes a mask of its own."""
    asked = [[one, other] for one, other in zip(INSTRUCTIONS, INSTRUCTIONS[::-1], strict=True)]
    states = student_states(adapted, tokeniser(adapted).shared(TEXTS, asked))
    return total(torch.cat([states.last.unsqueeze(1), states.tail], dim=1))


def read_on(adapted):
    return total(soft_token_states(adapted, tokeniser(adapted).separate(TEXTS, INSTRUCTIONS), steps=3))


@pytest.fixture
def whole(monkeypatch):
    """The decoder layers that were read without padding."""
    seen = []
    real = decoder._Layer.apply
    monkeypatch.setattr(decoder._Layer, "apply", lambda *inputs: seen.append(1) or real(*inputs))
    return seen


@pytest.mark.parametrize(
    ("name", "settings", "reading", "layers"),
    [
        ("llama", {}, read, 2),
        ("llama", {}, read_together, 2),
        ("llama", {}, read_on, 0),
        ("llama", {"projections": ("k_proj", "up_proj", "v_proj")}, read, 0),
        ("llama", {"layers": 1}, read, 2),
        ("mistral", {}, read, 0),
    ],
    ids=["padded", "together", "cached", "some-projections", "one-layer", "mistral"],
)
def test_merged_weights_give_the_value_and_the_gradients_of_the_factors(tiny, whole, name, settings, reading, layers):
    adapted = model(tiny(name), look_ahead=2, **settings)
    value = reading(adapted)
    value.backward()
    plain = gradients(adapted)
    with merged(adapted.backbone):
        again = reading(adapted)
        again.backward()
    assert len(whole) == layers
    torch.testing.assert_close(again, value, rtol=1e-5, atol=1e-5)
    for name, gradient in gradients(adapted).items():
        if plain[name] is None:
            assert gradient is None
            continue
        assert gradient.abs().max() > 0, name
        assert gradient.dtype == torch.float32
        torch.testing.assert_close(gradient, plain[name], rtol=1e-4, atol=1e-5 * max(1.0, float(gradient.abs().max())))


def test_in_bfloat16_gradients_are_no_less_exact_than_those_of_the_factors(tiny, whole):
    exact = model(tiny("llama"), look_ahead=2)
    read_together(exact).backward()
    slopes = gradients(exact)
    adapted = model(tiny("llama"), dtype="bfloat16", look_ahead=2)

    def distance():
        found = gradients(adapted)
        assert {one.dtype for one in found.values()} == {torch.float32}
        return sum(float((found[name] - slope).square().sum()) for name, slope in slopes.items()) ** 0.5

    read_together(adapted).backward()
    plain = distance()
    with merged(adapted.backbone):
        read_together(adapted).backward()
    assert len(whole) == 2
    size = sum(float(slope.square().sum()) for slope in slopes.values()) ** 0.5
    assert distance() < 1.2 * plain + 1e-3 * size


def test_below_the_trained_layers_nothing_is_kept_for_gradients(tiny):
    kept = {True: 0, False: 0}
    for trained in kept:
        adapted = model(tiny("llama"), look_ahead=2, layers=1, train_look_ahead=trained)

        def keep(tensor, trained=trained):
            kept[trained] += tensor.numel()
            return tensor

        with merged(adapted.backbone), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            read(adapted)
    assert kept[False] < 0.7 * kept[True]


def test_sequences_lie_one_behind_the_other_and_those_of_one_length_together():
    blocks = causal_blocks([2, 2, 3], torch.float32, torch.device("cpu"))
    assert [(one.first, one.count, one.length) for one in blocks] == [(0, 2, 2), (4, 1, 3)]
    assert (blocks[1].hidden[0, 0] == 0).tolist() == [[True, False, False], [True, True, False], [True] * 3]
    assert (blocks[1].places, blocks[0].hidden.shape) == (slice(4, 7), (1, 1, 2, 2))


def test_the_teacher_inside_is_the_untrained_model(tiny):
    adapted = model(tiny("llama"), look_ahead=2)
    prompts = tokeniser(adapted).separate(TEXTS, INSTRUCTIONS)
    answers = [[5, 6]] * len(TEXTS)
    outside = teacher_states(adapted, prompts, answers, length=2)
    with merged(adapted.backbone):
        inside = teacher_states(adapted, prompts, answers, length=2)
    assert torch.equal(inside.last, outside.last)
    assert torch.equal(inside.tail, outside.tail)


def test_a_pass_with_dropout_reads_with_the_factors(tiny):
    adapted = model(tiny("llama"), look_ahead=2)
    torch.manual_seed(0)
    outside = read(adapted, dropout=0.5)
    with merged(adapted.backbone):
        torch.manual_seed(0)
        inside = read(adapted, dropout=0.5)
    assert torch.equal(inside, outside)
    assert not torch.equal(inside, read(adapted))


def test_afterwards_the_factors_are_read_again_even_when_the_block_fails(tiny):
    adapted = model(tiny("llama"), look_ahead=2)
    with pytest.raises(ZeroDivisionError), merged(adapted.backbone):
        read(adapted).backward()
        _ = 1 / 0
    before = read(adapted).detach()
    with torch.no_grad():
        for parameter in adapted.parameters.values():
            parameter.mul_(2)
    assert not torch.allclose(read(adapted), before)


def test_in_bfloat16_it_reads_as_the_merged_checkpoint_will(tiny):
    adapted = model(tiny("llama"), dtype="bfloat16", look_ahead=2)
    with torch.no_grad(), merged(adapted.backbone):
        inside = read(adapted)
    adapted.peft.merge_adapter(safe_merge=True)
    with torch.no_grad():
        torch.testing.assert_close(read(adapted), inside, rtol=2e-2, atol=0.5)
