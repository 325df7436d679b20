import numpy as np
import pytest
from scipy import stats

from retriever.clusters.arithmetic import intervals
from retriever.clusters.fields import MISSING, OTHERS, spread
from retriever.clusters.groups import Groups
from retriever.clusters.numbers import Part, by_segment, compared, count, trend
from retriever.core.errors import UsageError
from retriever.core.fields import names_of
from retriever.core.periods import all_periods, fitting, period_of, period_unit
from retriever.core.types import Document


def grouped(*labels):
    """Groups of documents d0, d1 ... by label; a label of several letters is in several groups, one of none in none."""
    names = sorted(set("".join(labels)))
    members = np.array([[name in label for label in labels] for name in names]).reshape(len(names), len(labels))
    documents = [Document(f"d{row}", "") for row in range(len(labels))]
    return Groups(documents, range(len(names)), names, members, ~members.any(axis=0))


def test_shares_stars_and_impact_with_the_reviews_behind_them():
    found = count(grouped("a", "a", "b", "ab", "", "b"), [1, None, 5, 2, 3, 5])
    a, b = found.groups
    assert (a.name, a.group, a.reviews, a.share.value) == ("a", 0, ["d0", "d1", "d3"], 0.5)
    assert (a.stars, a.rated) == (1.5, 2)
    assert a.impact.value == pytest.approx((5 + 3 + 5) / 3 - 16 / 5)
    assert (b.reviews, b.stars) == (["d2", "d3", "d5"], 4)
    assert (found.outside.value, found.outside_reviews) == (1 / 6, ["d4"])
    assert (found.stars, found.rated, found.documents) == (3.2, 5, 6)
    assert found.segments == {}
    assert found.trend is None


def test_without_stars_there_is_no_mean_and_no_impact():
    found = count(grouped("a", "b"))
    assert found.stars is None
    assert [(one.stars, one.impact) for one in found.groups] == [(None, None)] * 2


def test_a_value_is_compared_with_all_others():
    groups = grouped(*"aab" * 20, *"b" * 20, *"ab" * 10)
    values = ["kettle"] * 60 + ["lamp"] * 20 + [None] * 20
    found = {(one.part, one.group): one for one in by_segment(groups, values)}
    assert len(found) == 6
    lamp = found["lamp", 0]
    assert (lamp.total, lamp.reviews, lamp.share.value) == (20, [], 0)
    assert (lamp.against, lamp.other.value) == ("all others", 50 / 80)
    assert lamp.difference.value == -50 / 80
    assert lamp.certain
    assert found["lamp", 1].reviews == [f"d{row}" for row in range(60, 80)]
    assert not found["(none)", 0].certain


def test_of_two_values_one_is_compared_and_of_one_none():
    groups = grouped(*"ab" * 5)
    assert {one.part for one in by_segment(groups, ["x"] * 6 + ["y"] * 4)} == {"x"}
    assert by_segment(groups, ["x"] * 10) == []


def test_the_reviews_with_an_item_are_compared_with_those_without():
    groups = grouped(*"aaabbb")
    compared = by_segment(groups, [["x", "y"], ["x"], "x", ["y"], [], ["y", "y"]])
    found = {(one.part, one.group): (one.total, len(one.reviews), one.other.value) for one in compared}
    assert found["x", 0] == (3, 3, 0)
    assert found["y", 0] == (3, 1, 2 / 3)
    assert found["(none)", 1] == (1, 1, 2 / 5)


def test_of_two_items_that_reviews_may_both_have_each_is_compared_and_one_that_all_have_is_not():
    groups = grouped(*"aabb")
    assert {one.part for one in by_segment(groups, [["x", "y"], ["x"], ["y"], ["y"]])} == {"x", "y"}
    assert {one.part for one in by_segment(groups, [["x", "y"], ["x"], ["x"], ["x"]])} == {"y"}


def test_the_more_is_compared_the_surer_a_difference_must_be():
    groups = grouped(*"a" * 9, "b", *"a" * 3, *"b" * 7)
    rows = np.arange(20)
    part, same = Part("x", "y", rows < 10, rows >= 10), Part("odd", "even", rows % 2 == 0, rows % 2 == 1)
    assert compared(groups, [part])[0].certain
    among = compared(groups, [part, *[same] * 4])
    assert not any(one.certain for one in among)
    assert among[0].difference == compared(groups, [part])[0].difference


def test_the_last_period_is_compared_with_the_one_before_and_what_is_new_is_told():
    groups = grouped(*"aaaaaaaaab", *"bbbbbbbbbb", "c")
    days = ["2024-01-10"] * 10 + ["2024-03-31"] * 10 + ["2024-03-01"]
    found = trend(groups, days, "month")
    assert list(found.periods) == ["2024-01", "2024-02", "2024-03"]
    assert found.totals == [10, 0, 11]
    assert [one and round(one.value, 2) for one in found.shares[0]] == [0.9, None, 0]
    a, b, c = found.latest
    assert found.before == "2024-01"
    assert (a.part, a.against, a.other.value, a.share.value, a.certain) == ("2024-03", "2024-01", 0.9, 0, True)
    assert (b.share.value, b.reviews) == (10 / 11, [f"d{row}" for row in range(10, 20)])
    assert found.new == [2]
    assert not c.certain


def test_one_period_is_compared_with_nothing():
    found = trend(grouped("a", "b"), ["2024-01-10", None], "year")
    assert (found.periods, found.totals, found.latest, found.new, found.before) == (["2024"], [1], [], [], "")


def test_days_as_periods():
    units = ("month", "quarter", "year")
    assert [period_of("2024-10-31", unit) for unit in units] == ["2024-10", "2024-Q4", "2024"]
    assert [period_of("2024-09-30", unit) for unit in units] == ["2024-09", "2024-Q3", "2024"]
    assert all_periods(["2024-02-10", "2023-11-30"], "month") == ["2023-11", "2023-12", "2024-01", "2024-02"]
    assert all_periods(["2024-02-10", "2023-06-30"], "quarter") == ["2023-Q2", "2023-Q3", "2023-Q4", "2024-Q1"]
    assert all_periods([], "year") == []
    assert [fitting(["2022-01-01", last]) for last in ("2023-12-31", "2024-01-01", "2030-01-01")] == list(units)
    assert fitting([]) == "month"
    with pytest.raises(UsageError, match="'week' is no period"):
        period_unit("week")


def test_groups_of_some_reviews_are_the_same_groups():
    found = grouped("a", "b", "", "ab").only({"d1", "d2", "d3"})
    assert [one.id for one in found.documents] == ["d1", "d2", "d3"]
    assert found.members.tolist() == [[False, False, True], [True, False, True]]
    assert found.outside.tolist() == [False, True, False]


def test_the_json_has_every_number_with_its_interval_and_reviews():
    groups = grouped(*"ab" * 4)
    days = ["2024-01-01"] * 4 + ["2024-02-01"] * 4
    found = count(groups, [1, 5] * 4, segments={"shop": list("xxxxyyyy")}, days=days).to_json()
    assert found["clusters"][0]["share"] == {"value": 0.5, "low": 0.215216, "high": 0.784784}
    assert found["clusters"][0]["impact"]["value"] == 2
    assert found["clusters"][0]["reviews"] == ["d0", "d2", "d4", "d6"]
    (shop, _) = found["segments"]["shop"]
    assert (shop["part"], shop["size"], shop["total"], shop["certain"]) == ("x", 2, 4, False)
    assert found["trend"]["latest"][1]["reviews"] == ["d5", "d7"]
    assert (found["level"], found["correction"]) == (0.95, "Holm")


# Fields.


@pytest.mark.parametrize(
    ("value", "names"),
    [("a", ["a"]), (3, ["3"]), (None, []), ([], []), (["a", "b", "a"], ["a", "b"]),
     ([None, ["a"], {"b": 1}, 5], ["5"])],
)  # fmt: skip
def test_a_value_counts_under_its_name_and_a_list_under_those_of_its_items(value, names):
    assert names_of(value) == names


def test_a_document_with_a_list_counts_once_under_each_item():
    first, second = spread([["a", "b"], ["a", "a"], "b", [], None], [0, 0, 0, 1, 1], 2)
    assert first.counts == {"a": 2, "b": 2}
    assert second.counts == {MISSING: 2}
    assert second.entropy == 0


def test_rare_items_of_one_document_stand_together_and_count_once():
    common = [[f"tag{number}" for number in range(20)]] * 2
    [found] = spread([*common, ["rare", "rarer", "tag0"]], [0, 0, 0], 1)
    assert found.counts == {"tag0": 3, OTHERS: 1} | {f"tag{number}": 2 for number in range(1, 20)}


def test_shares_of_a_few_reviews_are_counts():
    assert [str(intervals.share(3, total)) for total in (5, 9, 10, 300, 4000)] == [
        "3 of 5",
        "3 of 9",
        "30%",
        "1.0%",
        "under 0.1%",
    ]


def test_a_field_without_spread_has_no_entropy_and_an_even_one_the_most():
    found = spread(["a", "a", "a", "b"], [0, 0, 1, 1], 3)
    assert [(dict(each.counts), each.entropy) for each in found] == [
        ({"a": 2}, 0.0),
        ({"a": 1, "b": 1}, 1.0),
        ({}, 0.0),
    ]


@pytest.mark.parametrize(
    "cells", [(0, 5, 3, 9), (3, 4, 0, 12), (40, 200, 30, 90), (0, 0, 3, 9), (9, 9, 0, 9), (700, 9000, 90, 800)]
)
def test_chances_are_those_of_fishers_test(cells):
    count, total, other, rest = cells
    table = [[count, total - count], [other, rest - other]]
    assert intervals.chance(*cells) == pytest.approx(stats.fisher_exact(table).pvalue, rel=1e-9)
