import pytest
import torch

from retriever.core.errors import UsageError
from retriever.core.words import STOPWORDS
from retriever.encoders.inbedder import Generated, generate

TEXTS = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "", "a sharp knife that is dull " * 4]
INSTRUCTION = "what kind of product"
CAUSAL = {"llama": "input-first", "mistral": "instruct-query", "qwen3": "input-first"}
GENERATING = ["avg-gen", "last-gen", "avg-all", "avg-gen+filter", "last-gen+filter"]


def banned_ids(slow, instruction):
    banned = set()
    for text in (instruction, " " + instruction, "based on the", "Based on the"):
        banned |= set(slow.ids(text))
    for word in STOPWORDS:
        banned |= {slow.ids(form)[0] for form in (word, " " + word, " " + word.capitalize())}
    return banned


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
    banned = banned_ids(slow(name), INSTRUCTION)
    for text, vector in zip(TEXTS, vectors, strict=True):
        expected = slow(name).inbedder(text, INSTRUCTION, pooling, banned=banned, template=template)
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
    banned = banned_ids(slow(name), INSTRUCTION)
    for text, vector in zip(TEXTS, vectors, strict=True):
        expected = slow(name).inbedder(text, INSTRUCTION, pooling, steps=4, banned=banned)
        assert vector == pytest.approx(expected, abs=1e-5)


def test_an_answer_that_ends_at_once_leaves_h_n(make, slow, backbone, monkeypatch):
    reference, tokenizer = slow("llama"), backbone("llama").tokenizer
    first = reference.greedy(reference.prompt("the toy", INSTRUCTION), 1)
    monkeypatch.setattr(tokenizer, "special_ids", tokenizer.special_ids | set(first))
    last = make("inbedder", "llama").encode(["the toy"], instruction=INSTRUCTION)
    for pooling in ("avg-gen", "last-gen", "avg-gen+filter", "last-gen+filter"):
        vectors = make("inbedder", "llama", pooling=pooling).encode(["the toy"], instruction=INSTRUCTION)
        assert vectors == pytest.approx(last, abs=1e-5)


def test_generated_tokens_are_the_greedy_ones(make, slow):
    encoder = make("inbedder", "llama", pooling="avg-gen", steps=3)
    seen = []
    encoder.read = lambda prompted, *, answers: (
        seen.append((prompted.texts, generate(encoder.backbone, prompted, 3))),
        type(encoder).read(encoder, prompted, answers=answers),
    )[1]
    encoder.encode(TEXTS[:3], instruction=INSTRUCTION)
    for texts, generated in seen:
        for text, ids, real in zip(texts, generated.ids.tolist(), generated.real.tolist(), strict=True):
            expected = slow("llama").greedy(slow("llama").prompt(text, INSTRUCTION), 3)
            assert ids[: len(expected)] == expected
            assert real == [True] * (len(expected) + 1) + [False] * (3 - len(expected))


def filtered(encoder, instruction, answers, real):
    states = torch.arange(4.0).reshape(1, 4, 1).expand(len(answers), 4, 1)
    return encoder._filtered(Generated(torch.tensor(answers), states, torch.tensor(real)), instruction).tolist()


def test_filter_drops_states_that_predict_instruction_stopword_or_stock_phrase(make):
    encoder = make("inbedder", "llama", pooling="avg-gen+filter")
    toy, the, based, knife = map(encoder.backbone.tokenizer.piece, (" toy", " of", "Based", " knife"))
    assert [len(piece) for piece in (toy, the, knife)] == [1, 1, 1]
    toy, the, based, knife = toy[0], the[0], based[0], knife[0]
    everything = [True] * 4
    # The state before a token predicts it: h_N predicts the first one, the last state predicts nothing.
    assert filtered(encoder, "mood", [[toy, the, knife]], [everything]) == [[True, False, True, False]]
    assert filtered(encoder, "what toy", [[toy, the, knife]], [everything]) == [[False, False, True, False]]
    assert filtered(encoder, "mood", [[based, knife, toy]], [everything]) == [[False, True, True, False]]


def test_filter_falls_back_to_h_n_when_nothing_is_left(make):
    encoder = make("inbedder", "llama", pooling="avg-gen+filter")
    toy, the = (encoder.backbone.tokenizer.piece(word)[0] for word in (" toy", " of"))
    assert filtered(encoder, "mood", [[the, the, the]], [[True] * 4]) == [[True, False, False, False]]
    # Only what came before the end of the answer counts.
    ended = [[True, False, False, False], [True, True, False, False]]
    assert filtered(encoder, "mood", [[toy, toy, toy], [toy, toy, toy]], ended) == [
        [True, False, False, False],
        [True, False, False, False],
    ]
    assert filtered(encoder, "toy", [[toy, the, toy]], [[True] * 4]) == [[True, False, False, False]]


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
