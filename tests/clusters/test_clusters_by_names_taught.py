"""Documents in categories under a question that was taught, over a real index."""

import numpy as np
import pytest
from index_fakes import KEYWORDS, MOOD, PRODUCT
from teaching_corpus import CORPUS, EXAMPLES, mood

from retriever.clusters.categories import Category
from retriever.clusters.groups import groups_of
from retriever.clusters.index_numbers import numbers_of
from retriever.clusters.placing import FLOOR, NONE
from retriever.clusters.report import make_report, render
from retriever.core.errors import EncoderMismatchError, InputError, UsageError
from retriever.core.types import Document
from retriever.index.teaching.labels import NONE_OF_THESE


def right(found):
    """The share of the documents that are in the category that their mood is called by."""
    names = [one.label for one in found.clusters]
    moods = {one.id: mood(one.text) for one in found.material.documents}
    return np.mean([number >= 0 and names[number].casefold() == moods[id] for id, number in found.assignments.items()])


def test_categories_go_by_what_was_taught_and_the_record_says_so(moods):
    before = moods.cluster(MOOD, into=["Good", "Bad"])
    lessons = moods.teaching.teach(MOOD, EXAMPLES)
    found = moods.cluster(MOOD, into=["Good", "Bad"])
    assert right(found) > max(0.95, right(before) + 0.2)
    assert set(found.assignments.values()) == {0, 1}  # taught answers are all there are
    document = found.to_json()
    assert (document["view"], document["taught"]["answers"]) == (lessons.view, {"bad": 16, "good": 16})
    assert document["taught"]["after"]["value"] == lessons.after.value
    assert (before.to_json()["taught"], before.to_json()["view"]) == (None, 2)


def test_an_untaught_question_is_as_it_was(moods):
    before = moods.cluster(PRODUCT, into=["kettle", "toy"]).to_json()
    moods.teaching.teach(MOOD, EXAMPLES)
    assert moods.cluster(PRODUCT, into=["kettle", "toy"]).to_json() == before
    taught = moods.cluster(MOOD, into=["good", "bad"]).to_json()
    moods.teaching.forget(MOOD)
    forgotten = moods.cluster(MOOD, into=["good", "bad"]).to_json()
    assert (forgotten["taught"], forgotten["view"]) == (None, 2)
    assert forgotten["margins"] != taught["margins"]  # the examples stay answers


def test_a_category_that_no_example_has_is_named_and_gets_nobody(moods):
    moods.teaching.teach(MOOD, EXAMPLES)
    found = moods.cluster(MOOD, into=["kettle", "good", "bad"])
    assert [(one.label, one.size > 0) for one in found.clusters] == [("good", True), ("bad", True), ("kettle", False)]
    assert found.assignments == moods.cluster(MOOD, into=["good", "bad"]).assignments
    said = "Not learned, because no example has it: kettle. No text is put there."
    assert (found.not_learned, found.to_json()["not_learned"], found.doubts) == (["kettle"], ["kettle"], said)
    moods.clusterings.save("moods", found)
    moods.add([Document("new", "a kettle sofa proud later")])
    again = moods.clusterings.get("moods")
    assert (again.not_learned, again.caution) == (["kettle"], said)
    assert set(again.assignments.values()) == {0, 1}
    report = make_report(again, numbers_of(moods, groups_of(again)), {})
    assert (report.caution, report.sections[-1].learned) == (said, False)
    assert "| kettle | not learned |" in render(report, "md")
    assert ">not learned: no example has it</td>" in render(report, "html")


def test_a_category_is_learned_from_examples_of_its_own(moods):
    moods.teaching.teach(MOOD, EXAMPLES)
    kettle = Category("kettle", examples=(next(iter(moods.cluster(MOOD, into=["good", "bad"]).assignments)),))
    found = moods.cluster(MOOD, into=["good", "bad", kettle])
    assert (found.not_learned, found.categories.floor) == ([], FLOOR)
    assert moods.cluster(PRODUCT, into=["kettle", "toy"]).not_learned == []


def test_categories_that_were_not_taught_are_refused_with_those_that_were(moods):
    moods.teaching.teach(MOOD, EXAMPLES)
    with pytest.raises(UsageError, match="only 1 of these categories has an example") as refused:
        moods.cluster(MOOD, into=["good", "kettle", "lamp"])
    assert refused.value.hint.startswith("Taught are bad, good.")


def test_what_gives_none_of_the_answers_is_in_no_category(moods):
    odd = sorted(KEYWORDS[MOOD])[:4]

    def kind(text):
        return NONE_OF_THESE if set(odd) & set(text.split()) else mood(text)

    moods.teaching.teach(MOOD, [(one.id, kind(one.text)) for one in CORPUS[:60]])
    found = moods.cluster(MOOD, into=["good", "bad"])
    assert [one.label for one in found.clusters] == ["good", "bad"]
    names = {0: "good", 1: "bad", NONE: NONE_OF_THESE}
    assert np.mean([names[found.assignments[one.id]] == kind(one.text) for one in CORPUS]) > 0.9
    moods.clusterings.save("moods", found)
    moods.add([Document("new", f"sofa {odd[0]} later"), Document("old", "sofa numb later")])
    placed = moods.clusterings.get("moods").assignments
    assert (placed["new"], names[placed["old"]]) == (NONE, kind("sofa numb later"))


def test_what_is_saved_takes_later_documents_by_what_was_taught(moods):
    moods.teaching.teach(MOOD, EXAMPLES)
    moods.clusterings.save("moods", moods.cluster(MOOD, into=["good", "bad"]))
    moods.add([Document("new", "sofa proud later"), Document("old", "sofa numb later")])
    found = moods.clusterings.get("moods")
    assert [found.assignments[id] for id in ("new", "old")] == [0, 1]
    assert found.to_json()["taught"]["answers"] == {"bad": 16, "good": 16}
    moods.teaching.forget(MOOD)
    with pytest.raises(EncoderMismatchError, match="taught or forgotten"):
        moods.clusterings.get("moods")


def test_what_was_saved_before_the_teaching_stays_as_it_was(moods):
    moods.clusterings.save("moods", moods.cluster(MOOD, into=["glad", "numb"]))
    before = moods.clusterings.get("moods").assignments
    moods.teaching.teach(MOOD, EXAMPLES)
    moods.add([Document("new", "sofa proud later")])
    again = moods.clusterings.get("moods")
    assert again.new == ["new"]
    assert {id: number for id, number in again.assignments.items() if id != "new"} == before
    assert again.to_json()["taught"] is None


def test_what_was_forgotten_meanwhile_is_not_saved(moods):
    moods.teaching.teach(MOOD, EXAMPLES)
    found = moods.cluster(MOOD, into=["good", "bad"])
    moods.teaching.forget(MOOD)
    with pytest.raises(InputError, match="meanwhile"):
        moods.clusterings.save("moods", found)
    assert moods._opened.store.clusterings.names() == []
