import re
import shutil
import threading
from datetime import date

import pytest
from app_checks import PATIENCE, remove, settle, shown, whole
from app_fakes import MOOD, PRODUCT, REVIEWS, KeywordEncoder, SteppedEncoder, documents

from retriever.core.errors import EncoderError
from retriever.index import profiling
from retriever.store.database import DATABASE
from retriever.workspace import Index
from retriever_app import resources


def heads(session):
    """Return the first lines of the cards."""
    return [one.value for one in session.markdown if one.value.startswith("**") and "★" in one.value]


def unmarked(session):
    """Return all Markdown without the marks around words of the query."""
    return [re.sub(r":blue-background\[(.*?)\]", r"\1", one.value) for one in session.markdown]


def texts(session):
    """Return the reviews on cards, those with marked words first."""
    known = {review["text"] for review in REVIEWS}
    bare = [one.replace("\\", "") for one in unmarked(session)]
    return [one for one in [*bare, *(one.value for one in session.text)] if one in known]


def test_hits_are_cards_with_stars_words_and_reasons(make, app):
    make(instructions=[PRODUCT])
    session = app("search", q="kettle", instruction=PRODUCT)
    assert sorted(texts(session)[:2]) == ["I love this kettle.", "The kettle broke."]
    assert "★☆☆☆☆&ensp;**Kettle**&ensp;:gray[kitchen · 2024-01-10]" in " ".join(heads(session)).replace("\\", "")
    assert "badge[kettle]" in shown(session)
    assert "by meaning, 1st by its words" in shown(session)
    assert "all reviews in question were read under this instruction" in shown(session).replace("\\", "")


def test_documents_are_counted_anew_after_a_command_and_not_after_a_search(make, app, monkeypatch):
    counted = []
    count = profiling.profile
    monkeypatch.setattr(profiling, "profile", lambda *asked: counted.append(asked) or count(*asked))
    path = make()
    session = settle(app("search", q="lamp", instruction=MOOD))
    # and kept: the index has changed
    assert "all reviews in question were read under this instruction" in shown(session)
    assert len(counted) == 1
    with Index(path, encoder=KeywordEncoder()) as index:
        index.delete([REVIEWS[0]["id"]])
    whole(session.run())
    assert len(counted) == 2


def test_what_the_browser_had_marked_before_is_not_taken_for_a_choice(make, app):
    make(instructions=[PRODUCT])
    session = app("search", q="kettle", instruction=PRODUCT)
    before = [one for one in session._tree.get_widget_states().widgets if "suggested" in one.id]
    assert before
    session.text_input(key="SearchQuestion.instruction").set_value(MOOD).run()
    states = session._tree.get_widget_states()
    late = {one.id for one in before}
    kept = [one for one in states.widgets if one.id not in late]
    del states.widgets[:]
    states.widgets.extend([*kept, *before])
    whole(session._run(states))
    assert session.text_input(key="SearchQuestion.instruction").value == MOOD


def test_the_url_is_the_page(make, app):
    make()
    session = app("search")
    session.text_input(key="SearchQuestion.q").set_value("kettle").run()
    session.text_input(key="SearchQuestion.instruction").set_value(MOOD).run()
    session.multiselect(key="Filters.product").set_value(["Kettle"]).run()
    again = settle(app("search", **session.query_params))
    assert texts(again) == texts(settle(session))
    assert set(texts(again)) == {"The kettle broke.", "I love this kettle."}
    assert again.text_input(key="SearchQuestion.instruction").value == MOOD


@pytest.fixture
def gated(monkeypatch):
    encoder = KeywordEncoder(gate=threading.Event())
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *args, **options: encoder)
    return encoder


def test_first_hits_show_at_once_and_settle(make, app, gated):
    make()
    session = app("search", q="lamp", instruction=MOOD)
    assert "being read under it" in shown(session)
    assert len(texts(session)) == len(REVIEWS)
    gated.gate.set()
    settle(session)
    assert "all reviews in question were read under this instruction" in shown(session)
    assert "badge[love]" in shown(session)
    job = session.session_state["search: running"].job
    whole(session.run())
    assert session.session_state["search: running"].job is job


class HalfwayEncoder(KeywordEncoder):
    """Says that it has read the first text, and waits before it goes on."""

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        if on_tokens:
            on_tokens(len(texts[0].split()))
        return super().encode_views(texts, instructions, words=words)


def test_a_search_says_how_many_texts_it_has_read(make, app, monkeypatch):
    encoder = HalfwayEncoder(gate=threading.Event())
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *args, **options: encoder)
    make()
    session = app("search", q="lamp", instruction=MOOD)
    assert encoder.reached.wait(PATIENCE)
    whole(session.run())
    assert session.get("progress")[0].proto.text == "1 of 6 reviews read"
    encoder.gate.set()
    assert not settle(session).get("progress")


def test_an_index_that_changed_is_searched_again(make, app):
    make(rows=REVIEWS[:2])
    session = settle(app("search", q="kettle"))
    assert len(texts(session)) == 2
    make(rows=REVIEWS)
    whole(session.run())
    assert len(texts(session)) == len(REVIEWS)


def test_more_like_a_card_under_another_instruction(make, app):
    make(instructions=[MOOD])
    session = app("search", q="love")
    first = texts(session)[0]
    session.menu_button(key="like 1").click(MOOD).run()
    whole(session)
    assert session.query_params["instruction"] == MOOD or session.query_params["instruction"] == [MOOD]
    assert "q" not in session.query_params
    assert {first} == {"I love this kettle.", "A lamp to love."} & {first}
    assert texts(session)[0] == first  # in the banner
    assert texts(session)[1] == ({"I love this kettle.", "A lamp to love."} - {first}).pop()
    session.text_input(key="SearchQuestion.q").set_value("toy").run()
    assert "like" not in session.query_params


def test_filters_are_those_the_index_has_and_can_be_cleared(make, app):
    make()
    session = app("search", q="kettle lamp toy", stars=["1"], until="2024-03-31")
    assert texts(session) == ["The kettle broke."]
    next(one for one in session.sidebar.button if one.label == "Clear filters").click().run()
    assert len(texts(whole(session))) == len(REVIEWS)
    assert "stars" not in session.query_params


@pytest.mark.parametrize(
    "parameters",
    [{"k": "0"}, {"k": "x"}, {"mode": "fast"}, {"stars": "a"}, {"since": "x"}, {"like": "nobody"}],
    ids=str,
)
def test_links_that_make_no_sense_do_no_harm(make, app, parameters):
    make()
    session = app("search", q="kettle", **parameters)
    assert texts(session) or "is gone" in shown(session)


def test_days_in_the_wrong_order_are_said(make, app):
    make()
    session = app("search", q="kettle", since="2024-05-01", until="2024-02-01")
    assert "The first day is after the last" in shown(session)


def test_days_outside_of_the_index_stay_as_they_are(make, app):
    make()
    session = app("search", q="kettle", since="2020-01-01", until="2031-12-31")
    for _ in range(2):
        assert len(texts(whole(session.run()))) == len(REVIEWS)
        asked = {field: session.date_input(key=f"Filters.{field}").value for field in ("since", "until")}
        assert asked == {"since": date(2020, 1, 1), "until": date(2031, 12, 31)}
    session.date_input(key="Filters.since").set_value(None).run()
    assert session.date_input(key="Filters.since").value is None
    assert "since" not in session.query_params


def test_days_after_those_of_the_index_find_nothing(make, app):
    make()
    session = app("search", q="kettle", since="2031-01-01")
    for _ in range(2):
        assert not texts(whole(session.run()))


def test_hostile_reviews_are_shown_as_they_are(make, app):
    hostile = (
        "<img src=x onerror=alert(1)> **bold** [a](javascript:alert(1)) ![p](http://evil/p.png) $x$ :red[x] kettle"
    )
    row = {"id": "[x](y)", "text": hostile, "product": "![p](http://evil/q.png)", "category": "<b>", "stars": 3}
    make(rows=[row])
    session = app("search", q="kettle")
    assert hostile in [re.sub(r"[\\\u2060]", "", one) for one in unmarked(session)]
    drawn = [one.value for one in (*session.markdown, *session.caption)]
    assert not [one for one in drawn if "](" in one.replace("\\](", "") or "<b>" in one.replace("\\<", "")]


def test_two_sessions_do_not_disturb_each_other(make, app):
    make(instructions=[MOOD, PRODUCT])
    one, other = app("search", q="kettle", instruction=PRODUCT), app("search", q="love", instruction=MOOD)
    kept = texts(one), texts(other)
    whole(one.run())
    whole(other.run())
    assert (texts(one), texts(other)) == kept
    assert one.text_input(key="SearchQuestion.q").value == "kettle"


def test_a_damaged_index_is_said_and_the_app_lives_on(make, app):
    folder = make()
    make("whole")
    next(folder.glob("views/*/*.faiss")).write_bytes(b"nothing")
    session = app("search", q="kettle", index="reviews", mode="dense")
    assert "differs from its checksum" in shown(session)
    assert texts(app("search", q="kettle", index="whole"))


def test_a_model_that_is_missing(make, app, monkeypatch):
    make()

    def missing(*args, **options):
        raise EncoderError("The backbone is not installed.", hint="Install it.")

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", missing)
    session = app("search", q="kettle", mode="dense")
    assert "cannot be loaded: The backbone is not installed." in shown(session)
    assert "Install it." in shown(session)


def test_a_model_with_steps_has_a_slider_for_them_that_changes_the_search(indexes, make, app, monkeypatch):
    make("plain")
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *args, **options: SteppedEncoder())
    with Index(indexes / "stepped", encoder=SteppedEncoder()) as index:
        index.add(documents(REVIEWS))
    session = app("search", index="stepped", q="toy broke", mode="dense")
    assert texts(session)[:2] == ["The toy broke.", "A toy, nothing more."]
    session.slider(key="SearchQuestion.steps").set_value(3).run()
    assert texts(whole(session))[:2] == ["A toy, nothing more.", "The toy broke."]
    assert texts(app("search", **session.query_params)) == texts(session)
    assert not app("search", index="plain").slider
    far = whole(app("search", index="stepped", q="toy broke", mode="dense", steps="50").run())
    assert far.slider(key="SearchQuestion.steps").value == 20
    assert texts(far)[0] == "The toy broke."


@pytest.mark.parametrize("page", ["search", "compare", "clusters", "corpus", "train"])
def test_an_index_deleted_while_a_page_is_open(make, app, page):
    folder = make()
    session = settle(app(page, index="reviews", q="kettle", begin="reviews"))  # a search writes no more
    remove(folder)
    whole(session.run())
    assert "no index 'reviews' here any more" in shown(session)
    assert "Choose another index on the left, or open a file of reviews on the page Corpus." in shown(session)
    make()
    session.run()
    assert "did not work" not in shown(session)


@pytest.mark.parametrize("page", ["search", "compare", "clusters"])
def test_another_index_in_the_place_of_one_shows_its_own_reviews(make, app, page):
    asked = {"q": "kettle", "instruction": PRODUCT, "k": "2"}
    folder = make(instructions=[PRODUCT])
    session = settle(app(page, index="reviews", **asked))
    assert "kettle" in shown(session)
    others = [review | {"id": f"other {review['id']}", "text": "A drone, loud."} for review in REVIEWS]
    other = make("other", rows=others, instructions=[PRODUCT])
    with Index(folder) as before, Index(other) as after:
        assert before.store.data_version() == after.store.data_version()
        assert before.store.identity() != after.store.identity()
    remove(folder)
    other.rename(folder)
    settle(session)
    assert texts(session) == [] and "love this kettle" not in shown(session)
    assert "A drone, loud." in shown(session)


def test_a_database_in_the_same_place_on_the_disk_is_opened_anew(make):
    folder, other = make(), make("other")
    before = resources.open_index("reviews")
    assert resources.open_index("reviews") is before
    shutil.copyfile(other / DATABASE, folder / DATABASE)  # keeps the number of the file
    assert resources.open_index("reviews") is not before
