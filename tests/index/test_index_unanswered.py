"""Who reads for an index: which texts come next, and what is taken as an answer."""

import pytest
from answer_fakes import NAME, FakeReader, loads
from index_fakes import FakeEncoder

from retriever.core.errors import InputError, UsageError
from retriever.core.requests import SearchOptions
from retriever.core.types import Document
from retriever.index.indexing import IndexingOptions
from retriever.workspace import Index

WHO = "Who wrote it?"
PRODUCTS = ("toy", "lamp", "kettle", "knife", "drone")
TEXTS = {f"{product}{row}": f"{product} number {row}" for product in PRODUCTS for row in range(6)}


@pytest.fixture
def question():
    return FakeEncoder("question")


@pytest.fixture
def index(tmp_path, question):
    options = SearchOptions(costly_texts=5, costly_rounds=1)
    with Index(tmp_path / "index", encoder=question, plain=FakeEncoder("plain"), search_options=options) as opened:
        opened.add(Document(id, text) for id, text in TEXTS.items())
        yield opened


def ids(documents):
    return [document.id for document in documents]


def test_texts_come_from_all_over_the_corpus_and_never_again_once_they_are_answered(index, question):
    first = ids(index.teaching.texts_to_answer(WHO, len(PRODUCTS)))
    assert {id.rstrip("0123456789") for id in first} == set(PRODUCTS)
    seen = []
    for _ in range(5):
        batch = ids(index.teaching.texts_to_answer(WHO, 7))
        index.teaching.give_answers(WHO, dict.fromkeys(batch, "somebody"))
        seen += batch
    assert sorted(seen) == sorted(TEXTS)
    assert index.teaching.texts_to_answer(WHO, 7) == []
    assert question.passes == []
    assert ids(index.teaching.texts_to_answer("Another question?", 3))


def test_a_query_gives_its_best_hits_without_an_answer_however_many_have_one(index, question):
    assert {id[:3] for id in ids(index.teaching.texts_to_answer(WHO, 6, "toy"))} == {"toy"}
    index.teaching.give_answers(WHO, {f"toy{row}": "a child" for row in range(5)})
    first = ids(index.teaching.texts_to_answer(WHO, 1, "toy"))
    assert first == ["toy5"]
    index.teaching.give_answers(WHO, {"toy5": "a child"})
    left = ids(index.teaching.texts_to_answer(WHO, 100, "toy"))
    assert sorted(left) == sorted(id for id in TEXTS if not id.startswith("toy"))
    assert question.passes == []


def test_no_language_model_is_asked_for_texts_to_answer(index, monkeypatch):
    reader = loads(monkeypatch, FakeReader(PRODUCTS))
    index.search("toy", instruction=WHO, reader=NAME)
    asked, answered = len(reader.asked), set(index.teaching.answers(WHO))
    assert 0 < asked < len(TEXTS)
    for query in ("", "lamp"):
        assert answered.isdisjoint(ids(index.teaching.texts_to_answer(WHO, 10, query)))
    assert len(reader.asked) == asked


def test_how_far_a_question_is_answered(index):
    teaching = index.teaching

    def state():
        status = teaching.answers_status(WHO)
        return status.reader, status.answers, status.texts, status.vectors

    assert state() == ("", 0, 30, 0)
    teaching.give_answers(WHO, {"toy0": "a child", "toy1": "a child"})
    assert state() == ("given", 2, 30, 0)
    index.search("child", instruction=WHO)
    assert state() == ("given", 2, 30, 2)
    index.delete(["toy0"])
    assert state() == ("given", 1, 29, 1)
    teaching.read_by(WHO, "default")
    assert teaching.answers_status(WHO).answers == 1


def test_why_a_language_model_did_not_answer_is_counted_for_texts_that_still_have_no_answer(index, monkeypatch):
    reader = loads(monkeypatch, FakeReader(PRODUCTS, silent=[TEXTS["toy0"], TEXTS["toy1"]]))
    assert index.teaching.refusals(WHO) == ""
    index.teaching.read_by(WHO, reader.name)
    index.teaching.read(WHO)
    assert index.teaching.refusals(WHO) == "The model or its server refused to answer. (2)"
    index.teaching.give_answers(WHO, {"toy0": "a child"})
    assert index.teaching.refusals(WHO) == "The model or its server refused to answer. (1)"


@pytest.mark.parametrize("answer", ["word " * 13, "x" * 161, "\u200b"])
def test_an_answer_is_a_phrase(index, answer):
    with pytest.raises(InputError, match="The answer for 'toy1'"):
        index.teaching.give_answers(WHO, {"toy0": "a child", "toy1": answer})
    assert index.teaching.answers(WHO) == {}
    index.teaching.give_answers(WHO, {"toy1": "word " * 12})


@pytest.mark.parametrize("call", ["texts_to_answer", "answers_status", "refusals"])
def test_without_a_question_there_is_nothing_to_answer(index, call):
    with pytest.raises(UsageError, match="A reader needs an instruction"):
        getattr(index.teaching, call)("  ")


def test_sentences_are_answered_where_an_index_is_of_sentences(tmp_path):
    with Index(tmp_path / "index", encoder=FakeEncoder("question"), plain=FakeEncoder("plain")) as index:
        index.add([Document("a", "The toy broke. The lamp is dim.")], options=IndexingOptions(units="sentences"))
        assert sorted(ids(index.teaching.texts_to_answer(WHO))) == ["a#1", "a#2"]
        assert ids(index.teaching.texts_to_answer(WHO, 1, "lamp")) == ["a#2"]
        with pytest.raises(InputError, match="reads 'a' sentence by sentence"):
            index.teaching.give_answers(WHO, {"a": "a child"})
        index.teaching.give_answers(WHO, {"a#2": "a child"})
        assert index.teaching.answers(WHO) == {"a#2": "a child"}
        assert ids(index.teaching.texts_to_answer(WHO)) == ["a#1"]
