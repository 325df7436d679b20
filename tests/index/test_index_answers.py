"""Questions that are served by answers in words: of a language model, or handed in."""

import sqlite3
from contextlib import closing

import pytest
from answer_fakes import NAME
from asking_index import TEXTS, WHO, load, made, opened, search, words
from index_fakes import MOOD, FakeEncoder, documents

from retriever.core.errors import InputError
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.index.reembedding import reembed
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.workspace import Index


@pytest.fixture
def index(path):
    with made(path) as index:
        yield index


def test_answers_that_are_handed_in_serve_their_question(index):
    assert index.teaching.give_answers(WHO, {"a": "a toy  fan", "b": "a lamp fan"}) == 2
    result = search(index, k=2)
    assert words(result)["a"] == ["a toy fan"]
    assert index.teaching.answers(WHO) == {"a": "a toy fan", "b": "a lamp fan"}
    question = index._opened.sources.encoders.question
    assert question.passes == []  # nobody else was asked
    (view,) = [view for view in index.views() if view.instruction == WHO]
    assert (view.encoder, view.vectors, view.lazy) == ("given", 2, True)
    index.teaching.give_answers(WHO, {"a": None, "b": "a toy maker"})
    assert index.teaching.answers(WHO) == {"b": "a toy maker"}
    assert words(search(index, k=20))["b"] == ["a toy maker"]


@pytest.mark.parametrize(("answers", "error"), [({"nobody": "x"}, "no document 'nobody'"), ({"a": " "}, "is blank")])
def test_answers_that_cannot_be_taken_change_nothing(index, answers, error):
    with pytest.raises(InputError, match=error):
        index.teaching.give_answers(WHO, {"b": "somebody", **answers})
    assert index.teaching.answers(WHO) == {}


def test_equal_texts_have_one_answer(index):
    index.add(documents("toy sad 0", "toy sad 0"))
    with pytest.raises(InputError, match="two answers"):
        index.teaching.give_answers(WHO, {"a": "one", "b": "another"})


def test_a_search_asks_a_reader_about_its_candidates_and_shows_the_answers(path, reader):
    with made(path, search_options=SearchOptions(costly_texts=3, costly_rounds=2, candidates=6)) as index:
        result = search(index, k=2, reader=NAME)
        assert index._opened.sources.encoders.question.passes == []
    assert 3 <= len(reader.asked) <= 6
    assert len(set(reader.asked)) == len(reader.asked)
    assert {said[0] for said in words(result).values()} == {"toy"}


def test_what_a_reader_answered_is_shown_without_asking_it(path, reader):
    with made(path, search_options=SearchOptions(costly_texts=3, costly_rounds=2, candidates=6)) as index:
        index.teaching.read_by(WHO, NAME)
        request = SearchRequest("toy", instruction=WHO, k=2)
        assert not index.search_stored(request).final
        assert reader.asked == []
        totals = set()
        *_, last = index.search_progressively(request, lambda done, total: totals.add(total))
        assert totals == {6}
        asked = len(reader.asked)
        settled, other = index.search_stored(request), index.search_stored(SearchRequest("lamp", instruction=WHO))
        assert (settled.final, other.final) == (True, False)
        assert words(settled) == words(last)
        assert other.path == "lazy"
        assert len(reader.asked) == asked


def test_a_reader_stays_until_another_is_named(index, reader):
    search(index, reader=NAME)
    asked = len(reader.asked)
    assert search(index, "lamp").view == search(index).view
    index.teaching.read_by(WHO, "default")
    default = search(index, "lamp", mode="lexical")
    assert default.final
    index.teaching.read_by(MOOD, NAME)
    assert index.teaching.readers() == [NAME]
    index.teaching.read_by(WHO, NAME)
    search(index)
    assert len(reader.asked) <= len(TEXTS)
    assert asked <= len(reader.asked)


def test_both_views_of_a_question_exist_beside_each_other(index, reader):
    index.search("sad", instruction=MOOD)
    index.search("toy", instruction=MOOD, reader=NAME)
    assert [view.encoder for view in index.views() if view.instruction == MOOD][1:] == [NAME]
    served = index.search("toy", instruction=MOOD).view
    index.teaching.read_by(MOOD, "default")
    assert index.search("toy", instruction=MOOD).view != served


def test_another_base_encoder_embeds_the_stored_answers(index, reader):
    search(index, reader=NAME)
    asked, answers = len(reader.asked), index.teaching.answers(WHO)
    index.close()
    reembed(index.path, plain=FakeEncoder("other"), load=load)
    with Index(index.path, encoder=FakeEncoder("question"), plain=FakeEncoder("other")) as other:
        assert other.teaching.answers(WHO) == answers
        (view,) = [view for view in other.views() if view.instruction == WHO]
        assert view.vectors == len(answers)
        assert len(reader.asked) == asked


def test_a_damaged_answer_is_named_and_repaired(index, reader):
    search(index, reader=NAME)
    index.close()
    with closing(sqlite3.connect(index.path / "corpus.sqlite3")) as database, database:
        database.execute("UPDATE answers SET answer = 'forged' WHERE answer_id = 1")
    problems = [finding.artefact for finding in verify(index.path, deep=True, load=load).findings]
    assert f"answer 1 to {WHO!r}" in problems
    mended = repair(index.path, load=load)
    assert any("an answer" in line for line in mended.lost)
    with opened(index.path) as again:
        assert "forged" not in again.teaching.answers(WHO).values()
