import numpy as np
import pytest

from retriever.evaluation.scores import RESAMPLES, combine, difference, harmonic_mean, mean_score, score

VALUES = np.array([1.0, 0, 0, 1, 1, 1, 0, 1])


def test_a_mean_by_hand():
    found = mean_score("task", "metric", VALUES, seed=0, scale=100, headline=True, note="of eight")
    assert found.value == 62.5
    assert (found.task, found.metric, found.items, found.headline, found.note) == (
        "task",
        "metric",
        8,
        True,
        "of eight",
    )
    assert found.resampled.shape == (RESAMPLES,)
    assert set(found.resampled.tolist()) <= {100 * hits / 8 for hits in range(9)}


def test_the_interval_is_that_of_the_textbook():
    values = np.random.default_rng(0).normal(3, 2, 2000)
    found = mean_score("task", "metric", values, seed=0)
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert found.low == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert found.high == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)


def test_a_statistic_sees_row_numbers_with_repeats():
    seen = []

    def statistic(rows):
        seen.append(rows)
        return float(VALUES[rows].max())

    found = score("task", "max", 8, statistic, seed=3)
    assert seen[0].tolist() == list(range(8))
    assert all(len(rows) == 8 and rows.min() >= 0 and rows.max() < 8 for rows in seen)
    assert any(len(set(rows.tolist())) < 8 for rows in seen[1:])
    assert len(seen) == 1 + RESAMPLES
    assert found.value == 1


def test_one_seed_gives_one_set_of_resamples():
    first, again = (mean_score("task", "metric", VALUES, seed=7) for _ in range(2))
    other = mean_score("task", "metric", VALUES, seed=8)
    assert first.resampled.tolist() == again.resampled.tolist()
    assert first.resampled.tolist() != other.resampled.tolist()


def test_a_difference_is_paired():
    ours = mean_score("task", "metric", VALUES + 0.25, seed=0)
    theirs = mean_score("task", "metric", VALUES, seed=0)
    gap = difference(ours, theirs)
    assert (gap.value, gap.low, gap.high) == pytest.approx((0.25, 0.25, 0.25))
    assert gap.certain
    assert ours.high - ours.low > 0.5


def test_a_difference_that_may_be_none_is_not_certain():
    gap = difference(mean_score("t", "m", VALUES, seed=0), mean_score("t", "m", VALUES[::-1].copy(), seed=0))
    assert gap.value == 0
    assert gap.low < 0 < gap.high
    assert not gap.certain


def test_scores_of_other_items_have_no_interval_between_them():
    gap = difference(mean_score("t", "m", VALUES, seed=0), mean_score("t", "m", VALUES[:4], seed=0))
    assert gap.low == gap.value == gap.high == 0.125


def test_a_combined_score_has_the_interval_of_its_parts_together():
    parts = [mean_score("t", "a", VALUES, seed=0), mean_score("t", "b", 1 - VALUES, seed=0)]
    total = combine("t", "sum", parts, lambda values: values.sum(axis=0), headline=True, note="both")
    assert (total.value, total.low, total.high) == pytest.approx((1, 1, 1))
    assert (total.items, total.headline, total.note) == (8, True, "both")
    mean = combine("t", "harmonic", parts, harmonic_mean)
    assert mean.value == pytest.approx(2 / (1 / 0.625 + 1 / 0.375))
    assert mean.resampled == pytest.approx(harmonic_mean(np.array([part.resampled for part in parts])))


@pytest.mark.parametrize(
    ("values", "expected"),
    [([50, 50], 50), ([100, 25], 40), ([100, 0], 0), ([30, -10], 0), ([7], 7), ([1, 2, 4], 12 / 7)],
)
def test_harmonic_mean(values, expected):
    assert harmonic_mean(np.array([values], dtype=float).T).tolist() == pytest.approx([expected])
