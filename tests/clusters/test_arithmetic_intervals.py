import numpy as np
import pytest
from scipy import stats

from retriever.clusters.arithmetic.intervals import Interval, chance, difference, holm, impact, share


@pytest.mark.parametrize(("count", "total"), [(1, 9), (81, 263), (5, 5), (0, 20), (7, 7000)])
def test_a_share_has_the_interval_of_wilson(count, total):
    found = share(count, total)
    assert found.value == count / total
    known = stats.binomtest(count, total).proportion_ci(0.95, method="wilson")
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=1e-12)


def test_the_share_of_nothing_may_be_anything():
    assert share(0, 0) == Interval(0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((56, 70, 48, 80), 0.0524, 0.3339),  # Newcombe 1998, table II, method 10
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((6, 7, 2, 7), 0.0582, 0.8062),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((0, 10, 0, 20), -0.1611, 0.2775),
        ((10, 10, 0, 10), 0.6075, 1.0),
    ],
)
def test_a_difference_has_the_published_interval_of_newcombe(counts, low, high):
    found = difference(share(*counts[:2]), share(*counts[2:]))
    assert found.value == pytest.approx(counts[0] / counts[1] - counts[2] / counts[3])
    assert (found.low, found.high) == pytest.approx((low, high), abs=6e-5)


def test_only_an_interval_beside_zero_is_certain():
    assert Interval(0.2, 0.1, 0.3).certain
    assert Interval(-0.2, -0.3, -0.1).certain
    assert not Interval(0.1, -0.1, 0.3).certain


def test_chances_are_corrected_as_holm_has_it():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    assert chance(9, 10, 3, 10) == pytest.approx(stats.fisher_exact([[9, 1], [3, 7]]).pvalue)


def test_the_impact_is_the_mean_without_the_group_less_the_mean_of_all():
    inside, outside = [1, 1, 2, 1], [5, 4, 5, 5, 3, 4]
    found = impact(inside, outside)
    assert found.value == pytest.approx(np.mean(outside) - np.mean(inside + outside))
    assert found.low < found.value < found.high
    turned = impact(outside, inside)
    assert turned.value == pytest.approx(np.mean(inside) - np.mean(inside + outside))
    assert turned.high < 0


def test_an_impact_is_as_sure_as_the_bootstrap_says_where_there_are_many_ratings():
    rng = np.random.default_rng(3)
    stars = np.where(inside := rng.random(3000) < 0.2, rng.choice([1, 2, 3], 3000), rng.choice([3, 4, 5], 3000))
    found = impact(stars[inside], stars[~inside])
    rows = rng.integers(0, 3000, (2000, 3000))
    drawn = [stars[one][~inside[one]].mean() - stars[one].mean() for one in rows]
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])), abs=0.006)


def test_few_ratings_that_are_equal_are_not_taken_for_certain():
    few, many = impact([1, 1], [5, 5, 4, 5, 3, 5]), impact([1] * 20, [5, 5, 4, 5, 3, 5] * 10)
    assert few.high - few.low > 3 * (many.high - many.low)
    assert impact([4, 4, 4], [4, 4]) == Interval(0, 0, 0)


@pytest.mark.parametrize(("inside", "outside"), [([], [5, 5]), ([1], [5, 5]), ([1, 1], [5]), ([1, 2], [])])
def test_too_few_ratings_have_no_impact(inside, outside):
    assert impact(inside, outside) is None
