import pytest

from retriever.core.errors import UsageError

TEXTS = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "", "a sharp knife that is dull " * 4]
INSTRUCTION = "what kind of product"
CAUSAL = {"llama": "input-first", "mistral": "instruct-query", "qwen3": "input-first"}
GENERATING = ["avg-gen", "last-gen", "avg-all"]


@pytest.mark.parametrize("pooling", ["last", "mean"])
@pytest.mark.parametrize(("name", "template"), CAUSAL.items())
def test_plain_equals_the_reference(make, slow, name, pooling, template):
    vectors = make("plain", name, pooling=pooling, template=template).encode(TEXTS, instruction=INSTRUCTION)
    for text, vector in zip(TEXTS, vectors, strict=True):
        expected = slow(name).plain(text, INSTRUCTION, pooling, template)
        assert vector == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("pooling", ["1st-gen", "avg-ppt", *GENERATING])
@pytest.mark.parametrize(("name", "template"), CAUSAL.items())
def test_inbedder_equals_the_reference(make, slow, name, pooling, template):
    vectors = make("inbedder", name, pooling=pooling, template=template).encode(TEXTS, instruction=INSTRUCTION)
    for text, vector in zip(TEXTS, vectors, strict=True):
        expected = slow(name).inbedder(text, INSTRUCTION, pooling, template=template)
        assert vector == pytest.approx(expected, abs=1e-5)


@pytest.fixture
def ending(slow, backbone, monkeypatch):
    # Make one answer's second token an end token, so that this answer has one token and others go on.
    def use(name):
        reference, tokenizer = slow(name), backbone(name).tokenizer
        answers = {text: reference.greedy(reference.prompt(text, INSTRUCTION), 4) for text in TEXTS}
        second = next(a[1] for a in answers.values() if len(a) == 4 and a[1] != a[0])
        monkeypatch.setattr(tokenizer, "special_ids", tokenizer.special_ids | {second})
        monkeypatch.setattr(reference, "ends", reference.ends | {second})
        return [reference.greedy(reference.prompt(text, INSTRUCTION), 4) for text in TEXTS]

    return use


@pytest.mark.parametrize("pooling", GENERATING)
@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_states_behind_the_end_of_an_answer_are_left_out(make, slow, ending, name, pooling):
    lengths = {len(answer) for answer in ending(name)}
    assert len(lengths) > 1
    vectors = make("inbedder", name, pooling=pooling, steps=4).encode(TEXTS, instruction=INSTRUCTION)
    for text, vector in zip(TEXTS, vectors, strict=True):
        expected = slow(name).inbedder(text, INSTRUCTION, pooling, steps=4)
        assert vector == pytest.approx(expected, abs=1e-5)


def test_an_answer_that_ends_at_once_leaves_h_n(make, slow, backbone, monkeypatch):
    reference, tokenizer = slow("llama"), backbone("llama").tokenizer
    first = reference.greedy(reference.prompt("the toy", INSTRUCTION), 1)
    monkeypatch.setattr(tokenizer, "special_ids", tokenizer.special_ids | set(first))
    last = make("inbedder", "llama").encode(["the toy"], instruction=INSTRUCTION)
    for pooling in ("avg-gen", "last-gen"):
        vectors = make("inbedder", "llama", pooling=pooling).encode(["the toy"], instruction=INSTRUCTION)
        assert vectors == pytest.approx(last, abs=1e-5)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_steps_is_the_number_of_generated_tokens(make, slow, steps):
    vectors = make("inbedder", "llama", pooling="avg-gen", steps=steps).encode(TEXTS, instruction=INSTRUCTION)
    expected = slow("llama").inbedder(TEXTS[1], INSTRUCTION, "avg-gen", steps=steps)
    assert vectors[1] == pytest.approx(expected, abs=1e-5)


def test_what_cannot_be_is_refused(make):
    with pytest.raises(UsageError, match=r"inbedder has no pooling 'mean'\. Known: 1st-gen, avg-gen"):
        make("inbedder", "llama", pooling="mean")
    with pytest.raises(UsageError, match="steps is 0"):
        make("inbedder", "llama", pooling="avg-gen", steps=0)
    assert make("inbedder", "llama").steps is None
    assert make("inbedder", "llama", pooling="last-gen").steps == 3
