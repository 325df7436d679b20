"""Documents in categories that somebody names, over a real index."""

import numpy as np
import pytest
from index_fakes import MOOD, PRODUCT, FakeEncoder

from retriever.clusters.categories import Category
from retriever.clusters.classifying import FLOOR, GAP, Fit, chosen, fitted, margins
from retriever.clusters.edit_requests import ClusterEdits
from retriever.core.errors import InputError, UsageError
from retriever.core.types import Document
from retriever.training.corrections import corrected_rows

TEXTS = ["kettle 1", "kettle 2", "toy 1", "toy 2", "toy kettle", "lamp 1", "pan knife drone"]
NAMES = ["kettle", "toy", "lamp"]


@pytest.fixture
def full(index):
    index.add([Document(f"d{row}", text, {"row": row}) for row, text in enumerate(TEXTS)])
    return index


def test_every_document_goes_to_its_category_or_to_none(full):
    found = full.classify(PRODUCT, NAMES)
    assert found.assignments == {"d0": 0, "d1": 0, "d2": 1, "d3": 1, "d4": 0, "d5": 2, "d6": -1}
    document = found.to_json()
    assert [(one["label"], one["size"]) for one in document["clusters"]] == [("kettle", 3), ("toy", 2), ("lamp", 1)]
    assert document["clusters"][0]["keywords"][0] == "kettle"
    assert document["margins"]["d0"] > document["margins"]["d4"] == 0
    assert "places" not in document


def test_several_apply_where_several_are_asked_for(full):
    found = full.classify(PRODUCT, NAMES, several=True)
    assert set(found.places["d4"]) == {0, 1}
    assert found.places["d0"] == (0,)
    assert found.to_json()["places"] == {"d4": list(found.places["d4"])}
    assert [one["size"] for one in found.to_json()["clusters"]] == [3, 3, 1]


def test_a_document_of_several_categories_describes_them_all(full):
    found = full.classify(PRODUCT, NAMES, several=True)
    kettle, toy, _ = found.to_json()["clusters"]
    assert set(kettle["examples"]) == {"d0", "d1", "d4"}
    assert set(toy["examples"]) == {"d2", "d3", "d4"}


def test_a_filter_is_kept_to_and_an_empty_category_is_told(full):
    found = full.classify(PRODUCT, [*NAMES, "shoe"], where="row < 4")
    assert sorted(found.assignments) == ["d0", "d1", "d2", "d3"]
    empty = found.to_json()["clusters"][3]
    assert (empty["label"], empty["size"], empty["examples"], empty["sentence"]) == ("shoe", 0, [], "")
    with pytest.raises(InputError, match="No document matches"):
        full.classify(PRODUCT, NAMES, where="row > 90")


def test_examples_say_what_a_name_does_not(full):
    strange = [Category("xyz", examples=("d2", "d3")), Category("kettle")]
    assert [full.classify(PRODUCT, strange).assignments[id] for id in ("d0", "d2", "d3")] == [1, 0, 0]
    with pytest.raises(InputError, match="no document 'gone'"):
        full.classify(PRODUCT, [Category("a", examples=("gone",)), Category("b")])


def test_a_question_and_two_categories_are_needed(full):
    with pytest.raises(UsageError, match="answers to a question"):
        full.classify(" ", NAMES)
    with pytest.raises(UsageError, match="There are 1 categories"):
        full.classify(PRODUCT, ["kettle"])


def test_saved_categories_take_what_comes_later(full):
    full.save_classification("products", full.classify(PRODUCT, NAMES))
    full.add([Document("new", "lamp new"), Document("odd", "pan knife drone bike"), Document("same", "toy 1")])
    found = full.saved_clustering("products")
    assert found.new == ["new", "odd", "same"]
    assert [found.assignments[id] for id in found.new] == [2, -1, 1]
    document = found.to_json()
    assert (document["kind"], document["fits_none"]) == ("categories", ["odd"])
    assert [one["size"] for one in document["clusters"]] == [3, 3, 2]
    assert not {"texts", "margins", "names", "floors"} & document.keys()


def test_categories_that_overlap_are_saved_so(full):
    full.save_classification("products", full.classify(PRODUCT, NAMES, several=True))
    full.add([Document("both", "kettle toy new")])
    found = full.saved_clustering("products")
    assert {id: set(one) for id, one in found.to_json()["places"].items()} == {"d4": {0, 1}, "both": {0, 1}}
    found = full.edit_clustering("products", ClusterEdits(move={"both": "kettle, lamp", "d4": "toy"}))
    assert found.to_json()["places"] == {"both": [0, 2]}
    merged = full.edit_clustering("products", ClusterEdits(merge=[["kettle", "lamp"]]))
    assert merged.state.places["both"] == (0,)


def test_corrections_become_rows_to_learn_from(full):
    full.save_classification("products", full.classify(PRODUCT, NAMES))
    full.edit_clustering("products", ClusterEdits(move={"d4": "toy", "d6": "lamp", "d0": "none"}))
    full.edit_clustering("products", ClusterEdits(rename={"lamp": "Light"}, move={"d1": "toy"}))
    full.undo_edit("products")
    full.undo_edit("products")
    full.edit_clustering("products", ClusterEdits(rename={"lamp": "Light"}))
    rows = corrected_rows(full.saved_clustering("products"))
    assert [one.to_json() for one in rows] == [
        {"text": "toy kettle", "question": PRODUCT, "answer": "toy"},
        {"text": "pan knife drone", "question": PRODUCT, "answer": "Light"},
    ]


def test_nothing_is_embedded_twice(full, encoder):
    full.classify(MOOD, ["love", "hate"])
    read = len(encoder.read)
    full.classify(MOOD, ["love", "sad"])
    assert len(encoder.read) == read == 2 * len(TEXTS)


def test_scores_and_reach_by_hand():
    vectors = np.array([[1, 0], [0.6, 0.8]], dtype=np.float32)
    names = np.array([[1, 0], [0, 1]], dtype=np.float32)
    mean = vectors.mean(axis=0)  # (0.8, 0.4); its length is the root of 0.8
    fit = fitted(vectors, names, mean)
    half = np.sqrt(0.5)  # the directions are (half, -half) and (-half, half); 0.75 of the mean scores 0.3 half
    assert fit.scores == pytest.approx(np.array([[0.7, -0.7], [-0.5, 0.5]]) * half, abs=1e-6)
    assert fit.reach == pytest.approx(np.array([[1, 0], [0.6, 0.8]]) / np.sqrt(0.8), abs=1e-6)


def test_the_best_is_chosen_and_what_is_nearly_as_good():
    scores = np.array([[0.5, 0.5 - GAP / 2, 0.5 - 2 * GAP], [0.1, 0, 0], [0.3, 0.3, 0]], dtype=np.float32)
    reach = np.array([[1, 1, 1], [FLOOR - 0.01, 1, 1], [FLOOR + 0.01, 0.1, 0]], dtype=np.float32)
    assert chosen(Fit(scores, reach), several=False) == [(0,), (-1,), (0,)]
    assert chosen(Fit(scores, reach), several=True) == [(0, 1), (-1,), (0,)]
    assert margins(scores) == pytest.approx([GAP / 2, 0.1, 0], abs=1e-6)


def test_categories_of_another_encoder_are_refused(full, path):
    full.save_classification("products", full.classify(PRODUCT, NAMES))
    assert full.store.clusterings.get("products").fingerprint == FakeEncoder().fingerprint
