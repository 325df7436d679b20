import json

import numpy as np
import pytest
from lazy_agreement import Corpus, Question, measure, passages, reviews

from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.types import Document, Encoded

PRODUCTS, MOODS = ("kettle", "lamp", "toy", "sofa"), ("love", "hate", "calm", "sad")


class TwoFactors(Encoder):
    """Sees the product, or the mood where the instruction asks for it."""

    spec = EncoderSpec("two-factors".ljust(64, "0"), 4)

    def __init__(self):
        self.read = []

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        if words:
            self.read += [(text, one) for one in instructions for text in texts]
        return [Encoded(self.rows(texts, one), [[] for _ in texts]) for one in instructions]

    def rows(self, texts, instruction):
        seen = MOODS if "feel" in instruction else PRODUCTS
        rows = np.array([[float(word in text) + 0.01 for word in seen] for text in texts], dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Products(TwoFactors):
    """A base encoder that sees products alone."""

    spec = EncoderSpec("products".ljust(64, "0"), 4)


FEEL = "How do they feel?"
DOCUMENTS = [
    Document(f"{product}-{mood}-{row}", f"{product} {mood} {row}")
    for product in PRODUCTS
    for mood in MOODS
    for row in range(3)
]


@pytest.fixture
def corpus():
    questions = [
        Question(f"{product} {mood}", FEEL, {one.id: 1 for one in DOCUMENTS if mood in one.text})
        for product, mood in zip(PRODUCTS, MOODS, strict=True)
    ]
    return Corpus("planted", DOCUMENTS, questions)


def test_more_candidates_come_nearer_to_the_complete_view(corpus):
    encoder = TwoFactors()
    found = measure(corpus, {"encoder": encoder, "plain": Products()}, (1, 12, 48))
    few, some, all_of_them = found["curves"]["alone"]
    assert [one["candidates"] for one in found["curves"]["beside"]] == [1, 12, 48]
    assert few["agreement"] < all_of_them["agreement"]
    assert few["agreement"] <= some["agreement"] <= all_of_them["agreement"]
    assert all_of_them == {"candidates": 48, "agreement": 1.0, "ndcg_at_10": found["complete_view"]["ndcg_at_10"]}
    assert found["complete_view"]["ndcg_at_10"] > few["ndcg_at_10"]
    read = [text for text, instruction in encoder.read if instruction == FEEL]
    assert len(read) == len(set(read)) == len(DOCUMENTS)  # nothing under a question twice


def test_corpora_are_read_from_the_data_folder(tmp_path):
    def jsonl(name, rows):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    jsonl(
        "reviews_dmaste.jsonl",
        [
            {"text": f"{mood} {product} {row}", "split": "test", "labels": {"category": product, "polarity": mood}}
            for product in ("toy", "book")
            for mood in ("positive", "negative")
            for row in range(5)
        ],
    )
    corpus = reviews(tmp_path, 12, 3)
    assert (len(corpus.documents), len(corpus.questions)) == (12, 6)
    texts = {one.id: one.text for one in corpus.documents}
    for place, one in enumerate(corpus.questions):
        word = one.query.split()[1 if place < 3 else 0]
        assert one.query not in texts.values()
        assert set(one.relevant) == {id for id, text in texts.items() if word in text}
    jsonl("retrieval_msmarco_corpus.jsonl", [{"id": f"p{row}", "text": f"passage {row}"} for row in range(9)])
    jsonl(
        "retrieval_msmarco_queries.jsonl",
        [{"text": f"query {row}", "relevant": [f"p{row}"], "instructions": [f"I am {row}."]} for row in range(6)],
    )
    corpus = passages(tmp_path, 5, 2)
    assert len(corpus.documents) == 5
    assert [one.instruction for one in corpus.questions] == [f"I am {one.query[-1]}." for one in corpus.questions]
    assert all(set(one.relevant) <= {document.id for document in corpus.documents} for one in corpus.questions)
