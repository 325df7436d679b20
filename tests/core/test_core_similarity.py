import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.core.similarity import (
    LEVELS,
    merge,
    normalise,
    pad,
    pair_quantiles,
    percentile,
    reciprocal_rank_fusion,
    top_k,
)
from retriever.core.types import Neighbours


def scores(*rows):
    return np.array(rows, dtype=np.float32)


def ids(*values):
    return np.array(values, dtype=np.int64)


def found(identifiers, values):
    return Neighbours(np.array(identifiers, dtype=np.int64), np.array(values, dtype=np.float32))


def test_normalise_by_hand():
    vectors = normalise([[3, 4], [0, 0], [-2, 0]])
    assert vectors.dtype == np.float32
    assert vectors == pytest.approx(np.array([[0.6, 0.8], [0, 0], [-1, 0]]))


def test_normalise_leaves_what_it_was_given():
    given_rows = np.array([[3.0, 4.0]], dtype=np.float32)
    normalise(given_rows)
    assert given_rows.tolist() == [[3.0, 4.0]]


@given(st.lists(st.lists(st.floats(-1e3, 1e3, width=32), min_size=3, max_size=3), min_size=1, max_size=5))
def test_normalised_rows_have_length_one_and_keep_their_direction(rows):
    for row, vector in zip(rows, normalise(rows), strict=True):
        length = math.hypot(*row)
        if length > 1e-10:
            assert math.hypot(*vector.tolist()) == pytest.approx(1, abs=1e-5)
            assert vector == pytest.approx(np.array(row) / length, abs=1e-5)


def test_top_k_pads_when_there_is_less():
    best = top_k(scores([0.5, 0.9]), ids(7, 8), 4)
    assert best.ids.tolist() == [[8, 7, -1, -1]]
    assert best.scores[0, 2:].tolist() == [-math.inf, -math.inf]
    nothing = top_k(np.zeros((2, 0), dtype=np.float32), ids(), 1)
    assert nothing.ids.tolist() == [[-1], [-1]]


@given(
    st.lists(st.sampled_from([-0.5, 0.0, 0.25, 1.0]), min_size=1, max_size=12),
    st.integers(1, 14),
    st.randoms(use_true_random=False),
)
def test_top_k_is_sorting(values, k, random):
    identifiers = random.sample(range(100), len(values))
    expected = sorted(zip(values, identifiers, strict=True), key=lambda hit: (-hit[0], hit[1]))[:k]
    best = top_k(scores(values), ids(*identifiers), k)
    assert best.ids[0, : len(expected)].tolist() == [identifier for _, identifier in expected]
    assert best.scores[0, : len(expected)].tolist() == [value for value, _ in expected]
    assert best.ids.shape == (1, k)


def test_pad_leaves_a_result_that_is_wide_enough():
    wide = found([[1, 2]], [[0.5, 0.4]])
    assert pad(wide, 2) is wide
    padded = pad(wide, 3)
    assert padded.ids.tolist() == [[1, 2, -1]]
    assert padded.scores[0, 2] == -math.inf
    assert padded.scores.dtype == np.float32


def test_merge_by_hand():
    one = found([[5, 1, -1], [2, -1, -1]], [[0.9, 0.5, -math.inf], [0.1, -math.inf, -math.inf]])
    other = found([[4, 3], [9, 8]], [[0.9, 0.5], [0.7, 0.1]])
    merged = merge([one, other], 4)
    assert merged.ids.tolist() == [[4, 5, 1, 3], [9, 2, 8, -1]]
    assert merged.scores[1].tolist() == [pytest.approx(0.7), pytest.approx(0.1), pytest.approx(0.1), -math.inf]
    assert merge([one, other], 1).ids.tolist() == [[4], [9]]
    assert merge([one], 5).ids.tolist() == [[5, 1, -1, -1, -1], [2, -1, -1, -1, -1]]


def test_merge_never_prefers_padding_to_a_hit():
    hit = found([[7]], [[-math.inf]])
    padding = found([[-1]], [[-math.inf]])
    assert merge([padding, hit], 1).ids.tolist() == [[7]]


@given(st.lists(st.floats(-1, 1, width=16), min_size=1, max_size=15), st.integers(1, 6), st.data())
def test_merging_parts_is_searching_the_whole(values, k, data):
    cut = data.draw(st.integers(0, len(values)))
    everything = np.arange(len(values), dtype=np.int64)
    whole = top_k(scores(values), everything, k)
    parts = [top_k(scores(values[part]), everything[part], k) for part in (slice(cut), slice(cut, None))]
    merged = merge(parts, k)
    assert merged.ids.tolist() == whole.ids.tolist()
    assert merged.scores.tolist() == whole.scores.tolist()


def test_reciprocal_rank_fusion_by_hand():
    fused = reciprocal_rank_fusion([[1, 2, 3], [3, 1]])
    assert fused == {1: 1 / 61 + 1 / 62, 2: 1 / 62, 3: 1 / 63 + 1 / 61}
    assert sorted(fused, key=fused.get, reverse=True) == [1, 3, 2]
    assert reciprocal_rank_fusion([[9], [9]], constant=1) == {9: 1.0}
    assert reciprocal_rank_fusion([]) == {}


def test_quantiles_of_pairs_by_hand():
    quantiles = pair_quantiles(normalise([[1, 0], [1, 0], [0, 1]]))  # cosines 1, 0, 0
    assert len(quantiles) == len(LEVELS) == 299
    assert quantiles[LEVELS <= 0.5] == pytest.approx(0)
    assert quantiles[LEVELS > 0.5] == pytest.approx(2 * LEVELS[LEVELS > 0.5] - 1)  # between 0 and 1


def test_a_percentile_is_the_share_of_pairs_below():
    vectors = normalise(np.random.default_rng(0).normal(size=(400, 6)))
    quantiles = pair_quantiles(vectors)
    cosines = [float(vectors[i] @ vectors[j]) for i in range(400) for j in range(i)]
    for cosine in (-0.9, -0.3, 0.0, 0.4, 0.8, 0.9, 0.99):
        share = 100 * sum(one < cosine for one in cosines) / len(cosines)
        assert percentile(cosine, quantiles) == pytest.approx(share, abs=0.2 if share < 99 else 0.01)
    assert percentile(-1.1, quantiles) == 0
    assert percentile(1.1, quantiles) == pytest.approx(99.99)


def test_of_pairs_that_tie_none_is_below():
    quantiles = pair_quantiles(normalise([[1, 0]] * 5))
    assert percentile(1.0, quantiles) == 0
    assert percentile(1.01, quantiles) == pytest.approx(99.99)
