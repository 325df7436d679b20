import numpy as np
import pytest
from scipy import stats

from retriever.clusters.arithmetic import estimates
from retriever.clusters.arithmetic.estimates import Estimate, Outcome
from retriever.clusters.arithmetic.intervals import Interval, Share, chance, difference, holm, impact, share
from retriever.clusters.arithmetic.sampling import Sample

TEXTS = 1000


def corpus(share: float = 0.2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.arange(TEXTS) < share * TEXTS).astype(float)


def guesses(has: np.ndarray, right: float, seed: int = 1) -> np.ndarray:
    """Predictions that are right for a share of the texts."""
    return np.where(np.random.default_rng(seed).random(len(has)) < right, has, 1 - has)


def sampled(size: int, seed: int = 0, texts: int = TEXTS):
    drawn = np.random.default_rng((seed, 7)).permutation(texts) < size  # not the order of `corpus`
    return Sample(drawn, drawn)


def repeated(estimate, truth: float, size: int = 200, runs: int = 1000):
    """How often an estimate's interval holds, its mean value and its mean width, which is as large as it must be."""
    intervals = [estimate(sampled(size, seed)).interval for seed in range(runs)]
    held = np.mean([interval.low <= truth <= interval.high for interval in intervals])
    values, width = [interval.value for interval in intervals], np.mean([i.high - i.low for i in intervals])
    assert width < 1.25 * 2 * 1.96 * np.std(values)
    return held, np.mean(values), width


@pytest.mark.parametrize("right", [0.05, 0.5, 0.8, 0.97])
def test_a_share_is_right_however_wrong_its_predictions(right):
    has = corpus()
    outcome = Outcome(has, guesses(has, right))
    held, value, _ = repeated(lambda sample: estimates.share(outcome, sample), 0.2)
    assert held >= 0.93
    assert value == pytest.approx(0.2, abs=0.005)
    assert abs(outcome.predicted.mean() - 0.2) > 0.01  # what the predictions alone would say


def test_good_predictions_narrow_an_interval_and_bad_ones_widen_it():
    has = corpus()
    widths = [
        repeated(lambda sample, f=f: estimates.share(Outcome(has, f), sample), 0.2, runs=200)[2]
        for f in (guesses(has, 0.99), None, guesses(has, 0.5))
    ]
    assert widths[0] < 0.5 * widths[1] < widths[1] < widths[2]


def test_the_sample_alone_has_wilsons_interval_of_a_sample_from_a_finite_corpus():
    has, sample = corpus(), sampled(200)
    cases = int(has[sample.drawn].sum())
    found = estimates.share(Outcome(has), sample)
    assert (found.cases, found.read) == (cases, 200)
    assert found.interval.value == pytest.approx(cases / 200)
    smoothed = (cases + 1) / 202
    spread = (cases * (1 - cases / 200) + smoothed * (1 - smoothed)) / 200  # of the answers and of one more
    unread = spread * (1 / 200) / 0.8  # the variance of the mean of the 800 not read
    effective = cases / 200 * (1 - cases / 200) / unread
    z = stats.t.ppf(0.975, cases)
    centre = (cases / 200 + z**2 / (2 * effective)) / (1 + z**2 / effective)
    spread = cases / 200 * (1 - cases / 200) / effective + (z / (2 * effective)) ** 2
    half = z * np.sqrt(spread) / (1 + z**2 / effective)
    ends = [cases + 800 * end for end in (centre - half, centre + half)]
    assert found.interval.low * TEXTS == pytest.approx(np.floor(ends[0]))
    assert found.interval.high * TEXTS == pytest.approx(np.ceil(ends[1]))


def test_a_rare_answer_has_too_few_cases_unless_all_were_read():
    has = corpus(0.03)
    found = estimates.share(Outcome(has), sampled(100))
    assert found.interval is None
    assert found.cases < estimates.LEAST
    everything = sampled(TEXTS)
    assert estimates.share(Outcome(has), everything) == Estimate(Interval(0.03, 0.03, 0.03), 30, TEXTS)
    assert estimates.share(Outcome(np.zeros(0)), sampled(0, texts=0)).interval is None
    assert estimates.share(Outcome(has), sampled(0)).interval is None


def test_an_interval_holds_no_share_that_texts_read_beside_the_sample_rule_out():
    has, sample = corpus(0.3), sampled(100)
    beside = Sample(sample.drawn | (has > 0), sample.drawn)  # a search met all texts with the answer
    found = estimates.share(Outcome(has), beside)
    assert found.cases == estimates.share(Outcome(has), sample).cases == has[sample.drawn].sum()
    assert found.read == 100
    assert found.interval.low == 0.3
    without = Sample(sample.drawn | (has == 0), sample.drawn)
    assert estimates.share(Outcome(has), without).interval.high == 0.3


def test_an_answer_that_none_lacks_may_still_be_lacking():
    found = estimates.share(Outcome(np.ones(TEXTS)), sampled(100)).interval
    assert found.value == found.high == 1
    assert 0.9 < found.low < 0.99


def test_errors_that_were_not_met_are_allowed_for():
    has = corpus()
    found = estimates.share(Outcome(has, has), sampled(100)).interval
    assert found.value == pytest.approx(0.2)
    assert 0.005 < found.high - found.low < 0.05


def test_answers_of_the_same_texts_are_compared():
    first = corpus(0.3)
    second = np.where(first > 0, 0, corpus(0.4, seed=3))
    truth = first.mean() - second.mean()
    outcomes = Outcome(first, guesses(first, 0.8)), Outcome(second)
    held, value, _ = repeated(lambda sample: estimates.answer_difference(*outcomes, sample), truth)
    assert held >= 0.93
    assert value == pytest.approx(truth, abs=0.01)
    everything = estimates.answer_difference(*outcomes, sampled(TEXTS))
    assert everything.interval.value == everything.interval.low == pytest.approx(truth)
    assert estimates.answer_difference(Outcome(corpus(0.01)), Outcome(corpus(0.01, 9)), sampled(50)).interval is None


# Intervals.


@pytest.mark.parametrize(("count", "total"), [(1, 9), (81, 263), (5, 5), (0, 20), (7, 7000)])
def test_a_share_has_the_interval_of_wilson(count, total):
    found = share(count, total)
    assert found.value == count / total
    known = stats.binomtest(count, total).proportion_ci(0.95, method="wilson")
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=1e-12)


def test_the_share_of_nothing_may_be_anything():
    assert share(0, 0) == Share(0.0, 0.0, 1.0, 0, 0)


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
