"""Questions that are served by answers in words: of a language model, or handed in."""

import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest
from answer_fakes import NAME, FakeReader, loads
from index_fakes import MOOD, FakeEncoder, documents
from retriever.index.sources.limits import DayBudget, ReadingLimits

from retriever.core.errors import ConsentError, InputError, ReadingLimitError, UsageError
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.index.reembedding import reembed
from retriever.index.sources import asking
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.workspace import Index, limited


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


def test_nothing_is_asked_twice_when_a_search_is_broken_off(open_index, reader):
    index = open_index()
    reader.stop_after = 4
    with pytest.raises(KeyboardInterrupt):
        ask(index, reader=NAME)
    first, reader.stop_after = list(reader.asked), None
    assert len(first) == 4
    again = open_index()
    ask(again)
    assert set(first).isdisjoint(reader.asked[4:])
    assert verify(index.path, deep=True, load=load).whole


def test_a_text_without_an_answer_stays_unread_and_is_counted(open_index, reader):
    index = open_index()
    reader.silent = set(TEXTS[:2])
    result = ask(index, k=20, reader=NAME)
    assert [found(result)[id] for id in ("a", "b")] == [[], []]
    assert index.teaching.spent.failures == {"left out": 2}
    assert reader.asked.count(TEXTS[0]) == 1  # in one search
    reader.silent = set()
    index.add([Document("new", "kettle")])  # another state, in which the search has not settled
    ask(index, k=20)
    assert reader.asked.count(TEXTS[0]) == 2


def test_texts_go_to_another_machine_only_where_somebody_allowed_it(open_index, reader):
    reader.host = "api.example.com"
    index = open_index()
    with pytest.raises(ConsentError, match=r"texts, about \d+ tokens, would be sent to api.example.com") as refused:
        ask(index, reader=NAME)
    assert refused.value.host == "api.example.com"
    assert reader.asked == []
    index.teaching.allow("api.example.com")
    again = open_index()
    ask(again)
    assert reader.asked


@pytest.mark.parametrize("limits", [ReadingLimits(texts=3), ReadingLimits(tokens=12), ReadingLimits(minutes=0)])
def test_a_limit_holds_whatever_is_asked(open_index, reader, limits):
    index = open_index(limits=limits)
    ask(index, reader=NAME, k=20)
    limited = ask(index, "lamp", k=20)
    assert len(reader.asked) <= 3
    assert index.teaching.spent.unread > 0
    assert isinstance(limited.reader_fault, ReadingLimitError)
    again = open_index()
    assert not ask(again, k=20).settling.settled or len(reader.asked) == len(TEXTS)
    assert len(reader.asked) > 3  # a search that a limit ended has not settled


def test_when_the_minutes_are_over_what_was_answered_stays_and_the_rest_counts_as_unread(
    open_index, reader, monkeypatch
):
    monkeypatch.setattr(asking, "time", SimpleNamespace(monotonic=lambda: 60.0 * len(reader.asked)))
    index = open_index(limits=ReadingLimits(minutes=3))
    result = ask(index, reader=NAME, k=20)
    spent = index.teaching.spent
    assert len(reader.asked) == spent.texts == sum(map(bool, found(result).values())) == 3
    assert spent.unread > 0
    assert ask(index, k=20).settling is None or len(reader.asked) == 3
    ask(open_index(), k=20)
    assert len(set(reader.asked)) == len(reader.asked) > 3


def test_readings_that_share_an_index_have_limits_of_their_own_and_a_day_together(open_index, reader):
    index, day = open_index(), DayBudget(ReadingLimits(texts=6))
    index.teaching.read_by(WHO, NAME)
    assert ask(limited(index, ReadingLimits(texts=2))).hits
    assert (len(reader.asked), index.teaching.spent.texts) == (2, 0)
    with pytest.raises(ReadingLimitError, match="read 3 texts; this one has sent 0 texts"):
        ask(limited(index, ReadingLimits(texts=3), day))
    with pytest.raises(ReadingLimitError, match="6 texts a day; 0 were sent today"):
        limited(index, ReadingLimits(), day).cluster(WHO, read="all")
    assert len(reader.asked) == 2
    one, other = limited(index, ReadingLimits(), day), limited(index, ReadingLimits(), day)
    one.cluster(WHO, k=2, read=6)
    assert len(reader.asked) == one.teaching.spent.texts + 2 == 8
    with pytest.raises(ReadingLimitError, match="6 were sent today"):
        other.cluster(WHO, k=2, read="all")
    assert len(reader.asked) == 8


def test_a_limit_below_nothing_is_refused():
    with pytest.raises(UsageError, match="below 0"):
        ReadingLimits(texts=-1)


def test_an_answer_that_is_handed_in_wins_over_the_readers_and_can_be_taken_back(open_index, reader):
    index = open_index()
    ask(index, reader=NAME)
    index.teaching.give_answers(WHO, {"a": "nobody"})
    assert found(ask(index, k=20))["a"] == ["nobody"]
    index.teaching.give_answers(WHO, {"a": None})
    asked = len(reader.asked)
    assert found(ask(index, k=20))["a"] == ["toy"]
    assert len(reader.asked) == asked


def test_new_documents_checks_and_repairs_ask_nobody(open_index, reader):
    index = open_index()
    ask(index, reader=NAME)
    asked = len(reader.asked)
    index.add(documents("toy glad"), instructions=[MOOD])
    assert verify(index.path, deep=True, load=load).whole
    index.teaching.judge(WHO)
    index.upkeep.repair()
    assert len(reader.asked) == asked


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
