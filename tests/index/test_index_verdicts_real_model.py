"""Verdicts of the model that ships, over the example reviews: levels far enough from thresholds for every processor."""

import json
from functools import cache
from pathlib import Path

import pytest

from retriever import load_encoder
from retriever.index.sources.encoders import load_base
from retriever.index.verdicts.features import BY_TOPIC, MARGIN
from retriever.index.verdicts.judging import TEXTS, judge
from retriever.index.verdicts.measured import MEASURED
from retriever.index.verdicts.reading import read

REVIEWS = Path(__file__).parents[2] / "examples/reviews.jsonl"
BROKE = "What broke?"
REASON = "What is the main reason for the rating?"
PRODUCT = "What kind of product is it?"

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def judged():
    """Give the shipped model's judgement on a question about the example reviews."""
    texts = [json.loads(line)["text"] for line in REVIEWS.read_text(encoding="utf-8").splitlines()]
    encoder, plain = load_encoder("pretrained:default", device="cpu"), load_base(device="cpu")
    sample = texts[::5][:TEXTS]
    return cache(lambda question: judge(encoder, plain, question, read(encoder, sample, question)))


def test_a_question_whose_answers_are_kinds_of_product_is_not_followed(judged):
    found = judged(BROKE).verdict
    assert (found.level, found.another_question) == ("not followed", True)


def test_a_question_whose_answers_nearly_are_kinds_of_product_is_unclear(judged):
    found = judged(REASON)
    assert (found.verdict.level, found.verdict.another_question) == ("unclear", False)
    assert abs(found.features["topic"] - BY_TOPIC) < MARGIN


def test_a_question_about_the_kind_of_product_is_called_followed(judged):
    assert judged(PRODUCT).verdict.level == "followed"


def test_the_numbers_were_measured_with_the_model_that_ships(judged):
    assert judged(PRODUCT).verdict.measured, (
        f"measured.json is of {MEASURED.fingerprint[:12]}, another model ships now: run recipes/verdict_read.py and "
        "recipes/verdict.py --write, and docs/evaluation.md from what they find"
    )
