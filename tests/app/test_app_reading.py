"""A language model that reads a question: the pages' models, and that no page sends anything by being opened."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from answer_fakes import NAME, FakeReader, loads
from app_checks import PATIENCE, awaited, click, settle, shown, whole
from app_fakes import MOOD, PRODUCT, REVIEWS, documents, load_encoder

from retriever.clusters.arithmetic.estimates import Estimate
from retriever.clusters.arithmetic.intervals import Interval
from retriever.clusters.reading import Sampled
from retriever.core.errors import EncoderError
from retriever.core.types import Document
from retriever.index.asking.asker import ReaderPlace
from retriever.index.teaching.unanswered import AnswersStatus
from retriever.index.upkeep.archive import import_index
from retriever.workspace import Index
from retriever_app import readers, reading, resources
from retriever_app.pages.groups import model as clusters
from retriever_app.pages.groups.asked import Ask
from retriever_app.readers import SEARCHING

WHO = "Which thing is it about?"
HERE = ReaderPlace("chat:m", "127.0.0.1:11434", local=True, allowed=True)
ELSEWHERE = ReaderPlace("chat:m", "api.example.com", local=False, allowed=False)
READ, SEND = "Use this language model", "Send them"
HOST = "api.example.com"
NAMES = (NAME, f"{NAME}-2")


class GatedReader(FakeReader):
    """Reaches a text of one question, and waits there for its gate.

    Args:
        gated: the question; empty for none.
    """

    def __init__(self, answers, **options):
        super().__init__(answers, **options)
        self.gated = ""
        self.reached, self.gate = threading.Event(), threading.Event()

    def answer(self, texts, question, **options):
        if question == self.gated:
            self.reached.set()
            assert self.gate.wait(PATIENCE)
        return super().answer(texts, question, **options)


def place_of(name):
    if name == "chat:gone":
        raise EncoderError("No endpoint is named.", hint="Set it.")
    return replace(HERE, name=name)


def test_the_configured_model_is_offered_before_those_that_read_already():
    names = [place.name for place in readers.offers(place_of, " chat:a ", ["chat:b", "chat:a", "chat:gone"])[0]]
    assert names == ["chat:a", "chat:b"]
    assert readers.offers(place_of, "", []) == ([], readers.SETUP)
    assert readers.offers(place_of, "chat:gone", []) == ([], "No endpoint is named. Set it.")


def test_the_page_says_how_much_goes_where():
    nothing, some, all_of_them = (AnswersStatus("chat:m", answers, 300, answers) for answers in (0, 288, 300))
    said = readers.sending(ELSEWHERE, SEARCHING.said(nothing))
    assert said.startswith(
        "A search sends at most 60 reviews, with the question, to chat:m at api.example.com, another"
    )
    assert "chat:m at 127.0.0.1:11434, a server on this machine" in readers.sending(HERE, SEARCHING.said(nothing))
    assert SEARCHING.said(some) == "A search sends at most 12 more reviews"
    assert (SEARCHING.number(all_of_them), readers.grouping(300).number(all_of_them)) == (0, 0)
    assert readers.grouping(290).said(some) == "Grouping sends 2 more reviews and the answers"
    assert readers.grouping(200).said(some) == "Grouping sends the answers"
    assert readers.grouping(200).number(some) == 0
    assert readers.grouping(1000).said(nothing) == "Grouping sends 300 reviews and the answers"


def test_who_agreed_to_many_reviews_agreed_to_fewer_of_the_same_work():
    assert readers.grouping(200).covers(readers.grouping(120))
    assert not readers.grouping(120).covers(readers.grouping(200))
    assert not SEARCHING.covers(readers.grouping(1))


def test_what_is_written_in_the_table_goes_to_its_text_and_nothing_takes_it_back():
    texts = [(Document("a", "It  broke. " * 20), ["lid", "x"]), (Document("b", "Fine."), [])]
    first, second = readers.answer_rows(texts)
    assert first["review"].startswith("It broke. It broke.")
    assert len(first["review"]) <= readers.BEGINNING + 2
    assert second == {"answer": "", "review": "Fine."}
    edited = {0: {"answer": None}, 1: {"answer": " handle "}}
    assert readers.corrections(texts, edited) == {"a": None, "b": "handle"}


def test_the_table_says_how_many_texts_have_no_answer_and_why():
    status = AnswersStatus("chat:m", 60, 1600, 60)
    assert readers.unanswered(status, "") == "1,540 of 1,600 different texts have no answer."
    assert readers.unanswered(replace(status, answers=1599), "It refused. (1)") == (
        "1 of 1,600 different texts has no answer. It refused. (1)"
    )
    assert readers.unanswered(replace(status, answers=1600), "It refused. (1)") == ""


def test_answers_are_shown_with_how_many_there_are(make, app, reader):
    with Index(make(), encoder=load_encoder()) as index:
        index.teaching.give_answers(WHO, {"r1": "a lamp"})
    session = settle(app("search", q="lamp", instruction=WHO))
    assert "different texts have no answer" in shown(session)


def test_clusters_of_a_sample_show_the_estimated_share_and_never_a_raw_count(tmp_path):
    with Index(tmp_path / "i", encoder=load_encoder()) as index:
        index.add(documents(REVIEWS))
        found = index.cluster(k=2)
    assert clusters.drawn_evenly(found).all()
    shares = {0: Estimate(Interval(0.25, 0.2, 0.31), 12, 40), 1: Estimate(None, 2, 40)}
    sampled = Sampled("chat:m", 100, 6, 2, shares=shares, evenly=frozenset({"r1", "r5"}))
    part = replace(found, sampled=sampled)
    assert [part.material.documents[row].id for row in clusters.drawn_evenly(part).nonzero()[0]] == ["r1", "r5"]
    assert clusters.headline(part).startswith("6 of 100 texts were read by chat:m, 2 of them drawn at random;")
    from retriever.clusters.groups import groups_of
    from retriever.clusters.index_numbers import Counted
    from retriever.clusters.numbers import count
    from retriever.index.profiling import Columns

    groups = groups_of(part).by_document()
    counted, near = Counted(groups, count(groups, []), []), np.zeros(6, np.float32)
    everything = clusters.drawn_evenly(found)
    sides = clusters.read_sides(part.material.documents, Columns())
    first, second = clusters.cards(part, sides, counted, everything, near)
    assert "of the random sample · about 25% of all" in first.size
    assert first.figures.startswith("Share 20 to 31 %")
    assert "too few reviews for a share" in second.size
    assert "Share" not in second.figures
    assert [card.more for card in (first, second)] == [card.group.label for card in (first, second)]
    assert {card.more for card in clusters.cards(found, sides, counted, everything, near)} == {
        ""
    }  # all of them were read


@pytest.fixture
def reader(monkeypatch):
    """A language model on another machine, which the environment of the app names, beside another one there."""
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.example.com/v1")
    monkeypatch.setenv(readers.VARIABLE, NAME)
    answers = ["kettle", "lamp.", "lamp", "toy"]
    return loads(monkeypatch, *(GatedReader(answers, name=name, host=HOST) for name in NAMES))


def served(folder, question=WHO, name=NAME):
    """Let a language model serve a question of an index, and return the index, open."""
    index = Index(folder, encoder=load_encoder())
    index.teaching.allow(HOST)
    index.teaching.read_by(question, name)
    return index


@pytest.mark.parametrize(
    ("page", "asked"),
    [("search", {"q": "lamp"}), ("groups", {"groups": "2"}), ("teach", {})],
)
def test_a_page_that_is_opened_sends_nothing(make, app, reader, page, asked):
    served(make()).close()
    session = settle(app(page, instruction=WHO, reader=NAME, **asked))
    assert reader.asked == []
    if page != "teach":
        session = settle(click(session, SEND))
        session = settle(session)
        assert reader.asked


def test_the_search_is_begun_anew_once_the_reader_is_another(make, app, reader, monkeypatch):
    monkeypatch.setattr(reading, "_WAIT_SECONDS", PATIENCE)
    with Index(make(), encoder=load_encoder()) as index:
        index.teaching.allow("api.example.com")
    session = click(settle(app("search", q="lamp", instruction=WHO)), READ)  # one run of the page, and none after it
    assert NAME in session.session_state["search: running"][0][1]


def test_a_link_to_an_answered_question_shows_what_is_stored_and_asks_for_the_rest_alone(make, app, reader):
    with served(make()) as index:
        index.cluster(WHO, k=2, read=4)
    asked = len(reader.asked)
    session = settle(app("search", q="lamp", instruction=WHO))
    assert "6 reviews, with what is read so far" in shown(session)
    assert "A search sends at most 2 more reviews" in shown(session)
    assert len(reader.asked) == asked
    session = settle(settle(click(session, SEND)))
    assert len(reader.asked) == len(REVIEWS)
    again = settle(app("search", q="lamp", instruction=WHO))  # another session
    assert "has read all reviews under this question" in shown(again)
    assert "A search sends" not in shown(again)


def test_what_may_be_sent_to_one_language_model_is_not_sent_to_another(make, app, reader):
    with served(make()) as index:
        session = settle(click(settle(app("search", q="lamp", instruction=WHO)), SEND))
        assert not resources.jobs().named("reader ")  # it was tried out before
        sent = len(reader.asked)
        index.teaching.read_by(WHO, NAMES[1])
    session = settle(whole(session.run()))
    assert len(reader.asked) == sent
    assert [one.label for one in session.button].count(SEND) == 1


def test_what_a_language_model_read_stands_apart_and_the_rest_is_not_read_unasked(make, app, reader):
    with served(make(instructions=[WHO])) as index:
        index.cluster(WHO, k=2, read=3)
    session = app("models")
    table = session.dataframe[0].value
    assert list(table["question"]) == ["No question", WHO, WHO]
    assert list(table["model"]) == ["keywords", "keywords", NAME]
    assert table["read"].iloc[-1] < 1
    assert next(one for one in session.button if one.label == "Read the remaining reviews").disabled


def test_each_search_of_the_app_keeps_to_the_limits_of_the_settings(make, app, reader):
    folder = make()
    served(folder).close()
    settings = folder.parent / "settings.toml"
    settings.write_text("[reading]\nmax_tokens = 8\n")
    for unread in (4, 2):
        session = settle(settle(click(settle(app("search", q="lamp", instruction=WHO)), SEND)))
        assert len(reader.asked) == len(REVIEWS) - unread
        said = shown(session).replace("\\", "")
        assert f"The language model cannot be asked: A limit is reached: {unread} unread texts." in said
    settings.write_text("[reading]\nmax_text = 2\n")
    assert "settings.toml: 'max_text' is no setting" in shown(app("search")).replace("\\", "")


def test_a_host_needs_a_yes_before_the_first_text(make, app, reader):
    folder = make()
    session = settle(app("search", q="lamp", instruction=WHO))
    assert "A search sends at most 6 reviews" in shown(session)
    (button,) = [one for one in session.button if one.label == READ]
    assert button.disabled
    (may,) = [one for one in session.checkbox if "may be sent" in one.label]
    session = whole(may.check().run())
    session = whole(next(one for one in session.button if one.label == READ).click().run())
    session = settle(session)
    assert f"{NAME} answers this question" in shown(session).replace("\\", "")
    assert reader.asked
    with Index(folder, encoder=load_encoder()) as index:
        assert index.teaching.place(NAME).allowed
    session = settle(click(session, "Use the index's own model again"))
    with Index(folder, encoder=load_encoder()) as index:
        assert index.teaching.reader(WHO) == ""
    assert "answers this question" not in shown(session)


def test_without_an_endpoint_one_line_says_how(make, app, monkeypatch):
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", readers.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    make()
    session = settle(app("search", q="lamp", instruction=WHO))
    assert "none is set up" in shown(session)
    assert not [one for one in session.button if one.label == READ]
    assert readers.VARIABLE not in shown(app("search", q="lamp")).replace("\\", "")


@pytest.mark.parametrize("settings", ["", "[reading]\nmax_texts = 100\n"])
def test_every_session_is_shown_why_texts_have_no_answer(make, app, reader, settings):
    folder = make()
    served(folder).close()
    (folder.parent / "settings.toml").write_text(settings)
    reader.silent = {REVIEWS[0]["text"]}
    settle(settle(click(settle(app("search", q="lamp", instruction=WHO)), SEND)))
    said = shown(settle(settle(click(settle(app("search", q="toy", instruction=WHO)), SEND))))
    assert "1 of 6 different texts has no answer. The model or its server refused to answer. (1)" in said.replace(
        "\\", ""
    )
    assert len(reader.asked) == len(REVIEWS)


def test_a_page_says_why_a_language_model_cannot_be_asked_beside_the_hits_of_stored_answers(make, app, reader):
    with served(make()) as index:
        index.teaching.give_answers(WHO, {"r5": "a doll"})
    reader.error, reader.error_at = EncoderError("The endpoint is gone."), REVIEWS[2]["text"]
    session = settle(settle(click(settle(app("search", q="doll lamp", instruction=WHO)), SEND)))
    assert "The language model cannot be asked: The endpoint is gone." in shown(session).replace("\\", "")
    assert "-badge[a doll]" in shown(session)
    reader.error = None
    session = settle(settle(click(session, "Try again")))
    assert "cannot be asked" not in shown(session)
    assert REVIEWS[2]["text"] in reader.asked


def test_searches_of_other_questions_and_sessions_go_on_beside_a_language_model_that_is_slow(make, app, reader):
    with served(make()) as index:
        index.teaching.read_by(PRODUCT, NAME)
    reader.gated = WHO
    slow = click(settle(app("search", q="lamp", instruction=WHO)), SEND)
    assert reader.reached.wait(PATIENCE)
    by_encoder = settle(app("search", q="lamp", instruction=MOOD))
    assert "The model has read all reviews under this question" in shown(by_encoder)
    by_model = settle(settle(click(settle(app("search", q="lamp", instruction=PRODUCT)), SEND)))
    assert "The model has read all reviews under this question" in shown(by_model)
    assert not slow.session_state["search: running"][1].snapshot().over
    reader.gate.set()
    assert "The model has read all reviews under this question" in shown(settle(slow))


def test_clusters_of_other_questions_are_made_beside_a_language_model_that_is_slow(make, app, reader):
    served(make()).close()
    reader.gated = WHO
    slow = click(app("groups", instruction=WHO, groups="2"), SEND)
    assert reader.reached.wait(PATIENCE)
    other = app("groups", instruction=PRODUCT, groups="3")
    awaited(other, "6 reviews in 3 groups")
    reader.gate.set()
    assert "All 6 texts were read by chat:fake." in shown(settle(slow)).replace("\\", "")


def test_clusters_of_stored_answers_say_why_and_are_made_anew_once_the_language_model_can_be_asked(make, app, reader):
    with served(make()) as index:
        index.teaching.give_answers(WHO, {"r1": "kettle", "r2": "kettle", "r5": "toy"})
    reader.error, reader.error_at = EncoderError("The endpoint is gone."), REVIEWS[2]["text"]
    session = settle(click(app("groups", instruction=WHO, groups="2"), SEND))
    assert "cannot be asked: The endpoint is gone." in shown(session).replace("\\", "")
    reader.error = None
    session = settle(click(session, "Ask the language model again"))
    assert "All 6 texts were read by chat:fake." in shown(session).replace("\\", "")


def test_a_search_that_waits_for_the_texts_of_another_can_be_stopped(make, app, reader):
    served(make()).close()
    reader.gated = WHO
    first = click(settle(app("search", q="lamp", instruction=WHO)), SEND)
    assert reader.reached.wait(PATIENCE)
    second = click(settle(app("search", q="lamp", instruction=WHO)), SEND)
    waiting = second.session_state["search: running"][1]
    waiting.stop()
    assert waiting.wait(PATIENCE).status == "stopped"
    reader.gate.set()
    settle(first)
    assert len(reader.asked) == len(REVIEWS)


def test_an_index_of_others_is_searched_by_its_stored_answers_until_its_host_is_allowed(make, app, reader, tmp_path):
    folder = make()
    with served(folder) as index:
        index.teaching.read_by(MOOD, NAME)
        index.cluster(WHO, k=2, read=3)
        index.upkeep.archive(tmp_path / "index.zip")
    sent = len(reader.asked)
    import_index(tmp_path / "index.zip", folder.with_name("theirs"))
    session = settle(app("search", index="theirs", q="lamp", instruction=WHO))
    assert "-badge[" in shown(session)
    assert "A search sends at most 3 more reviews" in shown(session)
    (button,) = [one for one in session.button if one.label == SEND]
    (may,) = [one for one in session.checkbox if "may be sent" in one.label]
    assert may.label.replace("\\", "") == f"Texts of this index may be sent to {HOST}"
    assert button.disabled
    assert len(reader.asked) == sent
    clusters_page = settle(app("groups", index="theirs", instruction=WHO, groups="2"))
    assert "3 of 6 texts were read by chat:fake" in shown(clusters_page).replace("\\", "")
    assert len(clusters_page.checkbox) == 1
    assert len(reader.asked) == sent
    whole(may.check().run())
    session = settle(settle(click(session, SEND)))
    assert "cannot be asked" not in shown(session)
    assert len(reader.asked) == len(REVIEWS)
    after = settle(app("search", index="theirs", q="toy", instruction=WHO))
    assert not [one for one in after.checkbox if "may be sent" in one.label]


def test_a_label_stands_before_the_answer_of_a_language_model_at_once(make, app, reader):
    folder = make()
    with served(folder) as index:
        session = settle(settle(click(settle(app("search", q="lamp", instruction=WHO)), SEND)))
        table = {row["review"]: row["answer"] for row in session.dataframe[0].value.to_dict("records")}
        assert table[REVIEWS[4]["text"]] == "toy"
        index.teaching.label(WHO, "r5", "a doll")
    session = settle(whole(session.run()))
    table = {row["review"]: row["answer"] for row in session.dataframe[0].value.to_dict("records")}
    assert table[REVIEWS[4]["text"]] == "a doll"
    assert ":blue-badge[a doll]" in shown(session)


@pytest.mark.parametrize(
    "correct",
    [
        lambda teaching: teaching.give_answers(WHO, {"r1": "lamp"}),
        lambda teaching: teaching.label(WHO, "r1", "lamp"),
    ],
)
def test_a_correction_makes_clusters_anew(make, reader, correct):
    with served(make()) as index:
        found = index.cluster(WHO, k=2, read="all")
        assert index.clusterings.still_holds(found)
        correct(index.teaching)
        assert not index.clusterings.still_holds(found)
        assert resources.groupings().find(index, Ask(WHO, 2)) is None
