"""Questions that are served by answers in words: of a language model, or handed in."""

import sqlite3
from contextlib import closing

import pytest
from answer_fakes import NAME, FakeReader, loads
from index_fakes import MOOD, FakeEncoder, documents

from retriever.core.errors import InputError
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.index.reembedding import reembed
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.workspace import Index


def load(described):
    """Give the encoder of a description."""
    return FakeEncoder(described["fingerprint"].rstrip("0"))


WHO = "Who wrote it?"
TEXTS = [f"{product} {mood} {row}" for row in range(5) for product in ("toy", "lamp") for mood in ("sad", "calm")]


@pytest.fixture
def reader(monkeypatch):
    """The language model of these tests, in the place of one behind an endpoint."""
    return loads(monkeypatch, FakeReader(["kettle", "toy", "lamp"]))


@pytest.fixture
def open_index(tmp_path):
    made = []

    def opened(**options):
        path = tmp_path / "index"
        index = Index(path, encoder=FakeEncoder("question"), plain=FakeEncoder("plain"), **options)
        made.append(index)
        if not made[1:]:
            index.add(documents(*TEXTS))
        return index

    yield opened
    for index in made:
        index.close()


def ask(index, query="toy", **options):
    *_, last = index.search_progressively(SearchRequest(query, instruction=WHO, **options))
    return last


def found(result):
    return {hit.document.id: list(hit.words) for hit in result.hits}


def test_answers_that_are_handed_in_serve_their_question(open_index):
    index = open_index()
    assert index.teaching.give_answers(WHO, {"a": "a toy  fan", "b": "a lamp fan"}) == 2
    result = ask(index, k=2)
    assert found(result)["a"] == ["a toy fan"]
    assert index.teaching.answers(WHO) == {"a": "a toy fan", "b": "a lamp fan"}
    question = index._opened.sources.encoders.question
    assert question.passes == []  # nobody else was asked
    (view,) = [view for view in index.views() if view.instruction == WHO]
    assert (view.encoder, view.vectors, view.lazy) == ("given", 2, True)
    index.teaching.give_answers(WHO, {"a": None, "b": "a toy maker"})
    assert index.teaching.answers(WHO) == {"b": "a toy maker"}
    assert found(ask(index, k=20))["b"] == ["a toy maker"]


@pytest.mark.parametrize(("answers", "error"), [({"nobody": "x"}, "no document 'nobody'"), ({"a": " "}, "is blank")])
def test_answers_that_cannot_be_taken_change_nothing(open_index, answers, error):
    index = open_index()
    with pytest.raises(InputError, match=error):
        index.teaching.give_answers(WHO, {"b": "somebody", **answers})
    assert index.teaching.answers(WHO) == {}


def test_equal_texts_have_one_answer(open_index):
    index = open_index()
    index.add(documents("toy sad 0", "toy sad 0"))
    with pytest.raises(InputError, match="two answers"):
        index.teaching.give_answers(WHO, {"a": "one", "b": "another"})


def test_a_search_asks_a_reader_about_its_candidates_and_shows_the_answers(open_index, reader):
    index = open_index(search_options=SearchOptions(costly_texts=3, costly_rounds=2, candidates=6))
    result = ask(index, k=2, reader=NAME)
    assert 3 <= len(reader.asked) <= 6
    assert len(set(reader.asked)) == len(reader.asked)
    assert {words[0] for words in found(result).values()} == {"toy"}
    assert index._opened.sources.encoders.question.passes == []


def test_a_reader_stays_until_another_is_named(open_index, reader):
    index = open_index()
    ask(index, reader=NAME)
    asked = len(reader.asked)
    assert ask(index, "lamp").view == ask(index).view
    index.teaching.read_by(WHO, "default")
    default = ask(index, "lamp", mode="lexical")
    assert default.final
    index.teaching.read_by(MOOD, NAME)
    assert index.teaching.readers() == [NAME]
    index.teaching.read_by(WHO, NAME)
    ask(index)
    assert len(reader.asked) <= len(TEXTS)
    assert asked <= len(reader.asked)


def test_both_views_of_a_question_exist_beside_each_other(open_index, reader):
    index = open_index()
    index.search("sad", instruction=MOOD)
    index.search("toy", instruction=MOOD, reader=NAME)
    assert [view.encoder for view in index.views() if view.instruction == MOOD][1:] == [NAME]
    served = index.search("toy", instruction=MOOD).view
    index.teaching.read_by(MOOD, "default")
    assert index.search("toy", instruction=MOOD).view != served


def test_another_base_encoder_embeds_the_stored_answers(open_index, reader):
    index = open_index()
    ask(index, reader=NAME)
    asked, answers = len(reader.asked), index.teaching.answers(WHO)
    index.close()
    reembed(index.path, plain=FakeEncoder("other"), load=load)
    with Index(index.path, encoder=FakeEncoder("question"), plain=FakeEncoder("other")) as other:
        assert other.teaching.answers(WHO) == answers
        (view,) = [view for view in other.views() if view.instruction == WHO]
        assert view.vectors == len(answers)
        assert len(reader.asked) == asked


def test_a_damaged_answer_is_named_and_repaired(open_index, reader):
    index = open_index()
    ask(index, reader=NAME)
    index.close()
    with closing(sqlite3.connect(index.path / "corpus.sqlite3")) as database, database:
        database.execute("UPDATE answers SET answer = 'forged' WHERE answer_id = 1")
    problems = [finding.artefact for finding in verify(index.path, deep=True, load=load).findings]
    assert f"answer 1 to {WHO!r}" in problems
    mended = repair(index.path, load=load)
    assert any("an answer" in line for line in mended.lost)
    with Index(index.path, encoder=FakeEncoder("question"), plain=FakeEncoder("plain")) as again:
        assert "forged" not in again.teaching.answers(WHO).values()
