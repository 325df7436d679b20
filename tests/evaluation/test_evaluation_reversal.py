import numpy as np
import pytest

from retriever.core.encoder import Encoder, EncoderSpec
from retriever.core.types import Encoded
from retriever.evaluation.reversal import Grid, Question, grid_reversals, grid_triplets, read_grid

TEXTS = ["red car", "red ship", "blue car", "blue ship", "red bike"]
COLOUR = Question("colour", ["Which colour?", "Name the colour."], ["red", "red", "blue", "blue", "red"])
VEHICLE = Question("vehicle", ["Which vehicle?", "Name the vehicle."], ["car", "ship", "car", "ship", "bike"])


class Places(Encoder):
    """Puts the texts at given angles, in degrees, under each instruction."""

    def __init__(self, **angles):
        self.angles = angles
        self.calls = []

    spec = EncoderSpec("places".ljust(64, "0"), 2)

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        self.calls.append((list(texts), list(instructions)))
        found = [np.radians([self.of(one)[TEXTS.index(text)] for text in texts]) for one in instructions]
        rows = [np.stack([np.cos(one), np.sin(one)], axis=1).astype(np.float32) for one in found]
        return [Encoded(one, [[] for _ in texts]) for one in rows]

    def of(self, instruction):
        for word, angles in self.angles.items():
            if word in instruction:
                return angles
        return self.angles["plain"]


BY_COLOUR, BY_VEHICLE, APART = [0, 0, 90, 90, 0], [0, 45, 0, 45, 90], [0, 10, 30, 70, 150]


def measured(encoder, *questions):
    grid = Grid("five texts", TEXTS, questions or [COLOUR, VEHICLE])
    alike = read_grid(encoder, grid)
    return grid_triplets(grid, alike), grid_reversals(grid, alike)


def test_who_follows_both_questions_gets_everything():
    triplets, (pair,) = measured(Places(colour=BY_COLOUR, vehicle=BY_VEHICLE, plain=APART))
    assert [one.kind for one in triplets] == ["colour", "vehicle"]
    assert [one.by_wording.tolist() for one in triplets] == [[1, 1], [1, 1]]
    assert triplets[1].asked.shape == (2, 4)  # the only bike is alike to none
    assert pair.kinds == ("colour", "vehicle")
    assert pair.successes.shape == (2, 2, 4)  # the bike has no other text of its vehicle
    assert pair.by_wording.tolist() == [1, 1]


def test_triplets_by_hand():
    (colour, _), _ = measured(Places(plain=APART))
    # each of the red ones has two of its colour against two others, each of the blue ones one against three
    expected = [(2 + 0) / 4, (2 + 0) / 4, 1 / 3, 3 / 3, (0 + 0) / 4]
    assert colour.unasked == pytest.approx(expected)
    assert colour.asked == pytest.approx(np.array([expected, expected]))


def test_a_wording_that_is_not_followed_lowers_its_own_figure_alone():
    (colour, _), (pair,) = measured(Places(Which=BY_COLOUR, plain=BY_VEHICLE))
    assert colour.by_wording[0] == 1 > colour.by_wording[1]
    assert pair.by_wording.tolist() == [0, 0]  # first both by colour, then both by vehicle


@pytest.mark.parametrize("angles", [APART, BY_COLOUR, BY_VEHICLE, [0] * 5, [0, 90, 180, 45, 10]])
def test_who_ignores_the_question_cannot_pass_one_half(angles):
    _, (pair,) = measured(Places(plain=angles))
    assert pair.successes.sum(axis=0) == pytest.approx(np.ones((2, 4)), abs=1e-12)
    assert (pair.by_wording <= 0.5 + 1e-12).all()


def test_equal_similarities_count_half():
    (colour, _), (pair,) = measured(Places(plain=[0] * 5))
    assert colour.unasked.tolist() == [0.5] * 5
    assert pair.by_wording.tolist() == [0.5, 0.5]


def test_answers_that_say_nothing_make_no_texts_alike():
    silent = Question("colour", ["Which colour?"], ["red", "red", None, None, "blue"])
    (colour, _), (pair,) = measured(Places(colour=[0, 0, 90, 90, 90], vehicle=BY_VEHICLE, plain=APART), silent, VEHICLE)
    assert colour.asked.tolist() == [[1, 1]]  # of both red ones, against all that are not red
    assert pair.successes.shape == (2, 1, 2)


def test_questions_that_say_the_same_are_no_pair():
    other = Question("paint", ["Which paint?"], ["light", "light", "dark", "dark", "light"])
    triplets, pairs = measured(Places(plain=APART), COLOUR, other)
    assert (len(triplets), pairs) == (2, [])


def test_a_question_with_one_answer_has_no_triplets():
    assert measured(Places(plain=APART), Question("sort", ["Which sort?"], ["text"] * 5)) == ([], [])


def test_texts_are_read_once_under_all_wordings_and_not_asked():
    encoder = Places(plain=APART)
    measured(encoder)
    assert encoder.calls == [(TEXTS, ["", *COLOUR.wordings, *VEHICLE.wordings])]
