import pytest
import torch
from slow_reference import Recorder

from retriever.core.errors import UsageError

TEXTS = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "", "a sharp knife that is dull " * 4]
INSTRUCTION = "what kind of product"
STEPS = 6


@pytest.mark.parametrize("template", ["input-first", "instruct-query"])
@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2"])
def test_every_z_equals_the_reference(make, slow, name, template):
    encoder = make("gircse", name, steps=STEPS, template=template)
    each = [encoder.reconfigured(steps=k) for k in range(1, STEPS + 1)]
    steps = [one.encode(TEXTS, instruction=INSTRUCTION) for one in each]
    assert abs(steps[0] - steps[-1]).max() > 1e-3
    for i, text in enumerate(TEXTS):
        expected, _ = slow(name).gircse(text, INSTRUCTION, STEPS, template)
        for k in range(STEPS):
            assert steps[k][i] == pytest.approx(expected[k], abs=1e-5)


def test_five_steps_are_the_default(make):
    encoder = make("gircse", "llama")
    assert encoder.steps == 5
    explicit = make("gircse", "llama", steps=5).encode(TEXTS[:2])
    assert encoder.encode(TEXTS[:2]) == pytest.approx(explicit, abs=1e-6)
    assert encoder.reconfigured(steps=2).steps == 2


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_answers_are_the_soft_tokens_averaged_over_the_steps(make, slow, name):
    encoder = make("gircse", name, steps=3)
    recorder = encoder._words = Recorder()
    encoded = encoder.encode_with_words(["the toy broke"], instruction=INSTRUCTION)
    vectors, said = slow(name).gircse("the toy broke", INSTRUCTION, 3)
    _, prior = slow(name).gircse("", INSTRUCTION, 3)
    assert torch.allclose(recorder.answers[0][0], said, atol=1e-5)
    assert torch.allclose(recorder.priors[0][0], prior, atol=1e-5)
    assert encoded.embeddings[0] == pytest.approx(vectors[-1], abs=1e-5)


def test_no_steps_are_refused(make):
    with pytest.raises(UsageError, match="steps is 0; GIRCSE needs at least 1"):
        make("gircse", "llama", steps=0)
