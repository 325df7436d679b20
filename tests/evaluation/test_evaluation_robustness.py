import math
from statistics import fmean

import pytest
from label_fakes import (
    AMBIENCE,
    BAD,
    FOOD,
    GOOD,
    SERVICE,
    BlindEncoder,
    Oracle,
    bench,
    by_metric,
    restaurant_rows,
    write_rows,
)

from retriever.core.errors import InputError
from retriever.evaluation import robustness
from retriever.evaluation.suites import DataFile
from retriever.evaluation.wordings import WORDING_KINDS, find_wordings

KINDS, MOODS = (FOOD, SERVICE, AMBIENCE), (GOOD, BAD)
CRITERIA = {"aspect": KINDS, "polarity": MOODS}
RESTAURANTS = "aspects_restaurant_acos.jsonl"


def hears(*kinds):
    """An encoder that obeys these kinds of wordings of both criteria, and is blind under all others."""
    return Oracle(
        {
            wording: keywords
            for criterion, keywords in CRITERIA.items()
            for kind in kinds
            for wording in find_wordings("restaurants", criterion).of(kind)
        }
    )


def restaurants(tmp_path, encoder, rows=None, **options):
    write_rows(tmp_path, RESTAURANTS, restaurant_rows() if rows is None else rows)
    return by_metric(robustness.restaurants(bench(tmp_path, encoder, **options)))


def test_an_encoder_that_hears_what_is_meant_has_the_largest_deltas(tmp_path):
    encoder = hears("correct", "implicit")
    scores = restaurants(tmp_path, encoder)
    for criterion in CRITERIA:
        assert scores[f"{criterion}, correct wordings"].value == pytest.approx(1)
        assert scores[f"{criterion}, implicit wordings"].value == pytest.approx(1)
        noise = scores[f"{criterion}, incorrect wordings"].value
        assert 0 <= noise < 0.35
        assert scores[f"{criterion}, Delta_ci"].value == pytest.approx(1 - noise)
        assert scores[f"{criterion}, Delta_ii"].value == pytest.approx(1 - noise)
        assert scores[f"{criterion}, Delta_ci"].low > 0.5
    mean = fmean(scores[f"{criterion}, Delta_ci"].value for criterion in CRITERIA)
    assert scores["Delta_ci"].value == pytest.approx(mean)
    assert [metric for metric, score in scores.items() if score.headline] == ["Delta_ci", "Delta_ii"]
    assert {score.items for score in scores.values()} == {48}
    assert "10 wordings from 1.000 to 1.000; 50 runs" in scores["aspect, correct wordings"].note


def test_an_encoder_that_hears_direct_wordings_alone_has_no_delta_ii(tmp_path):
    scores = restaurants(tmp_path, hears("correct"))
    assert scores["Delta_ci"].value > 0.6
    assert (scores["Delta_ii"].value, scores["Delta_ii"].low, scores["Delta_ii"].high) == (0, 0, 0)


def test_a_blind_encoder_has_no_delta(tmp_path):
    scores = restaurants(tmp_path, BlindEncoder())
    assert scores["aspect, correct wordings"].value > 0
    for metric, score in scores.items():
        if "Delta" in metric:
            assert (score.value, score.low, score.high) == (0, 0, 0)


def test_texts_are_read_once_under_all_sixty_wordings(tmp_path):
    encoder = hears("correct")
    restaurants(tmp_path, encoder, limit=12)
    (texts, asked), *more = encoder.calls
    assert not more
    assert len(texts) == 12
    wordings = [find_wordings("restaurants", criterion) for criterion in CRITERIA]
    assert asked == [wording for one in wordings for kind in WORDING_KINDS for wording in one.of(kind)]


PASSAGES = [{"id": one, "text": f"about {one}"} for one in "abcdefghijkl"]
QUERIES = [
    {"id": "q1", "text": "what is a", "relevant": ["a"], "instructions": ["As a cook.", "As a pilot."]},
    {"id": "q2", "text": "what is b", "relevant": ["b"], "instructions": ["As a nurse."]},
    {"id": "q3", "text": "what is c", "relevant": ["c"], "instructions": []},
    {"id": "q4", "text": "what is d", "relevant": ["d", "e"], "instructions": ["As a cook.", "As a judge.", "As me."]},
]
FOUND = {
    ("what is a", "As a cook."): "abc",
    ("what is a", "As a pilot."): "bca",
    ("what is d", "As a cook."): "de",
    ("what is d", "As a judge."): "ad",
    ("what is d", "As me."): "ed",
}


def instructed(tmp_path, passages=PASSAGES, queries=QUERIES, **options):
    calls = []

    def search(documents, texts, *, instructions, mode, k):
        calls.append((len(documents), mode, k))
        asked = zip(texts, instructions, strict=True)
        return [[(one, 1 - place / 10) for place, one in enumerate(FOUND[pair])] for pair in asked]

    write_rows(tmp_path, DataFile.PASSAGES, passages)
    write_rows(tmp_path, DataFile.WEB_QUERIES, queries)
    scores = by_metric(robustness.instructed_queries(bench(tmp_path, BlindEncoder(), search=search, **options)))
    assert calls == [(len(passages), "dense", 10)]
    return scores


def test_robustness_at_10_by_hand(tmp_path):
    scores = instructed(tmp_path)
    third, judge = 1 / math.log2(4), (1 / math.log2(3)) / (1 + 1 / math.log2(3))
    assert scores["Robustness@10"].value == pytest.approx((third + judge) / 2)
    assert scores["nDCG@10"].value == pytest.approx(((1 + third) / 2 + (1 + judge + 1) / 3) / 2)
    assert scores["Robustness@10"].items == 2
    assert scores["Robustness@10"].headline
    assert not scores["nDCG@10"].headline
    assert "2 queries under 5 instructions among 12 documents" in scores["Robustness@10"].note


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"instructions": ...}, "row 4: 'instructions' is missing"),
        ({"instructions": ["As a cook.", 3]}, "row 4: 'instructions' holds something else than strings"),
        ({"relevant": ["d", "z"]}, "row 4: 'relevant' names 'z', which retrieval_msmarco_corpus.jsonl lacks"),
        ({"id": "q1"}, "row 4: the id 'q1' is there twice"),
    ],
)
def test_a_broken_query_is_named(tmp_path, change, problem):
    row = {key: value for key, value in (QUERIES[3] | change).items() if value is not ...}
    with pytest.raises(InputError) as raised:
        instructed(tmp_path, queries=[*QUERIES[:3], row])
    assert raised.value.message == f"{tmp_path / DataFile.WEB_QUERIES}, {problem}."


def test_a_document_twice_and_no_instructed_query_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"corpus.jsonl, row 13: the id 'a' is there twice"):
        instructed(tmp_path, passages=[*PASSAGES, PASSAGES[0]])
    with pytest.raises(InputError, match=r"queries.jsonl: no query has two instructions"):
        instructed(tmp_path, queries=QUERIES[1:3])
