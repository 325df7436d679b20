import pytest
import torch
from training_models import INSTRUCTIONS, TEXTS, gradients, model, tokeniser

from retriever.training.merging import merged
from retriever.training.passes import student_states, teacher_states


def read(adapted, **options):
    """One number of every state, so that no gradient is the same everywhere."""
    states = student_states(adapted, tokeniser(adapted).separate(TEXTS, INSTRUCTIONS), **options)
    every = torch.cat([states.last.unsqueeze(1), states.tail], dim=1)
    weights = torch.linspace(-1, 1, every.numel()).reshape(every.shape)
    return (every * weights).sum()


def test_merged_weights_give_the_value_and_the_gradients_of_the_factors(tiny):
    adapted = model(tiny("llama"), look_ahead=2)
    value = read(adapted)
    value.backward()
    plain = gradients(adapted)
    with merged(adapted.backbone.model):
        again = read(adapted)
        again.backward()
    torch.testing.assert_close(again, value, rtol=1e-5, atol=1e-5)
    for name, gradient in gradients(adapted).items():
        assert gradient.abs().max() > 0, name
        torch.testing.assert_close(gradient, plain[name], rtol=1e-4, atol=1e-5)


def test_gradients_add_up_over_passes_and_to_those_already_there(tiny):
    adapted = model(tiny("llama"), look_ahead=2)
    with merged(adapted.backbone.model):
        read(adapted).backward()
    once = gradients(adapted)
    for _ in range(2):
        with merged(adapted.backbone.model):
            read(adapted).backward()
            read(adapted).backward()
    for name, gradient in gradients(adapted).items():
        torch.testing.assert_close(gradient, 4 * once[name], rtol=1e-4, atol=1e-5)


def test_the_teacher_inside_is_the_untrained_model(tiny):
    adapted = model(tiny("llama"), look_ahead=2)
    prompts = tokeniser(adapted).separate(TEXTS, INSTRUCTIONS)
    answers = [[5, 6]] * len(TEXTS)
    outside = teacher_states(adapted, prompts, answers, length=2)
    with merged(adapted.backbone.model):
        inside = teacher_states(adapted, prompts, answers, length=2)
    assert torch.equal(inside.last, outside.last)
    assert torch.equal(inside.tail, outside.tail)


def test_a_pass_with_dropout_reads_with_the_factors(tiny):
    adapted = model(tiny("llama"), look_ahead=2)
    torch.manual_seed(0)
    outside = read(adapted, dropout=0.5)
    with merged(adapted.backbone.model):
        torch.manual_seed(0)
        inside = read(adapted, dropout=0.5)
    assert torch.equal(inside, outside)
    assert not torch.equal(inside, read(adapted))


def test_afterwards_the_factors_are_read_again_even_when_the_block_fails(tiny):
    adapted = model(tiny("llama"), look_ahead=2)
    with pytest.raises(ZeroDivisionError), merged(adapted.backbone.model):
        read(adapted).backward()
        _ = 1 / 0
    before = read(adapted).detach()
    with torch.no_grad():
        for parameter in adapted.parameters.values():
            parameter.mul_(2)
    assert not torch.allclose(read(adapted), before)


def test_unfrozen_layers_are_left_alone(tiny):
    adapted = model(tiny("llama"), kind="layers", layers=1)
    with merged(adapted.backbone.model):
        read(adapted).backward()
    assert all(gradient is not None for gradient in gradients(adapted).values())


def test_in_bfloat16_it_reads_as_the_merged_checkpoint_will(tiny):
    adapted = model(tiny("llama"), dtype="bfloat16", look_ahead=2)
    with torch.no_grad(), merged(adapted.backbone.model):
        inside = read(adapted)
    adapted.peft.merge_adapter(safe_merge=True)
    with torch.no_grad():
        torch.testing.assert_close(read(adapted), inside, rtol=2e-2, atol=0.5)
