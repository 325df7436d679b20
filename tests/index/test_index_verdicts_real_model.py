"""Verdicts of the model that ships: levels far enough from thresholds for every processor."""

import json
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from retriever import load_encoder
from retriever.index.sources.encoders import load_base
from retriever.index.verdicts.judging import TEXTS, judge
from retriever.index.verdicts.measured import MEASURED
from retriever.index.verdicts.reading import read

REVIEWS = Path(__file__).parents[2] / "examples/reviews.jsonl"
OPINIONS = [
    f"{opinion}: the {thing}."
    for opinion, thing in product(
        (
            "Works perfectly every time, I love it",
            "Broke on the second day, a waste of money",
            "Great value and very well made",
            "Terrible quality, it never worked",
            "Happy with how easy it is",
            "Disappointed, it is far too slow",
            "Excellent, my favourite by far",
            "Awful, I sent it straight back",
        ),
        ("kettle", "lamp", "drone", "tent", "knife"),
    )
]

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def judged():
    """Give the shipped model's verdict on a question about the example reviews, or about opinions said outright."""
    reviews = [json.loads(line)["text"] for line in REVIEWS.read_text(encoding="utf-8").splitlines()][1::5][:TEXTS]
    encoder, plain = load_encoder("pretrained:default", device="cpu"), load_base(device="cpu")

    @cache
    def verdict(question, outright=False):
        texts = OPINIONS if outright else reviews
        return judge(encoder, plain, question, read(encoder, texts, question)).verdict

    return verdict


@pytest.mark.parametrize("question", ["What broke?", "What is being reviewed?", "How does the customer feel about it?"])
def test_questions_whose_answers_about_the_examples_are_half_wrong_are_unclear(judged, question):
    assert judged(question).level == "unclear"


def test_a_question_whose_answers_are_invented_is_not_followed(judged):
    assert judged("Would they buy it again?").level == "not followed"


def test_a_question_about_opinions_that_are_said_outright_is_followed(judged):
    assert judged("Good point or bad point?", outright=True).level == "followed"


def test_the_numbers_were_measured_with_the_model_that_ships(judged):
    assert judged("What broke?").measured, (
        f"measured.json is of {MEASURED.fingerprint[:12]}, another model ships now: run recipes/verdict_read.py and "
        "recipes/verdict.py --write, and docs/evaluation.md from what they find"
    )
