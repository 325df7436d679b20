"""Clusters of the example reviews by the model that ships."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from retriever import load_encoder
from retriever.clusters.arithmetic.choice import choose_k
from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.encoders.sources import WHEELS

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(
        importlib.util.find_spec(WHEELS["smollm2-135m"].module) is None, reason=WHEELS["smollm2-135m"].install
    ),
]

REVIEWS = Path(__file__).parents[2] / "examples/reviews.jsonl"
PRODUCT, MOOD = "What kind of product is this review about?", "How does the customer feel about it?"


@pytest.mark.parametrize(("question", "least"), [(MOOD, 0.98), (PRODUCT, 0.8)])
def test_clusters_hold_when_the_texts_are_embedded_again_in_batches_of_another_size(question, least):
    """Two moods part clearly; some reviews stand between kinds of product (benchmarks/cluster_stability.py)."""
    texts = [json.loads(line)["text"] for line in REVIEWS.read_text(encoding="utf-8").splitlines()]
    encoder = load_encoder("pretrained:default", device="cpu")
    usual = encoder.encode(texts, instruction=question)
    again = encoder.encode(texts, instruction=question, batch_size=5)
    assert not np.array_equal(usual, again)  # rounding differs, or this would show nothing
    k = choose_k(usual).k
    assert k > 1
    labels = [spherical_kmeans(vectors, k).labels for vectors in (usual, again)]
    assert adjusted_rand_score(*labels) >= least
