import math

import numpy as np
import pytest

from retriever.core.errors import UsageError
from retriever.evaluation.retrieval_metrics import by_group, p_mrr_values, ranking_measures, ranks


def ranking(*ids):
    return [(one, 1 - place / 100) for place, one in enumerate(ids)]


def test_ndcg_map_and_recall_by_hand():
    rankings = {"q": ranking("a", "b", "c", "d")}
    relevant = {"q": {"b": 2, "d": 1, "e": 1, "a": 0}}
    found = ranking_measures(rankings, relevant, ["nDCG@3", "AP", "R@2", "R@10"])
    ideal = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert found["nDCG@3"].tolist() == pytest.approx([2 / math.log2(3) / ideal])
    assert found["AP"].tolist() == pytest.approx([(1 / 2 + 2 / 4) / 3])
    assert found["R@2"].tolist() == pytest.approx([1 / 3])
    assert found["R@10"].tolist() == pytest.approx([2 / 3])


def test_values_come_in_the_order_of_the_queries():
    relevant = {"z": {"a": 1}, "m": {"b": 1}, "a": {"c": 1}}
    rankings = {query: ranking("a", "b", "c") for query in ("a", "z", "m")}
    assert ranking_measures(rankings, relevant, ["RR"])["RR"].tolist() == pytest.approx([1, 1 / 2, 1 / 3])


def test_equal_scores_go_by_ascending_id():
    tied = {"q": [("b", 0.5), ("a", 0.5), ("c", 0.5)]}
    for document, expected in {"a": 1, "b": 1 / 2, "c": 1 / 3}.items():
        found = ranking_measures(tied, {"q": {document: 1}}, ["RR"])
        assert found["RR"].tolist() == pytest.approx([expected])


def test_scores_that_differ_in_double_precision_alone_are_no_ties():
    close = {"q": [("a", 0.5), ("b", 0.5 + 1e-12)]}
    assert ranking_measures(close, {"q": {"b": 1}}, ["RR"])["RR"].tolist() == [1]


def test_nothing_relevant_or_nothing_found_scores_zero():
    rankings = {"empty": [], "judged": ranking("a"), "unjudged": ranking("a")}
    relevant = {"absent": {"a": 1}, "empty": {"a": 1}, "judged": {"a": 0}, "unjudged": {}}
    for values in ranking_measures(rankings, relevant, ["nDCG@10", "AP", "R@5"]).values():
        assert values.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("measure", ["ndcg", "nDCG@@", "nDCG@ten", "", "nDCG(10)"])
def test_an_unknown_measure_is_named(measure):
    with pytest.raises(UsageError, match=r"Unknown measure"):
        ranking_measures({}, {"q": {"a": 1}}, [measure])


def test_a_ranking_of_no_query_and_a_document_twice_are_refused():
    with pytest.raises(UsageError, match=r"relevant to query 'other'"):
        ranking_measures({"other": []}, {"q": {"a": 1}}, ["AP"])
    with pytest.raises(UsageError, match=r"document 'a' twice"):
        ranking_measures({"q": [("a", 1.0), ("a", 0.5)]}, {"q": {"a": 1}}, ["AP"])


def test_ranks_by_falling_score_then_by_id():
    assert ranks([("b", 0.5), ("c", 0.9), ("a", 0.5)]) == {"c": 1, "a": 2, "b": 3}
    assert ranks([]) == {}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("xabc", "abcx", 3 / 4),  # fell from 1 to 4: 1 - (1/4)/(1/1)
        ("abxc", "abcx", 1 / 4),
        ("abcx", "xabc", -3 / 4),  # rose from 4 to 1: (1/4)/(1/1) - 1
        ("axbc", "axcb", 0),
    ],
)
def test_p_mrr_by_hand(before, after, expected):
    found = p_mrr_values({"q": ranking(*before)}, {"q": ranking(*after)}, {"q": ["x"]})
    assert found.tolist() == pytest.approx([expected])


def test_p_mrr_averages_within_a_query_first():
    before = {"q": ranking("x", "y", "a", "b"), "r": ranking("x", "a")}
    after = {"q": ranking("y", "a", "b", "x"), "r": ranking("a", "x")}
    found = p_mrr_values(before, after, {"r": ["x"], "q": ["x", "y"]})
    assert found.tolist() == pytest.approx([1 / 2, (3 / 4 + (1 / 2 - 1)) / 2])


def test_p_mrr_breaks_ties_by_id():
    before, after = {"q": [("x", 0.5), ("a", 0.5)]}, {"q": [("a", 0.5), ("x", 0.5)]}
    assert p_mrr_values(before, after, {"q": ["x"]}).tolist() == [0]


def test_p_mrr_puts_what_was_not_found_behind_the_last():
    found = p_mrr_values({"q": ranking("x", "a")}, {"q": ranking("a", "b", "c")}, {"q": ["x", "gone"]})
    assert found.tolist() == pytest.approx([(3 / 4 + (1 - 3 / 4)) / 2])


def test_p_mrr_is_mtebs():
    mteb = pytest.importorskip("mteb._evaluators.retrieval_metrics")
    generator = np.random.default_rng(0)
    documents = [f"d{number}" for number in range(12)]
    before, after = (
        {f"q{query}": list(zip(documents, generator.permutation(12) / 12, strict=True)) for query in range(5)}
        for _ in range(2)
    )
    removed = {query: generator.choice(documents, 3, replace=False).tolist() for query in before}
    theirs = mteb.calculate_pmrr(
        {f"{query}-og": dict(one) for query, one in before.items()},
        {f"{query}-changed": dict(one) for query, one in after.items()},
        removed,
    )
    assert p_mrr_values(before, after, removed).mean() == pytest.approx(theirs)
    assert abs(theirs) > 0.01


def test_p_mrr_needs_both_rankings_and_a_document():
    with pytest.raises(UsageError, match=r"'q' was not searched under both"):
        p_mrr_values({"q": ranking("x")}, {}, {"q": ["x"]})
    with pytest.raises(UsageError, match=r"No document of query 'q'"):
        p_mrr_values({"q": ranking("x")}, {"q": ranking("x")}, {"q": []})


def test_the_lowest_of_every_group():
    values = np.array([0.5, 1.0, 0.25, 0.75, 1.0])
    assert by_group(values, ["b", "a", "b", "a", "c"], min).tolist() == [0.25, 0.75, 1.0]
