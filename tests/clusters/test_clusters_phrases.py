"""Clusters of answers in words are named by whole phrases."""

import numpy as np
import pytest

from retriever.clusters.arithmetic.kmeans import Partition
from retriever.clusters.clustering import Cluster
from retriever.clusters.describing import described, described_anew
from retriever.clusters.material import Material
from retriever.clusters.phrases import HALF, Phrase, counted, key_of, title
from retriever.core.types import Document

ANSWERS = ["van came late", "Van came late", "van came late", "parcel was lost", "late rain", "not said", "not said"]
COSINES = np.array([0.7, 0.7, 0.7, 0.8, 0.9, 0.9, 1.0], dtype=np.float32)


def cosines(*values):
    return np.array(values, dtype=np.float32)


def test_spellings_of_an_answer_are_counted_together():
    said = ["Probably no.", "probably not", "probably not", "N/A", "not stated", "None"]
    assert counted(said) == [Phrase("probably not", 3), Phrase("not said", 2), Phrase("nothing", 1)]
    assert key_of("good") != key_of("not good")


def test_answers_are_counted_whatever_their_capitals():
    assert counted(ANSWERS[:5]) == [Phrase("van came late", 3), Phrase("parcel was lost", 1), Phrase("late rain", 1)]
    assert str(counted(ANSWERS)[0]) == "van came late (3)"


@pytest.mark.parametrize(
    ("answers", "text", "holds"),
    [
        (["torn", "torn", "box"], "torn", 2 / 3),
        (["a torn lid", "torn lid", "torn lid of glass", "box"], "a torn lid", 3 / 4),  # with more words too
        (["van came late", "late", "slow"], "late", 2 / 3),
        (["not said", "Not said.", "lid", "box"], "not said", 1 / 2),
        (["not good", "not good at all", "good"], "not good", 2 / 3),  # "good" is true of one
    ],
)
def test_a_title_is_an_answer_that_is_true_of_half_of_the_members(answers, text, holds):
    found = title(answers, cosines(*[0.5] * len(answers)))
    assert (found.text, found.holds) == (text, pytest.approx(holds))


@pytest.mark.parametrize(
    ("answers", "near", "text"),
    [
        (["lid", "box", "rug", "cap"], (0.2, 0.9, 0.4, 0.3), "such as box, rug, cap"),  # nearest to the centre
        (
            ["lid", "lid", "box", "rug", "cap"],
            (0.1, 0.1, 0.9, 0.4, 0.3),
            "such as lid, box, rug",
        ),  # the commonest first
        (["n/a", "n/a", "lid", "box", "rug"], (0.9, 0.9, 0.4, 0.3, 0.2), "such as lid, box, rug"),
    ],
)
def test_where_no_answer_is_true_of_half_of_the_members_a_title_names_examples(answers, near, text):
    found = title(answers, cosines(*near))
    assert found.text == text
    assert found.holds < HALF


def material(answers, leads=1):
    rows = [Document(f"d{row}", f"text {row}") for row in range(len(answers))]
    words = [[answer] if isinstance(answer, str) else answer for answer in answers]
    return Material(rows, np.eye(len(answers), dtype=np.float32), words, leads)


def partition(labels):
    numbers = np.array(labels, dtype=np.int64)
    k = int(numbers.max()) + 1
    return Partition(np.eye(k, len(labels), dtype=np.float32), numbers, COSINES, COSINES, stability=None)


def test_clusters_have_phrases_with_their_numbers_and_names_of_whole_phrases():
    first, second = described(material(ANSWERS), partition([0, 0, 0, 0, 0, 1, 1]), "Why?")
    assert (first.label, second.label) == ("van came late", "not said")
    assert (first.holds, first.mixed, second.empty) == (pytest.approx(3 / 5), False, True)
    assert [str(phrase) for phrase in first.phrases] == ["van came late (3)", "parcel was lost (1)", "late rain (1)"]
    assert first.keywords == ["van came late", "parcel was lost", "late rain"]
    assert first.to_json()["phrases"][0] == {"phrase": "van came late", "rows": 3}
    assert Cluster.from_stored(first.stored()).phrases == first.phrases


def test_words_that_are_no_phrases_are_weighed_as_before():
    words = [["late", "van"], ["late", "van"], ["late", "van"], ["lost", "van"], ["lost", "van"], ["box"], ["box"]]
    first, second = described(material(words, leads=0), partition([0, 0, 0, 0, 0, 1, 1]), "Why?")
    assert (first.phrases, second.phrases) == ([], [])
    assert second.label == "box"
    mixed = [["late", "van"], *([answer] for answer in ANSWERS[1:])]  # a taught answer and the encoder's words
    assert material(mixed).phrases is None


def test_a_cluster_that_people_changed_has_its_phrases_too():
    part = material(ANSWERS)
    places = {one.id: (0,) if row < 5 else (1,) for row, one in enumerate(part.documents)}
    found = described_anew(part, places, [0, 1], "Why?")
    assert [str(phrase) for phrase in found[1].phrases] == ["not said (2)"]
    assert found[1].label == "not said"
