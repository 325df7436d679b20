import json
from dataclasses import replace

import numpy as np
import pytest
from verdict import COUNTS, FALSE_ALARM, FALSE_ASSURANCE, USED, Case, area, fitted, left_out, thresholds
from verdict_candidates import copied, dimensions, group_area, overlap, shared_neighbours

from retriever.core.types import Encoded
from retriever.index.verdicts.measured import measured_of


def case(source, followed, value, asked=None, vector=(1.0, 0.0)):
    asked = asked if asked is not None else 80.0 if followed else 52.0
    seen = {count: dict.fromkeys(USED, value) for count in COUNTS}
    return Case(source, "kind", "Which?", False, asked, 50.0, seen, np.array(vector))


def test_the_truth_needs_a_share_and_that_little_is_lost():
    assert case("x", True, 0, asked=60.0).followed
    assert not case("x", True, 0, asked=59.9).followed
    assert Case("x", "k", "q", False, 90.0, 95.0, {}, np.zeros(2)).followed
    assert not Case("x", "k", "q", False, 90.0, 95.1, {}, np.zeros(2)).followed


def test_a_chance_is_by_the_other_sources_alone():
    found = [case(f"{place}", place % 2 == 0, place % 2 + 0.01 * place) for place in range(12)]
    chances = left_out(found, 40)
    assert chances[::2].min() > chances[1::2].max()
    twisted = [*found, *(case("odd", place % 2 == 1, place % 2) for place in range(4))]
    assert left_out(twisted, 40)[-4] > left_out(twisted, 40)[-3]  # its own four would say the opposite


def test_a_question_is_likelier_followed_that_is_worded_as_those_that_are():
    found = [case(f"{place}", place % 2 == 0, 0.5, vector=np.eye(3)[place % 2]) for place in range(12)]
    chances = left_out(found, 40)
    assert chances[::2].min() > chances[1::2].max()
    assert np.ptp(left_out(found, 40, say=0.0)) < 0.1


def test_few_are_called_what_they_are_not():
    chances = np.linspace(0.01, 1, 100)
    truth = chances > 0.5
    truth[[30, 95]] = [True, False]
    followed, not_followed = thresholds(chances, truth)
    assert (~truth[chances >= followed]).mean() <= FALSE_ASSURANCE
    assert truth[chances <= not_followed].mean() <= FALSE_ALARM
    assert not_followed < followed < 0.7


def test_what_is_written_is_what_the_package_reads():
    found = [case(f"{place}", place % 2 == 0, float(place % 2), vector=np.eye(3)[place % 2]) for place in range(12)]
    document = {**fitted(found), "fingerprint": "f" * 64, "plain": "p" * 64, "followed": 0.7, "not_followed": 0.3}
    model = measured_of(json.loads(json.dumps(document)))
    assert (model.fingerprint, model.level(0.7), model.level(0.3)) == ("f" * 64, "followed", "not followed")
    low, high = (model.chance(dict.fromkeys(USED, value)) for value in (1.0, 0.0))
    assert high > 0.5 > low
    assert model.chance({**dict.fromkeys(USED, 0.5), **model.of_vector(np.eye(3)[0])}) > 0.5
    assert model.chance({**dict.fromkeys(USED, 0.5), **model.of_vector(np.eye(3)[1])}) < 0.5


def test_wordings_of_a_question_are_drawn_together():
    chances = np.repeat(np.random.default_rng(0).random(16), 6) + np.tile([0.3, 0.0], 8).repeat(6)
    together = [case(f"{row // 6}", row // 6 % 2 == 0, 0) for row in range(96)]
    apart = [replace(one, source=f"{row}") for row, one in enumerate(together)]
    wide, narrow = (area(found, chances) for found in (together, apart))
    assert (wide["questions"], narrow["questions"], wide["cases"]) == (16, 96, 96)
    assert wide["auc"] == narrow["auc"]
    assert narrow["high"] - narrow["low"] < 0.7 * (wide["high"] - wide["low"])


# The features that do not ship, by hand.


SQUARE = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], dtype=np.float32)


def test_shared_neighbours_by_hand():
    line = np.array([[1, 0.9, 0.1], [0.9, 1, 0.2], [0.1, 0.2, 1]])
    turned = np.array([[1, 0.1, 0.9], [0.1, 1, 0.2], [0.9, 0.2, 1]])
    # Nearest: 1, 0, 1 against 2, 2, 0.
    assert shared_neighbours(line, turned, 1) == 0
    assert shared_neighbours(line, line, 1) == 1
    assert shared_neighbours(line, turned, 8) == 1  # of two others, both


def test_dimensions_by_hand():
    assert dimensions(SQUARE) == pytest.approx(2)  # evenly over two directions
    assert dimensions(SQUARE[[0, 2]]) == pytest.approx(1)
    assert dimensions(SQUARE[[0, 0]]) == 1


def test_words_by_hand():
    assert overlap([["a", "b"], []], [["b", "c"], []]) == pytest.approx((1 / 3 + 0) / 2)
    heard = Encoded(SQUARE[:3], [["lamp", "toy"], [], ["mug"]])
    assert copied(heard, ["A Lamp", "toy", "mug"]) == pytest.approx((0.5 + 1) / 2)
    assert copied(Encoded(SQUARE[:1], [[]]), ["A lamp"]) == 0


def test_texts_of_a_word_that_lie_together_by_hand():
    cosines = np.array([[1, 0.9, 0.1, 0.3], [0.9, 1, 0.2, 0.9], [0.1, 0.2, 1, 0.5], [0.3, 0.9, 0.5, 1]])
    # Same: 0.9 and 0.5; different: 0.1, 0.3, 0.2, 0.9. Of eight comparisons six are right and one is a tie.
    assert group_area(cosines, ["a", "a", "b", "b"]) == pytest.approx((3.5 + 3) / 8)
    assert group_area(cosines, ["a"] * 4) == group_area(cosines, list("abcd")) == 0.5
