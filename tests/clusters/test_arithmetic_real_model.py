"""Clusters of the example reviews by the model that ships."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from retriever import load_encoder
from retriever.clusters.arithmetic.choice import choose_k
from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.core.similarity import normalise
from retriever.core.words import _english, shown_words
from retriever.encoders.wheels import WHEELS

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(
        importlib.util.find_spec(WHEELS["smollm2-135m"].module) is None, reason=WHEELS["smollm2-135m"].install
    ),
]

REVIEWS = Path(__file__).parents[2] / "examples/reviews.jsonl"
QUESTIONS = ["Which thing did they buy?", "Is the customer satisfied with the product?"]
ROUNDING = 0.035
"""How far another processor or number format moves a vector, as a share of its distance from the mean: more than it did
between bfloat16 and float32 in the mean of eight views (0.024)."""


@pytest.fixture(scope="module")
def texts():
    return [json.loads(line)["text"] for line in REVIEWS.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("pretrained:default", device="cpu")


@pytest.fixture(scope="module")
def views(encoder, texts):
    return encoder.encode_many(texts, QUESTIONS)


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_a_text_that_is_embedded_again_has_the_same_vector_bit_by_bit(encoder, texts, views, number):
    """In other batches, in another order, and without the other question beside it."""
    rows = list(range(0, len(texts), 6))
    again = encoder.encode([texts[row] for row in rows[::-1]], instruction=QUESTIONS[number], batch_size=5)
    assert np.array_equal(again[::-1], views[number][rows])


def test_words_that_are_shown_are_english_or_of_the_text_and_no_beginnings_of_others(texts):
    """Of a language model, whose answers are tokens."""
    some, english = texts[:40], set(_english())
    question = "What kind of product is this review about?"
    heard = load_encoder("pretrained:instemb", device="cpu").encode_with_words(some, instruction=question).words
    assert "pat" in {word for words in heard for word in words}
    for words, text in zip(heard, some, strict=True):
        own = set(re.findall("[a-z]+", text.casefold()))
        shown = set(shown_words(words, text, question))
        assert shown <= english | own
        assert not (shown - own) & {"pat", "per", "zen", "bra", "micro"}


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_clusters_that_hold_are_found_again_where_vectors_are_rounded_otherwise(views, number):
    vectors = views[number]
    held = [tried for tried in choose_k(vectors).curve if tried.stability.holds]
    chosen = max(held, key=lambda tried: tried.silhouette)
    found = spherical_kmeans(vectors, chosen.k)
    assert found.k == chosen.k > 1
    assert found.stability.holds
    draw = np.random.default_rng(0)
    for _ in range(3):
        moved = draw.normal(size=vectors.shape)
        moved *= ROUNDING * np.linalg.norm(vectors - vectors.mean(axis=0), axis=1, keepdims=True)
        moved /= np.sqrt(vectors.shape[1])
        again = spherical_kmeans(normalise(vectors + moved), chosen.k)
        assert adjusted_rand_score(found.labels, again.labels) >= 0.9
