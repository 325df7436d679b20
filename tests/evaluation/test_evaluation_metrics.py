import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import v_measure_score

from retriever.core.similarity import normalise
from retriever.evaluation.metrics import (
    ClusteringTask,
    cluster_v_measures,
    clustering_score,
    clustering_seeds,
    cosines,
    own_output_first,
    spearman,
    triplet_successes,
    v_measure,
)
from retriever.evaluation.scores import RESAMPLES, combine, difference, harmonic_mean, mean_score, score

EAST, NORTH, WEST = (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)
BETWEEN, NEAR_EAST = (0.6, 0.8), (0.8, 0.6)


def rows(*vectors):
    return np.array(vectors, dtype=np.float32)


def test_cosines_by_hand():
    found = cosines(rows(EAST, EAST, BETWEEN, NORTH), rows(EAST, WEST, NEAR_EAST, WEST))
    assert found.dtype == np.float64
    assert found == pytest.approx([1, -1, 0.96, 0])
    assert cosines(rows(EAST)[:, None], rows(NORTH, BETWEEN)[None]).tolist() == [pytest.approx([0, 0.6])]


def test_triplet_success_is_strict():
    anchors = rows(EAST, EAST, EAST, BETWEEN)
    found = triplet_successes(anchors, rows(BETWEEN, WEST, BETWEEN, NORTH), rows(NORTH, NORTH, BETWEEN, EAST))
    assert found.tolist() == [1, 0, 0, 1]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.data())
def test_spearman_is_scipys(left, data):
    right = data.draw(st.lists(st.floats(-2, 2, width=16), min_size=len(left), max_size=len(left)))
    if len(set(left)) == 1 or len(set(right)) == 1:
        assert spearman(np.array(left), np.array(right)) == 0
    else:
        assert spearman(np.array(left), np.array(right)) == pytest.approx(spearmanr(left, right).statistic)


def test_spearman_by_hand():
    assert spearman(np.array([1, 2, 3]), np.array([10, 20, 15])) == pytest.approx(0.5)
    assert spearman(np.array([0.2, 0.9, 0.1]), np.array([False, True, False])) == pytest.approx(np.sqrt(3) / 2)
    assert spearman(np.array([1, 2, 3, 4]), np.array([4, 3, 2, 1])) == pytest.approx(-1)


def test_irs_wants_the_own_output_above_all_else():
    pool = rows(EAST, NORTH, WEST, BETWEEN)
    queries = rows(EAST, NEAR_EAST, BETWEEN, (0.0, -1.0))
    own = np.array([0, 3, 1, 2])
    # the third is closer to BETWEEN than to its output; the last is as far from its output as from EAST
    assert own_output_first(queries, pool, own).tolist() == [1, 1, 0, 0]
    assert own_output_first(queries[:1], np.repeat(pool[:1], 3, axis=0), np.array([1])).tolist() == [0]


def test_irs_in_blocks_is_irs_at_once():
    generator = np.random.default_rng(0)
    pool = generator.normal(size=(40, 4)).astype(np.float32)
    own = generator.integers(0, 40, 700)
    queries = pool[own] + generator.normal(size=(700, 4)).astype(np.float32)
    expected = (queries @ pool.T).argmax(axis=1) == own
    assert own_output_first(queries, pool, own).tolist() == expected.tolist()
    assert 0 < expected.mean() < 1


@pytest.mark.parametrize("seed", range(5))
def test_the_v_measure_is_scikit_learns(seed):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, generator.integers(1, 9), 60)
    clusters = np.where(generator.random(60) < 0.6, labels, generator.integers(0, 9, 60))
    assert v_measure(labels, clusters) == pytest.approx(v_measure_score(labels, clusters), abs=1e-12)


@pytest.mark.parametrize(
    "labels, clusters, value",
    [
        ([0, 0, 1, 1], [5, 5, 2, 2], 1),
        ([0, 0, 1, 1], [0, 1, 0, 1], 0),
        ([0, 0, 1, 1], [0, 0, 0, 0], 0),
        ([3, 3, 3], [1, 1, 1], 1),
        ([0, 0, 1, 1], [0, 0, 1, 2], 2 * (2 / 3) / (1 + 2 / 3)),  # completeness is 1 - (ln 2 / 2) / (3 ln 2 / 2)
    ],
)
def test_the_v_measure_of_cases_done_by_hand(labels, clusters, value):
    assert v_measure(np.array(labels), np.array(clusters)) == pytest.approx(value)


def test_length_does_not_matter_and_seeds_decide():
    generator = np.random.default_rng(0)
    centres = np.eye(4, 8)[generator.integers(0, 4, 200)]
    rows = normalise(centres + 0.3 * generator.standard_normal((200, 8)))
    labels = [str(one) for one in centres.argmax(axis=1)]
    seeds = clustering_seeds(3)
    assert len(set(seeds) | set(clustering_seeds(2))) == 10
    once = cluster_v_measures(rows, labels, seeds)
    again = cluster_v_measures(rows * generator.uniform(1, 50, (200, 1)).astype(np.float32), labels, seeds)
    assert once.assignments.shape == (5, 200)
    assert np.allclose(once.values, again.values)
    assert once.mean(np.arange(200)) == pytest.approx(np.mean([v_measure_score(labels, a) for a in once.assignments]))
    assert once.values.mean() > 0.8


def test_the_interval_surrounds_the_value_though_there_are_many_labels():
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 40, 400)
    noisy = [np.where(generator.random(400) < 0.5, labels, generator.integers(0, 40, 400)) for _ in range(3)]
    clusterings = ClusteringTask(labels, np.array(noisy))
    found = clustering_score("task", clusterings, seed=0, note="under 'x'")
    assert found.value == pytest.approx(100 * np.mean([v_measure_score(labels, one) for one in noisy]))
    assert found.low < found.value < found.high < found.low + 8
    assert found.resampled.mean() == pytest.approx(found.value)
    assert found.note.startswith("under 'x'; 3 runs, standard deviation ")


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
