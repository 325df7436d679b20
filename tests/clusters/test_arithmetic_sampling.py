from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.clusters.arithmetic.sampling import Sample, due, permanent_numbers, threshold_for

HASHES = st.lists(st.binary(min_size=8, max_size=8), unique=True, max_size=60)


def drawn(hashes, most, asked=()):
    """The texts of a sample, the first of the order first."""
    numbers, known = permanent_numbers(hashes), np.isin(np.arange(len(hashes)), list(asked))
    threshold = threshold_for(most, numbers, known)
    return [hashes[row] for row in np.argsort(numbers) if numbers[row] <= threshold]


def test_a_text_always_has_the_same_number():
    numbers = permanent_numbers([b"one", b"two"])
    assert numbers.tolist() == [0.6310267371639791, 0.8804519403834218]  # another key would forget every sample
    assert len(permanent_numbers([])) == 0


def test_numbers_are_uniform():
    numbers = np.sort(permanent_numbers(str(row).encode() for row in range(20_000)))
    assert 0 < numbers[0] <= numbers[-1] <= 1
    assert np.abs(numbers - np.arange(1, 20_001) / 20_000).max() < 1.63 / np.sqrt(20_000)  # Kolmogorov: 1 in 100


@given(HASHES, st.integers(0, 70), st.randoms())
def test_a_sample_has_its_size_and_its_order_hangs_on_no_other_text(hashes, most, random):
    sample = drawn(hashes, most)
    assert len(sample) == min(most, len(hashes))
    shuffled = random.sample(hashes, len(hashes))
    assert drawn(shuffled, most) == sample
    assert sample == [each for each in drawn(hashes, len(hashes)) if each in sample]
    few = [each for each in hashes if random.random() < 0.5]
    assert drawn(few, len(few)) == [each for each in drawn(hashes, len(hashes)) if each in few]


@given(HASHES, st.integers(1, 70), st.binary(min_size=9, max_size=9))
def test_a_text_more_changes_one_drawn_text_at_most(hashes, most, new):
    before, after = drawn(hashes, most), drawn([*hashes, new], most)
    assert len(set(after) - set(before)) <= 1
    assert set(after) - set(before) <= {new} or len(hashes) < most


@given(HASHES.filter(lambda hashes: len(hashes) > 1), st.integers(1, 70), st.data())
def test_a_text_that_goes_is_replaced_by_the_next_of_the_order(hashes, most, data):
    gone = data.draw(st.sampled_from(hashes))
    before, order = drawn(hashes, most), drawn(hashes, len(hashes))
    after = drawn([each for each in hashes if each != gone], most)
    following = order[len(before) : len(before) + 1] if gone in before else []
    assert after == [each for each in [*before, *following] if each != gone]


@given(HASHES, st.sets(st.integers(0, 59)), st.integers(0, 70))
def test_no_more_texts_are_asked_about_than_there_is_room_for(hashes, asked, most):
    numbers, known = permanent_numbers(hashes), np.isin(np.arange(len(hashes)), list(asked))
    threshold = threshold_for(most, numbers, known)
    rows = due(most, threshold, numbers, known)
    assert len(rows) == max(0, min(most, len(hashes)) - known.sum())
    assert not known[rows].any()
    assert np.all(np.diff(numbers[rows]) > 0)
    known[rows] = True
    assert np.all(known[numbers <= threshold])
    assert len(due(most, threshold, numbers, known)) == 0


def test_texts_that_came_below_the_threshold_are_asked_about_as_far_as_there_is_room():
    numbers = np.array([0.5, 0.1, 0.4, 0.2, 0.9])
    asked = np.array([True, False, False, False, False])
    assert due(3, 0.5, numbers, asked).tolist() == [1, 3]
    assert due(1, 0.5, numbers, asked).tolist() == []
    assert due(9, 0.5, numbers, asked).tolist() == [1, 3, 2]


def test_where_searches_used_up_the_room_nothing_is_drawn():
    assert threshold_for(2, np.array([0.1, 0.2, 0.3]), np.array([True, True, False])) == 0.0


@pytest.mark.parametrize("searched", [0, 1, 3])
@pytest.mark.parametrize("room", [1, 2])
def test_shares_are_unbiased_over_all_orders_whatever_searches_chose(searched, room):
    has = np.array([1, 1, 1, 0, 1, 0, 0])  # a search chose texts that have the answer
    asked = np.arange(len(has)) < searched
    means = []
    for order in permutations(np.linspace(0.1, 0.7, len(has))):
        numbers = np.array(order)
        threshold = threshold_for(searched + room, numbers, asked)
        sample = Sample.to(threshold, numbers, asked | (numbers <= threshold))
        means.append(has[sample.drawn].mean())
    assert np.mean(means) == pytest.approx(has.mean())


def test_texts_read_beside_the_sample_do_not_stand_for_others_unless_all_were_read():
    numbers = np.array([0.1, 0.2, 0.3, 0.4])
    part = Sample.to(0.25, numbers, np.array([True, False, True, True]))
    assert part.drawn.tolist() == [True, False, False, False]
    assert Sample.to(0.0, numbers, np.ones(4, dtype=bool)).drawn.all()
