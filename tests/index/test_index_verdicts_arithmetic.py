import numpy as np
import pytest

from retriever.index.verdicts import arithmetic as a
from retriever.index.verdicts.reading import Heard

SQUARE = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], dtype=np.float32)
SWAPPED = SQUARE[[0, 2, 1, 3]]


def test_likeness_by_hand():
    one, other = a.pair_cosines(SQUARE), a.pair_cosines(SWAPPED)
    assert a.likeness(one, a.pair_cosines(SQUARE[:, ::-1])) == pytest.approx(1)  # turned, all alike
    # Opposite pairs are 0-2 and 1-3, then 0-1 and 2-3: cosines (0, -1, 0, 0, -1, 0) against (-1, 0, 0, 0, 0, -1).
    assert a.likeness(one, other) == pytest.approx(-0.5)
    assert a.likeness(one, np.ones((4, 4))) == 0
    assert a.likeness(np.ones((4, 4)), np.ones((4, 4))) == 1


def test_shared_neighbours_by_hand():
    line = np.array([[1, 0.9, 0.1], [0.9, 1, 0.2], [0.1, 0.2, 1]])
    turned = np.array([[1, 0.1, 0.9], [0.1, 1, 0.2], [0.9, 0.2, 1]])
    # Nearest: 1, 0, 1 against 2, 2, 0.
    assert a.shared_neighbours(line, turned, 1) == 0
    assert a.shared_neighbours(line, line, 1) == 1
    assert a.shared_neighbours(line, turned, 8) == 1  # of two others, both


def test_dimensions_by_hand():
    assert a.dimensions(SQUARE) == pytest.approx(2)  # evenly over two directions
    assert a.dimensions(SQUARE[[0, 2]]) == pytest.approx(1)
    assert a.dimensions(SQUARE[[0, 0]]) == 1


def test_words_by_hand():
    assert a.overlap([["a", "b"], []], [["b", "c"], []]) == pytest.approx((1 / 3 + 0) / 2)
    assert a.entropy(["a", "a"]) == 0
    assert a.entropy(["a", "b"]) == pytest.approx(1)
    heard = Heard(SQUARE[:3], [["lamp", "toy"], [], ["mug"]])
    assert a.copied(heard, ["A Lamp", "toy", "mug"]) == pytest.approx((0.5 + 1) / 2)
    assert a.copied(Heard(SQUARE[:1], [[]]), ["A lamp"]) == 0


def test_texts_of_a_word_that_lie_together_by_hand():
    cosines = np.array([[1, 0.9, 0.1, 0.3], [0.9, 1, 0.2, 0.9], [0.1, 0.2, 1, 0.5], [0.3, 0.9, 0.5, 1]])
    # Same: 0.9 and 0.5; different: 0.1, 0.3, 0.2, 0.9. Of eight comparisons six are right and one is a tie.
    assert a.group_area(cosines, ["a", "a", "b", "b"]) == pytest.approx((3.5 + 3) / 8)
    assert a.group_area(cosines, ["a"] * 4) == a.group_area(cosines, list("abcd")) == 0.5
