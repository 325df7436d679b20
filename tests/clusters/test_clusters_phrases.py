"""Clusters of answers in words are named by whole phrases."""

import numpy as np
import pytest

from retriever.clusters.arithmetic.kmeans import Partition
from retriever.clusters.clustering import Cluster
from retriever.clusters.describing import described, described_anew
from retriever.clusters.material import Material
from retriever.clusters.phrases import Phrase, counted, title
from retriever.core.types import Document

ANSWERS = ["van came late", "Van came late", "van came late", "parcel was lost", "late again", "not said", "not said"]
COSINES = np.array([0.7, 0.7, 0.7, 0.8, 0.9, 0.9, 1.0], dtype=np.float32)


def cosines(*values):
    return np.array(values, dtype=np.float32)


def test_answers_are_counted_whatever_their_capitals():
    assert counted(ANSWERS[:5]) == [Phrase("van came late", 3), Phrase("parcel was lost", 1), Phrase("late again", 1)]
    assert str(counted(ANSWERS)[0]) == "van came late (3)"


@pytest.mark.parametrize(
    ("answers", "near", "name"),
    [
        (["a", "a", "b"], (0.6, 0.6, 0.9), "b"),  # the nearest, though it is rarer
        (["a", "b", "b"], (0.9, 0.9, 0.9), "b"),  # the commonest of equals
        (["not said", "b", "c"], (1.0, 0.4, 0.5), "c"),  # what says nothing names only a cluster of half of it
        (["Not said", "not said", "b", "c"], (0.1, 0.1, 0.4, 0.5), "not said"),
        (["nothing", "nothing", "b"], (0.1, 0.1, 0.9), "nothing"),
        (["nothing", "not said"], (0.1, 0.1), "not said"),
    ],
)
def test_a_cluster_is_called_by_its_nearest_phrase_or_by_nothing(answers, near, name):
    assert title(answers, cosines(*near)) == name


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
    assert (first.label, second.label) == ("late again", "not said")
    assert [str(phrase) for phrase in first.phrases] == ["van came late (3)", "parcel was lost (1)", "late again (1)"]
    assert first.keywords == ["van came late", "parcel was lost", "late again"]
    assert first.to_json()["phrases"][0] == {"phrase": "van came late", "rows": 3}
    assert Cluster.from_stored(first.stored()).phrases == first.phrases
    old = {name: value for name, value in first.stored().items() if name != "phrases"}
    assert Cluster.from_stored(old).phrases == []


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
