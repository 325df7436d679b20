import numpy as np
import pytest
from index_fakes import FAULT, KEYWORDS, MOOD, FakeEncoder

from retriever.core.types import Document
from retriever.index.teaching.active_learning import spread_out
from retriever.index.teaching.examples import ENOUGH
from retriever.workspace import Index

GOOD = KEYWORDS[MOOD][:8]
CORPUS = [
    Document(f"{word}{number}", f"{word} {KEYWORDS[FAULT][number]} {number}")
    for word in KEYWORDS[MOOD]
    for number in range(3)
]


@pytest.fixture
def index(tmp_path):
    with Index(tmp_path / "index", encoder=FakeEncoder()) as index:
        index.add(CORPUS, instructions=[MOOD])
        yield index


def words(asked):
    return {one.document.text.split()[0] for one in asked}


def test_rows_come_from_every_group_before_one_gives_two():
    labels = np.array([0, 0, 0, 1, 1, 2])
    costs = np.array([3, 1, 2, 5, 4, 0], dtype=np.float32)
    assert spread_out(labels, costs, 5) == [1, 4, 5, 2, 3]
    assert spread_out(labels, costs, 99) == [1, 4, 5, 2, 3, 0]
    assert spread_out(labels, costs, 0) == []


def test_what_is_asked_is_spread_over_the_view(index):
    asked = index.teaching.worth_answering(MOOD, 16)
    assert words(asked) == set(KEYWORDS[MOOD])
    assert all(one.guess is None and one.certainty is None for one in asked)


def test_nothing_is_asked_twice(index):
    first = [one.document.id for one in index.teaching.worth_answering(MOOD, 16)]
    second = [one.document.id for one in index.teaching.worth_answering(MOOD, 16, first)]
    assert len(second) == 16
    assert not set(first) & set(second)
    assert len(index.teaching.worth_answering(MOOD, 99, [*first, *second])) == 16
    assert index.teaching.worth_answering(MOOD, 5, [one.id for one in CORPUS]) == []
    assert index.teaching.worth_answering(MOOD, 0) == []


def test_what_is_least_certain_comes_first(index):
    known = [one for one in CORPUS if one.text.split()[0] in [*GOOD[:4], *KEYWORDS[MOOD][8:12]]]
    index.teaching.teach(MOOD, [(one.id, "good" if one.text.split()[0] in GOOD else "bad") for one in known])
    asked = index.teaching.worth_answering(MOOD, 8, [one.id for one in known])
    assert [one.certainty for one in asked] == sorted(one.certainty for one in asked)
    assert {one.guess for one in asked} <= {"good", "bad"}


def test_a_question_without_a_view_is_spread_over_the_base_view(index):
    index.teaching.teach(MOOD, [(one.id, "good" if one.text.split()[0] in GOOD else "bad") for one in CORPUS[:30]])
    asked = index.teaching.worth_answering(FAULT, 6)
    assert len(asked) == 6
    assert all(one.guess is None for one in asked)


def test_texts_like_the_answers_with_few_examples_come_first(index):
    late, torn = (
        [Document(f"{word}{number}", f"{KEYWORDS[MOOD][0]} {word} {number}") for number in range(4)]
        for word in ("parcel", "sleeve")
    )
    index.add([*late, *torn])
    index.teaching.name_answers(MOOD, {"late": "a lost parcel", "sleeve": ""})
    asked = [one.document.id for one in index.teaching.worth_answering(MOOD, 9)]
    assert [id.rstrip("0123") for id in asked[:6]] == ["parcel", "sleeve"] * 3
    assert {id.rstrip("012") for id in asked[6:]} <= set(KEYWORDS[MOOD])
    index.teaching.skip(MOOD, asked[0])
    assert len({*asked[:6:2], *(one.document.id for one in index.teaching.worth_answering(MOOD, 9)[:6:2])}) == 4
    for one in CORPUS[:ENOUGH]:
        index.teaching.label(MOOD, one.id, "late")
    asked = [one.document.id for one in index.teaching.worth_answering(MOOD, 9)]
    assert [id.rstrip("0123") for id in asked[:3]] == ["sleeve"] * 3
    assert [id.rstrip("0123") for id in asked].count("parcel") < 3
    assert len(index.teaching.worth_answering(MOOD, 1)) == 1
    assert index.teaching.worth_answering(MOOD, 0) == []


def test_an_index_without_documents_asks_nothing(tmp_path):
    with Index(tmp_path / "empty", encoder=FakeEncoder()) as empty:
        empty.add([])
        assert empty.teaching.worth_answering(MOOD) == []


def test_a_clustering_of_the_untaught_view_holds_no_longer(index):
    before = index.cluster(MOOD, k=2)
    assert index.clusterings.still_holds(before)
    index.teaching.teach(MOOD, [(one.id, "good" if one.text.split()[0] in GOOD else "bad") for one in CORPUS[:30]])
    assert not index.clusterings.still_holds(before)
    taught = index.cluster(MOOD, k=2)
    assert index.clusterings.still_holds(taught)
    index.teaching.forget(MOOD)
    assert index.clusterings.still_holds(before)
    assert not index.clusterings.still_holds(taught)
