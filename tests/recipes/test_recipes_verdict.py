import json
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from verdict import FALSE_ALARM, FALSE_ASSURANCE, UNLIKE, USED, Case, area, fitted, left_out, level, thresholds
from verdict_truth import Remembered, Truth, shared
from verdict_unlike import judged_sources, misread, unlike

from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.similarity import normalise
from retriever.core.types import Encoded
from retriever.index.verdicts.measured import measured_of

RIGHT = Truth(asked=80.0, unasked=55.0, base=55.0, said=70.0, shared=0.5, base_shared=0.1)
APART = {"topic": 0.0, "suits_topic": 0.0, "asks_topic": 0.0}


def case(source, followed, value, **rest):
    features = {**APART, **dict.fromkeys(USED, value)}
    return Case(source, "kind", "Which?", rest.pop("unlike", False), RIGHT, not followed, features, **rest)


@pytest.mark.parametrize(
    ("changed", "right"),
    [
        ({"asked": 60.0}, True),
        ({"asked": 59.9}, False),
        ({"unasked": 85.0}, True),
        ({"unasked": 85.1}, False),
        ({"base": 85.1}, False),
        ({"said": 54.9}, False),
        ({"shared": 0.09}, False),
        ({"base_shared": 0.62}, True),
        ({"base_shared": 0.63}, False),
    ],
)
def test_the_truth_needs_groups_as_good_as_without_the_question_and_answers(changed, right):
    assert replace(RIGHT, **changed).right is right


def test_a_question_that_a_reader_calls_misread_is_not_followed():
    assert case("x", True, 0).followed
    assert not case("x", False, 0).followed
    assert not replace(case("x", True, 0), truth=None).followed


def test_a_chance_is_by_the_other_kinds_of_text_alone():
    found = [case(f"{place}", place % 2 == 0, place % 2 + 0.01 * place) for place in range(12)]
    chances = left_out(found)
    assert chances[::2].min() > chances[1::2].max()
    twisted = [*found, *(case("odd", place % 2 == 1, place % 2) for place in range(4))]
    assert left_out(twisted)[-4] > left_out(twisted)[-3]  # its own four would say the opposite
    kin = [*found, *(case(name, place % 2 == 1, place % 2) for place, name in enumerate(("examples", "examples_open")))]
    assert left_out(kin)[-2] > left_out(kin)[-1]  # nor do those of texts of the same kind


def test_few_are_called_what_they_are_not():
    chances = np.linspace(0.01, 1, 100)
    truth = chances > 0.5
    truth[[30, 60, 61, 62, 95]] = [True, False, False, False, False]
    found = [case("x", bool(right), 0.0, unlike=row >= 90) for row, right in enumerate(truth)]
    followed, not_followed = thresholds(chances, found)
    assert (~truth[chances >= followed]).mean() <= FALSE_ASSURANCE
    assert truth[chances <= not_followed].mean() <= FALSE_ALARM
    assert not_followed < followed < 0.7
    stricter = [replace(one, unlike=row >= 94) for row, one in enumerate(found)]
    at = thresholds(chances, stricter)[0]
    assert (~truth[94:][chances[94:] >= at]).mean() <= UNLIKE < (~truth[94:]).mean()


def test_answers_by_the_topic_are_unclear_at_best():
    topical = {**APART, "topic": 0.5, "suits_topic": 0.1}
    assert level(case("x", True, 0.0), 0.9, 0.7, 0.2) == "followed"
    assert level(replace(case("x", True, 0.0), features=topical), 0.9, 0.7, 0.2) == "unclear"
    assert level(replace(case("x", True, 0.0), features=topical), 0.1, 0.7, 0.2) == "not followed"


def test_what_is_written_is_what_the_package_reads():
    found = [case(f"{place}", place % 2 == 0, float(place % 2 == 0)) for place in range(12)]
    document = {**fitted(found), "fingerprint": "f" * 64, "plain": "p" * 64, "followed": 0.7, "not_followed": 0.3}
    model = measured_of(json.loads(json.dumps(document)))
    assert (model.fingerprint, model.level(0.7), model.level(0.3)) == ("f" * 64, "followed", "not followed")
    high, low = (model.chance(dict.fromkeys(USED, value)) for value in (1.0, 0.0))
    assert high > 0.5 > low


def test_wordings_of_a_question_are_drawn_together():
    chances = np.repeat(np.random.default_rng(0).random(16), 6) + np.tile([0.3, 0.0], 8).repeat(6)
    together = [case(f"{row // 6}", row // 6 % 2 == 0, 0) for row in range(96)]
    apart = [replace(one, source=f"{row}") for row, one in enumerate(together)]
    wide, narrow = (area(found, chances) for found in (together, apart))
    assert (wide["questions"], narrow["questions"], wide["cases"]) == (16, 96, 96)
    assert wide["auc"] == narrow["auc"]
    assert narrow["high"] - narrow["low"] < 0.7 * (wide["high"] - wide["low"])


def test_k_means_share_what_labels_say_by_hand():
    corners = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)
    labels = list("aaaabbbbcccc")
    assert shared(corners, labels) == pytest.approx(1)
    assert shared(corners, [*labels[:11], None]) == pytest.approx(1)  # who says nothing is left out
    assert shared(corners, list("abc" * 4)) < 0.2


def test_the_questions_of_other_texts_are_those_that_a_reader_judged():
    named = {"examples", "examples_open", "examples_faults", "written"}
    assert named < judged_sources()
    assert {source for source, _ in misread()} <= judged_sources()
    found = {source.name: source for source in islice(unlike([], 80), len(named))}
    assert len(found["written"].texts) == 80
    assert [len(question.wordings) for question in found["written"].questions] == [3] * 6
    assert len(found["examples_faults"].texts) == 70
    open_ = found["examples_open"]
    wordings = {(open_.name, wording) for question in open_.questions for wording in question.wordings}
    assert 0 < len(wordings & misread()) <= len(wordings)
    assert {answer for question in open_.questions for answer in question.answers} == {None}


class Lengths(Encoder):
    """Knows how long a text is."""

    spec = EncoderSpec("l" * 64, 2, name="lengths")

    def __init__(self):
        self.read = []

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        self.read += texts
        rows = np.array([[len(text), 1] for text in texts], dtype=np.float32)
        return [Encoded(normalise(rows), [[] for _ in texts]) for _ in instructions]


def test_no_text_is_read_twice():
    lengths = Lengths()
    remembered = Remembered(lengths)
    assert remembered.fingerprint == lengths.fingerprint
    first, again = remembered.encode(["a", "bb", "a"]), remembered.encode(["bb", "ccc"])
    assert lengths.read == ["a", "bb", "ccc"]
    assert np.allclose([*first, *again], lengths.encode(["a", "bb", "a", "bb", "ccc"]))
