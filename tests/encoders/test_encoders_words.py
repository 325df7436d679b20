import math

import pytest
import torch
from slow_reference import Recorder

from retriever.encoders.readout import WordReadout

PIECES = [
    "<s>", "Ġtoy", "ĠToy", "Toy", "toy", "Ġthe", "Ġkettle", "Ġt", "Ġ12", "Ċ", "Ġknife", "ĠcafÃ©", "Ġisn't",
    "Ġlong-life", "Ġkett",
]  # fmt: skip
FLAT = [1 / len(PIECES)] * len(PIECES)


def reader(pieces=PIECES):
    return WordReadout(pieces, {0}, torch.device("cpu"))


def read(answers, top=5, prior=FLAT, pieces=PIECES):
    return reader(pieces).read(torch.tensor(answers), top, prior=torch.tensor([prior]))


def answer(**weights):
    return [weights.get(f"t{i}", 0.0) for i in range(len(PIECES))]


def test_tokens_that_begin_a_word_are_words_and_nothing_else_is():
    known = dict(zip(PIECES, reader().vocabulary, strict=True))
    assert known == {
        "<s>": None, "Ġtoy": "toy", "ĠToy": "toy", "Toy": "toy", "toy": None, "Ġthe": None, "Ġkettle": "kettle",
        "Ġt": None, "Ġ12": None, "Ċ": None, "Ġknife": "knife", "ĠcafÃ©": None, "Ġisn't": None,
        "Ġlong-life": "long-life", "Ġkett": "kett",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["▁toy", "toy", "▁Kettle", "▁"], ["toy", None, "kettle", None]),
        (["toy", "##toy", "kettle", ".", "the"], ["toy", None, "kettle", None, None]),
    ],
    ids=["sentencepiece", "wordpiece"],
)
def test_other_ways_to_write_a_vocabulary(pieces, words):
    assert reader(["<s>", *pieces]).vocabulary == [None, *words]


def test_case_variants_are_one_word_and_weigh_together():
    # Apart, each of toy's three forms weighs less than kettle; together they weigh more.
    assert 0.2 * math.log(0.2 * 15) < 0.3 * math.log(0.3 * 15) < 0.6 * math.log(0.2 * 15)
    assert read([answer(t1=0.2, t2=0.2, t3=0.2, t6=0.3, t4=0.1)]) == [["toy", "kettle"]]
    assert read([answer(t1=0.2, t6=0.3, t4=0.5)]) == [["kettle", "toy"]]


def test_stopwords_fragments_symbols_and_control_tokens_are_dropped_however_likely():
    assert read([answer(t0=0.3, t5=0.2, t7=0.1, t8=0.1, t9=0.1, t4=0.1, t10=0.1)]) == [["knife"]]


def test_words_the_instruction_alone_would_get_drop_out():
    prior = answer(t1=0.5, t6=0.1, t10=0.4)
    assert read([answer(t1=0.5, t6=0.4, t10=0.1)], prior=prior) == [["kettle"]]
    assert read([answer(t1=0.6, t6=0.3, t10=0.1)], prior=prior) == [["kettle", "toy"]]  # 0.3 ln 3 > 0.6 ln 1.2


def test_no_more_than_top_words_and_fewer_where_there_are_fewer():
    row = answer(t1=0.4, t6=0.3, t10=0.2, t13=0.1)
    assert read([row], top=2) == [["toy", "kettle"]]
    assert read([row, answer(t9=1.0)], top=9) == [["toy", "kettle", "knife", "long-life"], []]


def test_equal_weights_are_ordered_by_the_alphabet():
    assert read([answer(t10=0.4, t6=0.4, t1=0.2)]) == [["kettle", "knife", "toy"]]


def test_a_word_that_begins_a_weightier_one_makes_room_for_the_next():
    assert read([answer(t6=0.4, t14=0.3, t1=0.2, t10=0.1)], top=2) == [["kettle", "toy"]]
    assert read([answer(t6=0.3, t14=0.4, t1=0.3)]) == [["kett", "kettle", "toy"]]


def test_probabilities_beyond_the_tokenizer_are_ignored():
    padded = [*answer(t1=0.5), 0.5]
    assert reader().read(torch.tensor([padded]), 5, prior=torch.tensor([[*FLAT, 0.0]])) == [["toy"]]


def test_inbedders_words_are_of_the_last_prompt_token_and_a_line_break_behind_it(make, slow):
    encoder = make("inbedder", "llama")
    recorder = encoder.words = Recorder()
    encoder.encode_with_words(["the toy"], instruction="mood")
    prompt = slow("llama").prompt("the toy", "mood")
    expected = (slow("llama").said(prompt) + slow("llama").said([*prompt, *slow("llama").ids("\n")])) / 2
    assert torch.allclose(recorder.answers[0][0], expected, atol=1e-6)


def test_words_of_a_generated_answer_are_of_all_its_tokens(make, slow):
    encoder = make("inbedder", "mistral", pooling="avg-gen", steps=3)
    recorder = encoder.words = Recorder()
    encoder.encode_with_words(["the toy"], instruction="mood")
    prompt = slow("mistral").prompt("the toy", "mood")
    answer = slow("mistral").greedy(prompt, 3)
    assert len(answer) == 3
    expected = sum(slow("mistral").said([*prompt, *answer[:place]]) for place in range(3)) / 3
    assert torch.allclose(recorder.answers[0][0], expected, atol=1e-6)


@pytest.mark.parametrize("ended", [0, 1])
def test_nothing_behind_the_end_of_an_answer_becomes_a_word(make, slow, backbone, monkeypatch, ended):
    reference, tokenizer = slow("mistral"), backbone("mistral").tokenizer
    prompt = reference.prompt("the toy", "mood")
    answer = reference.greedy(prompt, 3)
    assert answer[ended] not in answer[:ended]
    monkeypatch.setattr(tokenizer, "special_ids", tokenizer.special_ids | {answer[ended]})
    encoder = make("inbedder", "mistral", pooling="last-gen", steps=3)
    recorder = encoder.words = Recorder()
    encoder.encode_with_words(["the toy"], instruction="mood")
    assert torch.allclose(recorder.answers[0][0], reference.said(prompt), atol=1e-6)


def test_words_of_a_plain_encoder_are_of_the_next_token(make, slow):
    encoder = make("plain", "mistral", pooling="mean")
    recorder = encoder.words = Recorder()
    encoder.encode_with_words(["the toy"], instruction="mood")
    expected = slow("mistral").said(slow("mistral").prompt("the toy", "mood"))
    assert torch.allclose(recorder.answers[0][0], expected, atol=1e-6)
