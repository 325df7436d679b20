import json
import math
import re
from importlib import resources

import numpy as np
import pytest
from label_fakes import BlindEncoder
from retrieval_fakes import BagEncoder

from retriever.core.protocols import EncoderSpec
from retriever.evaluation import general
from retriever.evaluation.general import GeneralSet, SentencePair, general_score, load_general
from retriever.evaluation.scores import difference

SECOND = 1 / math.log2(3)
FULL = load_general()
SMALL_WORDS = (
    "a about after and are as at be before by can do does for from get have how i if in into is it keep my no not of "
    "off on or our out over should so that the their them there they this to up was we what when where which while who "
    "why will with you"
).split()


class Oracle(BlindEncoder):
    """A query is its document's axis; a pair's cosine is a fifth of its grade, on two further axes a pair shares."""

    spec = EncoderSpec("oracle".ljust(64, "0"), len(FULL.documents) + 2)

    def __init__(self):
        super().__init__()
        axes = np.eye(self.dim)
        rows = dict(zip(FULL.documents, axes, strict=False))
        self.rows = {text: rows[name] for part in (FULL.documents, FULL.queries) for name, text in part.items()}
        for pair in FULL.pairs:
            cosine = pair.likeness / 5
            self.rows[pair.first] = axes[-1]
            self.rows[pair.second] = cosine * axes[-1] + math.sqrt(1 - cosine**2) * axes[-2]

    def row(self, text, instruction):
        return self.rows[text]


def words(text):
    return set(re.findall("[a-z]+", text.lower())) - set(SMALL_WORDS)


def test_a_small_set_is_scored_as_by_hand(monkeypatch):
    texts = GeneralSet(
        {"p1": "cat", "p2": "cat dog", "p3": "dog", "p4": "bird"},
        {"p2": "cat", "p4": "bird"},  # found second, behind the text that is nothing but a cat; found first
        # cosines 1, 1/2, 0: ranks 3 2 1 against 2 3 1, so 1 - 6 * 2 / (3 * 8) = 1/2
        (SentencePair("x", "x", 2.5), SentencePair("x y", "x z", 5), SentencePair("x", "y", 0)),
    )
    monkeypatch.setattr(general, "load_general", lambda: texts)
    found = general_score(BagEncoder("cat dog bird x y z"))
    retrieval = 100 * (SECOND + 1) / 2
    assert found.retrieval.value == pytest.approx(retrieval)
    assert (found.retrieval.low, found.retrieval.high) == pytest.approx((100 * SECOND, 100))
    assert found.similarity.value == pytest.approx(50)
    assert found.mean.value == pytest.approx((retrieval + 50) / 2)
    assert [one.items for one in (found.retrieval, found.similarity, found.mean)] == [2, 3, 2]
    assert [one.headline for one in (found.retrieval, found.similarity, found.mean)] == [False, False, True]


def test_an_oracle_scores_all_of_it():
    encoder = Oracle()
    found = general_score(encoder)
    assert (found.retrieval.value, found.retrieval.low, found.retrieval.high) == (100, 100, 100)
    assert found.similarity.value == pytest.approx(100, abs=0.1)
    assert found.mean.value == pytest.approx(100, abs=0.05)
    assert found.retrieval.items == len(FULL.queries)
    assert found.similarity.items == len(FULL.pairs)


def test_a_blind_encoder_scores_next_to_nothing_and_certainly_less():
    blind, oracle = general_score(BlindEncoder()), general_score(Oracle())
    assert 0 < blind.retrieval.value < 12  # four of a hundred by chance
    assert abs(blind.similarity.value) < 30
    gap = difference(oracle.mean, blind.mean)
    assert gap.certain and 80 < gap.low < gap.value < gap.high
    assert difference(blind.mean, general_score(BlindEncoder()).mean).value == 0


def test_every_text_is_embedded_once_under_the_default_instruction():
    encoder = Oracle()
    general_score(encoder)
    ((texts, instructions),) = encoder.calls
    assert instructions == [""]
    assert len(texts) == len(FULL.documents) + len(FULL.queries) + 2 * len(FULL.pairs)


def test_the_set_is_complete_and_without_doubles():
    lines = resources.files("retriever.evaluation").joinpath("general.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert all(set(row) in ({"id", "text"}, {"id", "text", "query"}, {"a", "b", "score"}) for row in rows)
    assert len(rows) == len(FULL.documents) + len(FULL.pairs)  # so no id is there twice
    assert (len(FULL.documents), len(FULL.queries), len(FULL.pairs)) == (121, 110, 60)
    assert set(FULL.queries) < set(FULL.documents)
    everything = [
        *FULL.documents.values(),
        *FULL.queries.values(),
        *(text for pair in FULL.pairs for text in (pair.first, pair.second)),
    ]
    assert len({text.lower() for text in everything}) == len(everything)
    assert all(text.strip() == text and text.isascii() and len(text.split()) >= 3 for text in everything)


def test_grades_spread_over_the_whole_scale():
    grades = [pair.likeness for pair in FULL.pairs]
    assert (min(grades), max(grades)) == (0, 5)
    assert all(np.histogram(grades, bins=5, range=(0, 5))[0] >= 9)


def test_queries_are_in_other_words_than_their_documents():
    shares = [
        len(words(query) & words(FULL.documents[name])) / len(words(query)) for name, query in FULL.queries.items()
    ]
    assert max(shares) <= 0.35
    assert np.mean(shares) < 0.05


def test_a_search_for_words_finds_little():
    vocabulary = " ".join(sorted(set().union(*(words(text) for text in FULL.documents.values()))))

    class Words(BagEncoder):
        def words(self, text, instruction):
            return re.findall("[a-z]+", text.lower())

    assert 2 < general_score(Words(vocabulary)).retrieval.value < 20
