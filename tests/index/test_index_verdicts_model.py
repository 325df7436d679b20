import json
from functools import cache
from pathlib import Path

import pytest

from retriever import load_encoder
from retriever.index.sources.encoders import load_plain
from retriever.index.verdicts.judging import TEXTS, judge
from retriever.index.verdicts.measured import MEASURED

REVIEWS = Path(__file__).parents[2] / "examples/reviews.jsonl"
REASON = "What is the main reason for the rating?"
PRODUCT = "What kind of product is it?"
FEELING = "How does the customer feel about it?"

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def verdict():
    """Give the shipped model's verdict on a question about the example reviews."""
    texts = [json.loads(line)["text"] for line in REVIEWS.read_text(encoding="utf-8").splitlines()]
    encoder, plain = load_encoder("pretrained:default", device="cpu"), load_plain(device="cpu")
    return cache(lambda question: judge(encoder, plain, texts[::5][:TEXTS], question).verdict)


def test_a_question_whose_answers_are_kinds_of_product_is_not_called_followed(verdict):
    # The diagnosis before this one called it obeyed, since its vectors moved: 72.7 times as far as a paraphrase's.
    assert verdict(REASON).level != "followed"
    assert verdict(PRODUCT).level != "hardly"
    assert verdict(PRODUCT).chance > verdict(REASON).chance
    assert verdict(FEELING).level == "followed"


def test_a_question_about_the_kind_of_product_is_called_followed(verdict):
    assert verdict(PRODUCT).level == "followed"


def test_the_numbers_were_measured_with_the_model_that_ships(verdict):
    assert verdict(PRODUCT).measured, (
        f"measured.json is of {MEASURED.fingerprint[:12]}, another model ships now: run recipes/verdict_read.py and "
        "recipes/verdict.py --write, and docs/evaluation.md from what they find"
    )
