import pytest
import torch
from slow_reference import Recorder

from retriever.core.errors import UsageError
from retriever.encoders.run import PromptRun

TEXTS = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "", "a sharp knife that is dull " * 4]
INSTRUCTION = "what kind of product"
STEPS = 6


@pytest.mark.parametrize("template", ["input-first", "instruct-query"])
@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2"])
def test_every_z_equals_the_reference(make, slow, name, template):
    steps = make("gircse", name, steps=STEPS, template=template).encode_steps(TEXTS, instruction=INSTRUCTION)
    assert len(steps) == STEPS
    for i, text in enumerate(TEXTS):
        expected, _ = slow(name).gircse(text, INSTRUCTION, STEPS, template)
        for k in range(STEPS):
            assert steps[k][i] == pytest.approx(expected[k], abs=1e-5)


@pytest.mark.parametrize("steps", [1, 3, 5])
def test_a_direct_run_equals_its_step_of_a_longer_run(make, slow, steps):
    longer = make("gircse", "llama", steps=STEPS).encode_steps(TEXTS, instruction=INSTRUCTION)
    direct = make("gircse", "llama", steps=steps).encode(TEXTS, instruction=INSTRUCTION)
    assert direct == pytest.approx(longer[steps - 1], abs=1e-5)
    assert abs(direct - longer[steps]).max() > 1e-3
    expected, _ = slow("llama").gircse(TEXTS[1], INSTRUCTION, steps)
    assert direct[1] == pytest.approx(expected[-1], abs=1e-5)


def test_five_steps_are_the_default(make):
    encoder = make("gircse", "llama")
    assert encoder.steps == 5
    explicit = make("gircse", "llama", steps=5).encode(TEXTS[:2])
    assert encoder.encode(TEXTS[:2]) == pytest.approx(explicit, abs=1e-6)
    assert encoder.reconfigured(steps=2).steps == 2


def test_steps_of_no_texts(make):
    steps = make("gircse", "llama", steps=3).encode_steps([])
    assert [step.shape for step in steps] == [(0, 32)] * 3


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


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2"])
def test_who_stops_at_a_step_has_read_the_prompt_once_and_run_no_further(make, name, monkeypatch):
    encoder = make("gircse", name, steps=STEPS)
    passes = []
    extend = PromptRun.extend

    def counted(run, embeddings):
        passes.append(tuple(embeddings.shape[:2]))
        return extend(run, embeddings)

    monkeypatch.setattr(PromptRun, "extend", counted)
    ((rows, walk),) = encoder.encode_stepwise(TEXTS, instruction=INSTRUCTION)
    taken = [next(walk) for _ in range(3)]
    assert sorted(rows) == list(range(len(TEXTS)))
    assert passes[1:] == [(len(TEXTS), 1)] * 3
    assert passes[0][1] > 1
    monkeypatch.undo()
    for k, vectors in enumerate(taken, start=1):
        direct = make("gircse", name, steps=k).encode(TEXTS, instruction=INSTRUCTION)
        assert vectors == pytest.approx(direct[rows], abs=1e-5)


def test_no_steps_are_refused(make):
    with pytest.raises(UsageError, match="steps is 0; GIRCSE needs at least 1"):
        make("gircse", "llama", steps=0)
