"""Moves, examples of categories and rows to learn from are answers of the one table."""

import pytest
from answer_fakes import NAME, FakeReader, loads
from index_fakes import MOOD, PRODUCT, FakeEncoder
from teaching_corpus import EXAMPLES

from retriever.clusters.categories import Category
from retriever.clusters.edit_requests import ClusterEdits
from retriever.core.errors import InputError, UsageError
from retriever.core.types import Document
from retriever.index.teaching.labels import NONE_OF_THESE
from retriever.store.answers import AnswerTable
from retriever.training.from_index import answered_rows, write_answers
from retriever.workspace import Index

TEXTS = ["kettle 1", "kettle 2", "toy 1", "toy 2", "toy kettle", "lamp 1", "pan knife drone"]
NAMES = ["kettle", "toy", "lamp"]


def filled(index):
    index.add([Document(f"d{row}", text) for row, text in enumerate(TEXTS)])
    return index


@pytest.fixture
def saved(index):
    filled(index).clusterings.save("products", index.cluster(PRODUCT, into=NAMES))
    return index


def move(index, **moves):
    return index.clusterings.edit("products", ClusterEdits(move=moves), author="Ada")


def answers(index):
    return index.teaching.answers(PRODUCT)


def by(index, author):
    return sorted(index._opened.store.answers.by(author, PRODUCT).values())


def test_who_moves_a_document_to_a_category_answers_its_question(saved):
    found = move(saved, d4="toy", d6="none")
    assert (found.assignments["d4"], found.assignments["d6"]) == (1, -1)
    assert by(saved, "person") == [NONE_OF_THESE, "toy"]
    assert saved.teaching.labels(PRODUCT).examples == answers(saved) == {"d4": "toy", "d6": NONE_OF_THESE}


def test_a_move_to_a_category_with_a_new_name_gives_that(saved):
    saved.clusterings.edit("products", ClusterEdits(rename={"lamp": "Light"}))
    move(saved, d6="light")
    assert answers(saved) == {"d6": "Light"}


def test_a_move_into_several_categories_gives_the_first(index):
    filled(index).clusterings.save("products", index.cluster(PRODUCT, into=NAMES, several=True))
    move(index, d6="lamp, toy")
    assert answers(index) == {"d6": "lamp"}


def test_an_answer_that_differs_in_capitals_alone_keeps_its_spelling(saved):
    saved.teaching.label(PRODUCT, "d2", "TOY")
    move(saved, d4="toy")
    assert answers(saved) == {"d2": "TOY", "d4": "TOY"}


def test_moves_between_computed_clusters_answer_nothing(index):
    filled(index).clusterings.save("products", index.cluster(PRODUCT, k=3))
    move(index, d4="2")
    assert answers(index) == {}
    index.clusterings.undo("products")


def test_a_move_that_is_taken_back_leaves_the_answer_from_before(saved):
    saved.teaching.give_answers(PRODUCT, {"d4": "program's"}, author="program")
    saved.teaching.give_answers(PRODUCT, {"d6": "mine"})
    move(saved, d4="toy", d6="lamp")
    move(saved, d4="none")
    assert answers(saved) == {"d4": NONE_OF_THESE, "d6": "lamp"}
    saved.clusterings.undo("products")
    assert answers(saved) == {"d4": "toy", "d6": "lamp"}
    saved.clusterings.undo("products")
    assert answers(saved) == {"d4": "toy", "d6": "mine"}
    saved.clusterings.undo("products")
    assert answers(saved) == {"d4": "program's", "d6": "mine"}
    assert (by(saved, "person"), by(saved, "program")) == (["mine"], ["program's"])


def test_an_answer_that_was_given_after_the_move_stays_when_the_move_is_taken_back(saved):
    move(saved, d4="toy")
    saved.teaching.label(PRODUCT, "d4", "kettle")
    saved.clusterings.undo("products")
    assert answers(saved) == {"d4": "kettle"}


def test_a_move_whose_text_changed_since_is_taken_back_without_a_trace(saved):
    move(saved, d4="toy")
    saved.add([Document("d4", "another text")])
    saved.teaching.label(PRODUCT, "d4", "toy")
    saved.clusterings.undo("products")
    assert answers(saved) == {"d4": "toy"}


def test_changes_that_fail_keep_no_answer(saved):
    with pytest.raises(InputError, match="no document 'gone'"):
        move(saved, d4="toy", gone="toy")
    assert answers(saved) == {}


def test_what_was_answered_is_an_example_of_the_category_in_any_spelling(index):
    filled(index)
    strange = ["xyz", "abc"]
    before = index.cluster(PRODUCT, into=strange).assignments
    index.teaching.give_answers(PRODUCT, {"d2": "XYZ.", "d0": "Abc", "d5": "another"})
    index.teaching.give_answers(PRODUCT, {"d3": "xyz"}, author="program")
    index.teaching.read_by(PRODUCT, "default")
    given = index.cluster(PRODUCT, into=strange).assignments
    assert (
        [given[id] for id in ("d0", "d1", "d2", "d3")]
        == [1, 1, 0, 0]
        != [before[id] for id in ("d0", "d1", "d2", "d3")]
    )
    index.teaching.give_answers(PRODUCT, dict.fromkeys(["d0", "d2", "d3", "d5"]))
    index.teaching.read_by(PRODUCT, "default")
    assert index.cluster(PRODUCT, into=strange).assignments == before


def test_examples_of_a_file_are_kept_as_answers_once(index, monkeypatch):
    filled(index)
    index.teaching.give_answers(PRODUCT, {"d3": "kettle"})
    categories = [Category("xyz", examples=("d2", "d3")), Category("kettle")]
    first = index.cluster(PRODUCT, into=categories).assignments
    assert answers(index) == {"d2": "xyz", "d3": "xyz"}
    monkeypatch.setattr(AnswerTable, "put", lambda *given: pytest.fail("nothing is new"))
    assert index.cluster(PRODUCT, into=categories).assignments == first
    assert index.cluster(PRODUCT, into=["xyz", "kettle"]).assignments == first


def test_one_text_is_no_example_of_two_categories(index):
    index.add([Document("a", "kettle 1"), Document("b", "kettle 1"), Document("c", "toy 1")])
    with pytest.raises(InputError, match="has two answers"):
        index.cluster(PRODUCT, into=[Category("kettle", examples=("a",)), Category("toy", examples=("b",))])
    assert answers(index) == {}


def test_what_a_question_was_taught_by_moves_no_category_a_second_time(moods):
    moods.teaching.teach(MOOD, EXAMPLES)
    taught = moods.cluster(MOOD, into=["good", "bad"])
    store = moods._opened.store
    store.answers.take_back(MOOD, store.documents.live_contents())
    assert moods.cluster(MOOD, into=["good", "bad"]).margins == taught.margins


def test_a_language_model_sorts_no_text_that_somebody_put_to_a_category(tmp_path, monkeypatch):
    loads(monkeypatch, FakeReader(NAMES))
    with Index(tmp_path / "index", encoder=FakeEncoder("question"), plain=FakeEncoder("plain")) as index:
        filled(index).teaching.read_by(PRODUCT, NAME)
        assert index.cluster(PRODUCT, into=NAMES).assignments["d4"] == 1
        index.teaching.give_answers(PRODUCT, {"d4": "a lamp", "d5": "not said", "d0": "something of nobody's"})
        found = index.cluster(PRODUCT, into=NAMES)
        labels = [found.clusters[found.assignments[id]].label for id in ("d4", "d5", "d0")]
        assert labels == ["lamp", "not said", "other"]
        index.clusterings.save("products", found)
        move(index, d4="kettle")
        assert answers(index)["d4"] == "kettle"
        again = index.cluster(PRODUCT, into=NAMES)
        assert again.clusters[again.assignments["d4"]].label == "kettle"


def test_a_moved_document_stays_in_sight_where_answers_in_words_are_sorted(tmp_path, monkeypatch):
    loads(monkeypatch, FakeReader(NAMES))
    with Index(tmp_path / "index", encoder=FakeEncoder("question"), plain=FakeEncoder("plain")) as index:
        filled(index).teaching.read_by(PRODUCT, NAME)
        with pytest.raises(UsageError, match="a text has one answer"):
            index.cluster(PRODUCT, into=NAMES, several=True)
        index.clusterings.save("products", index.cluster(PRODUCT, into=NAMES))
        found = move(index, d4="lamp")
        assert found.places["d4"] == (2,)
        assert found.material.answers[[one.id for one in found.material.documents].index("d4")] == ["lamp"]


def test_what_people_answered_becomes_rows_to_learn_from(saved, tmp_path):
    with pytest.raises(InputError, match="nothing to learn from"):
        write_answers(tmp_path / "rows.jsonl", saved, PRODUCT)
    move(saved, d4="toy", d6="none", d1="toy")
    saved.clusterings.undo("products")
    saved.teaching.give_answers(PRODUCT, {"d0": "by a program"}, author="program")
    saved.teaching.label(PRODUCT, "d2", "toy")
    saved.cluster(PRODUCT, into=[Category("kettle", examples=("d1",)), "lamp"])
    saved.add([Document("same", "kettle 2")])
    saved.teaching.label(PRODUCT, "d5", "lamp")
    saved.delete(["d5"])
    rows = [row.to_json() for row in answered_rows(saved, f" {PRODUCT} ")]
    assert rows == [
        {"text": "kettle 2", "question": PRODUCT, "answer": "kettle"},
        {"text": "toy 1", "question": PRODUCT, "answer": "toy"},
        {"text": "toy kettle", "question": PRODUCT, "answer": "toy"},
    ]
    assert write_answers(tmp_path / "rows.jsonl", saved, PRODUCT) == 3
