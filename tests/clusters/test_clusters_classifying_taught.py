"""Documents in categories under a question that was taught, over a real index."""

import numpy as np
import pytest
from index_fakes import KEYWORDS, MOOD, PRODUCT

from retriever.clusters.classifying import FLOOR
from retriever.core.errors import EncoderMismatchError, InputError
from retriever.core.types import Document

GOOD = set(KEYWORDS[MOOD][:8])
CORPUS = [
    Document(f"d{row:02}", f"{KEYWORDS[PRODUCT][row % 16]} {KEYWORDS[MOOD][row * 5 % 16]} n{row}") for row in range(96)
]


def mood(text):
    return "Good" if GOOD & set(text.split()) else "Bad"


EXAMPLES = [(one.id, mood(one.text).lower()) for one in CORPUS[:32]]


@pytest.fixture
def full(index):
    index.add(CORPUS, instructions=[MOOD])
    return index


def right(found):
    """The share of the documents that are in the category that their mood is called by."""
    names = [one.name for one in found.request.categories]
    moods = {one.id: mood(one.text).casefold() for one in found.material.documents}
    return np.mean([number >= 0 and names[number].casefold() == moods[id] for id, number in found.assignments.items()])


def test_categories_go_by_what_was_taught_and_the_record_says_so(full):
    before = full.classify(MOOD, ["Good", "Bad"])
    lessons = full.teach(MOOD, EXAMPLES)
    found = full.classify(MOOD, ["Good", "Bad"])
    assert right(found) > max(0.95, right(before) + 0.2)
    assert set(found.assignments.values()) == {0, 1}  # taught answers are all there are
    document = found.to_json()
    assert (document["view"], document["taught"]["answers"]) == (lessons.view, {"bad": 16, "good": 16})
    assert document["taught"]["after"]["value"] == lessons.after.value
    assert (before.to_json()["taught"], before.to_json()["view"]) == (None, 2)


def test_an_untaught_question_is_as_it_was(full):
    before = full.classify(PRODUCT, ["kettle", "toy"]).to_json()
    full.teach(MOOD, EXAMPLES)
    assert full.classify(PRODUCT, ["kettle", "toy"]).to_json() == before
    taught = full.classify(MOOD, ["good", "bad"]).to_json()
    full.forget(MOOD)
    forgotten = full.classify(MOOD, ["good", "bad"]).to_json()
    assert (forgotten["taught"], forgotten["view"]) == (None, 2)
    assert forgotten["assignments"] != taught["assignments"]


def test_a_category_that_nobody_taught_may_take_none(full):
    full.teach(MOOD, EXAMPLES)
    found = full.classify(MOOD, ["good", "bad", "kettle"])
    assert (found.floor, found.view) == (FLOOR, full.lessons(MOOD).view)
    assert found.fit.reach.min() < FLOOR


def test_what_is_saved_takes_later_documents_by_what_was_taught(full):
    full.teach(MOOD, EXAMPLES)
    full.save_classification("moods", full.classify(MOOD, ["good", "bad"]))
    full.add([Document("new", "sofa proud later"), Document("old", "sofa numb later")])
    found = full.saved_clustering("moods")
    assert [found.assignments[id] for id in ("new", "old")] == [0, 1]
    assert found.to_json()["taught"]["answers"] == {"bad": 16, "good": 16}
    full.forget(MOOD)
    with pytest.raises(EncoderMismatchError, match="taught or forgotten"):
        full.saved_clustering("moods")


def test_what_was_saved_before_the_teaching_stays_as_it_was(full):
    full.save_classification("moods", full.classify(MOOD, ["glad", "numb"]))
    before = full.saved_clustering("moods").assignments
    full.teach(MOOD, EXAMPLES)
    full.add([Document("new", "sofa proud later")])
    again = full.saved_clustering("moods")
    assert again.new == ["new"]
    assert {id: number for id, number in again.assignments.items() if id != "new"} == before
    assert again.to_json()["taught"] is None


def test_what_was_forgotten_meanwhile_is_not_saved(full):
    full.teach(MOOD, EXAMPLES)
    found = full.classify(MOOD, ["good", "bad"])
    full.forget(MOOD)
    with pytest.raises(InputError, match="meanwhile"):
        full.save_classification("moods", found)
    assert full.store.clusterings.names() == []
