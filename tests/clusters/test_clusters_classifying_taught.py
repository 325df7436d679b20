"""Documents in categories under a question that was taught, over a real index."""

import numpy as np
import pytest
from index_fakes import KEYWORDS, MOOD, PRODUCT

from retriever.clusters.placing import FLOOR
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
    names = [one.label for one in found.clusters]
    moods = {one.id: mood(one.text).casefold() for one in found.material.documents}
    return np.mean([number >= 0 and names[number].casefold() == moods[id] for id, number in found.assignments.items()])


def test_categories_go_by_what_was_taught_and_the_record_says_so(full):
    before = full.clusterings.classify(MOOD, ["Good", "Bad"])
    lessons = full.teaching.teach(MOOD, EXAMPLES)
    found = full.clusterings.classify(MOOD, ["Good", "Bad"])
    assert right(found) > max(0.95, right(before) + 0.2)
    assert set(found.assignments.values()) == {0, 1}  # taught answers are all there are
    document = found.to_json()
    assert (document["view"], document["taught"]["answers"]) == (lessons.view, {"bad": 16, "good": 16})
    assert document["taught"]["after"]["value"] == lessons.after.value
    assert (before.to_json()["taught"], before.to_json()["view"]) == (None, 2)


def test_an_untaught_question_is_as_it_was(full):
    before = full.clusterings.classify(PRODUCT, ["kettle", "toy"]).to_json()
    full.teaching.teach(MOOD, EXAMPLES)
    assert full.clusterings.classify(PRODUCT, ["kettle", "toy"]).to_json() == before
    taught = full.clusterings.classify(MOOD, ["good", "bad"]).to_json()
    full.teaching.forget(MOOD)
    forgotten = full.clusterings.classify(MOOD, ["good", "bad"]).to_json()
    assert (forgotten["taught"], forgotten["view"]) == (None, 2)
    assert forgotten["assignments"] != taught["assignments"]


def test_a_category_that_nobody_taught_may_take_none(full):
    full.teaching.teach(MOOD, EXAMPLES)
    found = full.clusterings.classify(MOOD, ["good", "bad", "kettle"])
    assert (found.categories.floor, found.view) == (FLOOR, full.teaching.lessons(MOOD).view)


def test_what_is_saved_takes_later_documents_by_what_was_taught(full):
    full.teaching.teach(MOOD, EXAMPLES)
    full.clusterings.save("moods", full.clusterings.classify(MOOD, ["good", "bad"]))
    full.add([Document("new", "sofa proud later"), Document("old", "sofa numb later")])
    found = full.clusterings.get("moods")
    assert [found.assignments[id] for id in ("new", "old")] == [0, 1]
    assert found.to_json()["taught"]["answers"] == {"bad": 16, "good": 16}
    full.teaching.forget(MOOD)
    with pytest.raises(EncoderMismatchError, match="taught or forgotten"):
        full.clusterings.get("moods")


def test_what_was_saved_before_the_teaching_stays_as_it_was(full):
    full.clusterings.save("moods", full.clusterings.classify(MOOD, ["glad", "numb"]))
    before = full.clusterings.get("moods").assignments
    full.teaching.teach(MOOD, EXAMPLES)
    full.add([Document("new", "sofa proud later")])
    again = full.clusterings.get("moods")
    assert again.new == ["new"]
    assert {id: number for id, number in again.assignments.items() if id != "new"} == before
    assert again.to_json()["taught"] is None


def test_what_was_forgotten_meanwhile_is_not_saved(full):
    full.teaching.teach(MOOD, EXAMPLES)
    found = full.clusterings.classify(MOOD, ["good", "bad"])
    full.teaching.forget(MOOD)
    with pytest.raises(InputError, match="meanwhile"):
        full.clusterings.save("moods", found)
    assert full._opened.store.clusterings.names() == []
