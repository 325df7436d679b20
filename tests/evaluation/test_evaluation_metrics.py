import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from retriever.evaluation.metrics import (
    beats_negatives,
    cosines,
    delta,
    margins,
    own_output_first,
    spearman,
    triplet_successes,
)

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


def test_delta_by_hand():
    values = np.array([[0.5, 0.25], [0.125, 0.5]])
    assert delta(values).tolist() == [0.375, -0.25]


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


def test_igs_and_itds_by_hand():
    queries, outputs = rows(EAST, EAST, EAST), rows(BETWEEN, NORTH, BETWEEN)
    negatives = [rows(NORTH, WEST), rows(BETWEEN), rows(BETWEEN, WEST)]
    assert beats_negatives(queries, outputs, negatives).tolist() == [1, 0, 0]
    assert margins(queries, outputs, negatives) == pytest.approx([0.6 - (0 - 1) / 2, 0 - 0.6, 0.6 - (0.6 - 1) / 2])
