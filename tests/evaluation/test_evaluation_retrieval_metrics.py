import math

import numpy as np
import pytest

from retriever.core.errors import UsageError
from retriever.evaluation.retrieval_metrics import (
    ConditionRankings,
    by_group,
    p_mrr_values,
    ranking_measures,
    ranks,
    sicr_values,
    wise,
    wise_values,
)


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


def test_a_document_twice_is_refused():
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


def test_the_lowest_of_every_group():
    values = np.array([0.5, 1.0, 0.25, 0.75, 1.0])
    assert by_group(values, ["b", "a", "b", "a", "c"], min).tolist() == [0.25, 0.75, 1.0]


def case(original, instructed, reversed_, meeting="d", judged=3):
    """Rankings from ids, best first; a number behind an id is its score."""

    def scored(ids):
        return [
            (one.partition(":")[0], float(one.partition(":")[2] or -place)) for place, one in enumerate(ids.split())
        ]

    return ConditionRankings(scored(original), scored(instructed), scored(reversed_), meeting, judged)


def test_sicr_asks_for_rank_and_score_under_the_condition_and_under_its_denial():
    complies = case("a:.9 d:.8 b:.7", "d:.9 a:.8 b:.7", "a:.9 b:.8 d:.7")
    first_already = case("d:.9 a:.8 b:.7", "d:1.0 a:.8 b:.7", "a:.9 b:.8 d:.7")
    lower_score = case("a:.9 d:.8 b:.7", "d:.8 a:.7 b:.6", "a:.9 b:.8 d:.7")
    same_rank_denied = case("a:.9 d:.8 b:.7", "d:.9 a:.8 b:.7", "a:.9 d:.7 b:.6")
    higher_denied = case("a:.9 d:.8 b:.7", "d:.9 a:.8 b:.7", "a:1.1 b:1.0 d:.9")
    cases = [complies, first_already, lower_score, same_rank_denied, higher_denied]
    assert sicr_values(cases).tolist() == [1, 0, 0, 0, 0]


def test_for_sicr_what_is_not_found_comes_last():
    assert sicr_values([case("a:.9 d:.8", "d:.9 a:.8", "a:.9")]).tolist() == [0]  # at rank 2 before, and denied
    assert sicr_values([case("a:.9 d:.8", "d:.9 a:.8", "a:.9 b:.8")]).tolist() == [1]


@pytest.mark.parametrize(
    ("original", "instructed", "reversed_", "judged", "value"),
    [
        (3, 1, 4, 3, 1.0),  # among the first N before, first under the condition
        (4, 1, 9, 3, 1 - 3 / 20),  # not among the first N
        (9, 4, 12, 3, (1 - 5 / 20) / 2),
        (20, 20, 21, 3, 1 / 20**0.5),
        (21, 4, 30, 3, 0.01),  # beyond K
        (5, 8, 2, 3, -1.0),  # the wrong way both times
        (5, 8, 9, 3, -3 / 8),  # fell under the condition
        (5, 5, 5, 3, 0.0),
        (5, 3, 2, 3, -3 / 5),  # rose under the denial
        (5, 3, 5, 3, 0.0),
    ],
)
def test_wise_of_a_document_by_hand(original, instructed, reversed_, judged, value):
    assert wise(original, instructed, reversed_, judged=judged) == pytest.approx(value)


def test_wise_of_queries():
    cases = [case("a d e b", "d a b e", "a b e d", meeting) for meeting in ("d", "e")]
    # d: from 2 to 1, denied 4, N 3: 1. e: from 3 to 4, denied 3: (3 - 4) / 4.
    assert wise_values([*cases, case("a d", "a d", "a d")]).tolist() == [1, -0.25, 0]
