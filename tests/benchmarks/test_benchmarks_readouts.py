import numpy as np
import pytest
from readouts import READOUTS, Reader, View, grid_scores

from retriever.core.types import Encoded
from retriever.evaluation.reversal import Grid, Question

AXES = {"glad": [1.0, 0.0], "sad": [0.0, 1.0]}
TEXTS = ["a", "b", "c", "d"]
MOODS = ["glad", "glad", "sad", "sad"]


class Plain:
    """Knows two words and nothing of texts."""

    dim = 2

    def encode(self, texts):
        return np.array([AXES.get(text, [1.0, 0.0]) for text in texts], dtype=np.float32)


class Asked:
    """Has one vector for all texts, and answers with words."""

    def encode_views(self, texts, instructions, *, words):
        said = dict(zip(TEXTS, MOODS, strict=True))
        vectors = np.tile(np.array([0.6, 0.8], dtype=np.float32), (len(texts), 1))
        return [Encoded(vectors, [[said[text]] if one and text else [] for text in texts]) for one in instructions]


def view():
    states = np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    return View(states, np.array([1.0, 0.0], dtype=np.float32), states[::-1].copy(), states)


def test_readouts_are_those_a_person_works_out():
    found = {name: readout(view()) for name, readout in READOUTS.items()}
    half = np.sqrt(0.5)
    assert found["state"].tolist() == [[1, 0], [0, 1]]
    assert found["state, mean taken off"] == pytest.approx(np.array([[half, -half], [-half, half]]))
    assert found["state, empty text taken off"] == pytest.approx(np.array([[0, 0], [-half, half]]))
    assert found["words"] == pytest.approx(np.array([[-half, half], [half, -half]]))
    assert found["state and words"] == pytest.approx(np.array([[0.5, -0.5, -0.5, 0.5], [-0.5, 0.5, 0.5, -0.5]]))


def test_words_weigh_by_their_rank_and_none_are_zero():
    bags = Reader(Asked(), Plain())._bag([["glad", "sad"], []])
    assert bags == pytest.approx(np.array([[2 / np.sqrt(5), 1 / np.sqrt(5)], [0, 0]]))


def test_where_words_alone_answer_only_their_readout_follows_the_question():
    ends = Question("end", ["Which end?"], ["x", "y", "x", "y"])
    grid = Grid("moods", TEXTS, [Question("mood", ["How is it?"], MOODS), ends])
    scores = grid_scores(Reader(Asked(), Plain()), [grid])
    assert scores["state"] == [50.0, 50.0, 50.0]
    assert scores["words"] == [50.0, (100 + 25) / 2, 0.0]  # they say the mood whatever is asked
