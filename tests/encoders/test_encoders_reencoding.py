import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_reference import nucleus, unit

from retriever.core.similarity import normalise
from retriever.encoders.base import EncoderOptions
from retriever.encoders.reencoding import ReEncodingEncoder, Sampling, nucleus_sample

TEXTS = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "a sharp knife that is dull " * 3]
INSTRUCTION = "what kind of product"


class LetterCounter:
    """Embeds a text as how often it holds each of a few letters, and one."""

    dim = 6
    fingerprint = "letters"

    def __init__(self):
        self.seen = []

    def encode(self, texts, **_):
        self.seen += texts
        return normalise([[text.count(letter) for letter in "aeito"] + [1] for text in texts])


def encoder(backbone, **options):
    second = LetterCounter()
    made = ReEncodingEncoder(backbone("llama"), EncoderOptions(**options), second=second, sampling=Sampling(answers=3))
    return made, second


def test_vectors_average_the_second_encoders_over_the_sampled_answers(backbone, slow):
    made, second = encoder(backbone, steps=4)
    vectors = made.encode(TEXTS, instruction=INSTRUCTION)
    expected_answers = [slow("llama").sampled(text, INSTRUCTION, samples=3, steps=4) for text in TEXTS]
    assert sorted(second.seen) == sorted(answer for answers in expected_answers for answer in answers)
    for vector, answers in zip(vectors, expected_answers, strict=True):
        assert vector == pytest.approx(unit(LetterCounter().encode(answers).mean(axis=0)), abs=1e-5)
    assert len({answer for answers in expected_answers for answer in answers}) > 4
    assert made.dim == 6


def test_answers_end_at_the_end_token(backbone, slow, monkeypatch):
    reference, tokenizer = slow("llama"), backbone("llama").tokenizer
    prompt = reference.prompt(TEXTS[0], INSTRUCTION)
    common = torch.topk(reference.said(prompt), 90).indices.tolist()
    monkeypatch.setattr(tokenizer, "special_ids", tokenizer.special_ids | set(common))
    monkeypatch.setattr(reference, "ends", reference.ends | set(common))
    made, second = encoder(backbone, steps=4)
    made.encode(TEXTS[:1], instruction=INSTRUCTION)
    assert second.seen == reference.sampled(TEXTS[0], INSTRUCTION, samples=3, steps=4)
    assert "" in second.seen
    assert any(second.seen)


def test_answers_depend_on_the_text_alone_and_not_on_its_neighbours(backbone):
    made, _ = encoder(backbone)
    together = made.encode(TEXTS, instruction=INSTRUCTION)
    assert (made.encode(TEXTS, instruction=INSTRUCTION) == together).all()
    backwards = made.encode(TEXTS[::-1], instruction=INSTRUCTION, batch_size=2)[::-1]
    assert backwards == pytest.approx(together, abs=1e-5)
    for text, vector in zip(TEXTS, together, strict=True):
        assert made.encode([text], instruction=INSTRUCTION)[0] == pytest.approx(vector, abs=1e-5)


def test_several_instructions_equal_separate_runs(backbone):
    made, _ = encoder(backbone)
    instructions = [INSTRUCTION, "mood", "which material is it"]
    for many, one in zip(made.encode_many(TEXTS, instructions), instructions, strict=True):
        assert many == pytest.approx(made.encode(TEXTS, instruction=one), abs=1e-5)


def test_fingerprint_covers_the_second_encoder(backbone):
    made, second = encoder(backbone)
    before = made.fingerprint
    second.fingerprint = "others"
    assert made.fingerprint != before
    assert made.reconfigured(steps=9).steps == 9
    assert made.reconfigured(steps=9).second is second


def test_nucleus_by_hand():
    # Halves, quarters: with top_p 0.9 tokens 2, 0, 3 stay (0.5, 0.3, 0.15 of 0.95), token 1 goes.
    logits = torch.tensor([[0.3, 0.05, 0.5, 0.15]]).log()
    sampling = Sampling(temperature=1.0, top_p=0.9)
    picked = [int(nucleus_sample(logits, torch.tensor([u]), sampling)) for u in (0.0, 0.52, 0.53, 0.84, 0.85, 0.999)]
    assert picked == [2, 2, 0, 0, 3, 3]
    cold = Sampling(temperature=0.5, top_p=0.7)  # squares: 0.25, 0.09, 0.0225, 0.0025 of 0.365; two stay
    assert [int(nucleus_sample(logits, torch.tensor([u]), cold)) for u in (0.73, 0.74, 0.99)] == [2, 0, 0]


def test_a_number_that_rounds_to_one_takes_the_last_token_that_was_kept():
    logits = torch.tensor([[3.0, 2.0, 1.0, -9.0, -9.0]])
    for number in (1 - 1e-9, 1.0):
        picked = nucleus_sample(logits, torch.tensor([number], dtype=torch.float64), Sampling(temperature=1.0))
        assert int(picked) == 1 + (math.exp(3) + math.exp(2) < 0.9 * sum(map(math.exp, (3, 2, 1))))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-4, 4, width=16), min_size=1, max_size=9, unique=True),
    st.floats(0, 0.999),
    st.sampled_from([0.3, 0.6, 1.0]),
    st.sampled_from([0.5, 0.9, 1.0]),
)
def test_nucleus_equals_brute_force(logits, number, temperature, top_p):
    expected = nucleus(logits, number, temperature, top_p)
    near = {nucleus(logits, number + d, temperature, top_p + e) for d in (-1e-5, 1e-5) for e in (-1e-5, 1e-5)}
    picked = int(nucleus_sample(torch.tensor([logits]), torch.tensor([number]), Sampling(4, temperature, top_p)))
    assert picked == expected or (len(near) > 1 and picked in near)


def test_rows_of_a_batch_are_drawn_apart():
    rng = np.random.default_rng(0)
    logits, numbers = torch.tensor(rng.normal(size=(20, 11)) * 3), torch.tensor(rng.random(20))
    expected = [nucleus(row, u, 0.6, 0.9) for row, u in zip(logits.tolist(), numbers.tolist(), strict=True)]
    assert nucleus_sample(logits, numbers, Sampling()).tolist() == expected
