import re
import threading
from datetime import date
from html import unescape

from app_checks import PATIENCE, awaited, remove, settle, shown, whole
from app_fakes import MOOD, PRODUCT, REVIEWS, KeywordEncoder

from retriever.index import profiling
from retriever.index.search import rounds
from retriever.workspace import Index
from retriever_app.pages.search import job as searching


def heads(session):
    """Return the first lines of the cards."""
    return [one.value for one in session.markdown if one.value.startswith("**") and "★" in one.value]


def texts(session):
    """Return the reviews on cards."""
    known = {review["text"] for review in REVIEWS}
    return [one.value for one in session.text if one.value in known]


def test_hits_are_cards_with_stars_words_and_reasons(make, app):
    make(instructions=[PRODUCT])
    session = app("search", q="kettle", instruction=PRODUCT)
    assert sorted(texts(session)[:2]) == ["I love this kettle.", "The kettle broke."]
    assert "★☆☆☆☆&ensp;**Kettle**&ensp;:gray[kitchen · 2024-01-10]" in " ".join(heads(session)).replace("\\", "")
    assert "badge[kettle]" in shown(session)
    assert "By the words of the query, it ranks 1st." in shown(session)
    assert "The model has read all reviews under this question" in shown(session).replace("\\", "")


def test_documents_are_counted_anew_after_a_command_and_not_after_a_search(make, app, monkeypatch):
    counted = []
    count = profiling.profile
    monkeypatch.setattr(profiling, "profile", lambda *asked: counted.append(asked) or count(*asked))
    path = make()
    session = settle(app("search", q="lamp", instruction=MOOD))
    # and kept: the index has changed
    assert "The model has read all reviews under this question" in shown(session)
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


def test_first_hits_show_at_once_and_settle(make, app, gated):
    make()
    session = app("search", q="lamp", instruction=MOOD)
    assert "The list may change while the model reads more" in shown(session)
    assert len(texts(session)) == len(REVIEWS)
    gated.gate.set()
    settle(session)
    assert "The model has read all reviews under this question" in shown(session)
    assert "badge[love]" in shown(session)
    job = session.session_state["search: running"][1]
    whole(session.run())
    assert session.session_state["search: running"][1] is job


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
    (bar,) = session.get("progress")
    encoder.gate.set()
    assert (bar.proto.text, bar.proto.value) == ("1 of at most 6 reviews read", 16)
    assert not settle(session).get("progress")


class StepEncoder(KeywordEncoder):
    """Reads three texts under a question, and waits within the next one, of which it has told."""

    def __init__(self):
        super().__init__()
        self.go, self.read = threading.Event(), 0

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        if on_tokens:
            on_tokens(sum(map(len, map(str.split, texts))))
            self.read += len(texts)
            assert self.read <= 3 or self.go.wait(PATIENCE)
        return super().encode_views(texts, instructions, words=words)


def test_the_list_is_drawn_anew_with_what_is_read_so_far(make, app, monkeypatch):
    encoder = StepEncoder()
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *args, **options: encoder)
    monkeypatch.setattr(rounds, "KEPT_AT_ONCE", 1)
    monkeypatch.setattr(rounds, "QUICK", 0)
    monkeypatch.setattr(searching, "SHOWN_EVERY", 2)
    make()
    session = awaited(app("search", q="lamp love", instruction=MOOD), "with what is read so far")
    assert "badge[love]" in shown(session)
    assert "may change while the model reads more" in shown(session)
    encoder.go.set()
    assert "has read all reviews under this question" in shown(settle(session))


def test_a_search_says_that_it_waits_for_another(make, app):
    make()
    with searching._READING:
        session = app("search", q="lamp", instruction=MOOD)
        waits = "Waiting for another search …"
        awaited(session, lambda: [bar.proto.text for bar in session.get("progress")] == [waits])
    assert "has read all reviews under this question" in shown(settle(session))


def test_a_search_can_be_stopped_and_continued(make, app, gated):
    make()
    session = app("search", q="lamp", instruction=MOOD)
    session.button(key="stop search").click().run()
    gated.gate.set()
    assert session.session_state["search: running"][1].wait(PATIENCE).status == "stopped"
    whole(session.run())
    assert "these are the first hits" in shown(session)
    assert "may change" not in shown(session)
    assert len(texts(session)) == len(REVIEWS)
    session.button(key="continue search").click().run()
    assert "has read all reviews under this question" in shown(settle(session))


def test_a_card_shows_the_label_that_a_review_was_given(make, app):
    folder = make(instructions=[MOOD])
    with Index(folder, encoder=KeywordEncoder()) as index:
        index.teaching.name_answers(MOOD, {"delighted": ""})
        index.teaching.label(MOOD, "r2", "delighted")
    session = app("search", q="kettle love", instruction=MOOD, k="1")
    assert texts(session) == ["I love this kettle."]
    assert ":blue-badge[delighted] :gray[labeled]" in shown(session)
    assert "badge[love]" not in shown(session)


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


def test_hostile_reviews_are_shown_as_they_are(make, app):
    hostile = (
        "<img src=x onerror=alert(1)> **bold** [a](javascript:alert(1)) ![p](http://evil/p.png) $x$ :red[x] kettle"
    )
    twice = f"{hostile}. Another sentence, with <b>."
    row = {"id": "[x](y)", "text": twice, "product": "![p](http://evil/q.png)", "category": "<b>", "stars": 3}
    make(rows=[row])
    session = app("search", q="kettle")
    (html,) = (one.proto.body for one in session.get("html") if "<mark>" in one.proto.body)
    body = re.fullmatch(r'<p class="review">(.*)<mark>(.*)</mark>(.*)</p>', html)
    assert body is not None
    assert not [part for part in body.groups() if "<" in part]
    assert unescape("".join(body.groups())) == twice
    drawn = [one.value for one in (*session.markdown, *session.caption)]
    assert not [one for one in drawn if "](" in one.replace("\\](", "") or "<b>" in one.replace("\\<", "")]


def test_an_index_deleted_while_a_page_is_open(make, app):
    folder = make()
    session = settle(app("search", index="reviews", q="kettle"))  # a search writes no more
    remove(folder)
    whole(session.run())
    assert "no index 'reviews' here any more" in shown(session)
    assert "Choose another index on the left, or open a file of reviews on the page Corpus." in shown(session)
    make()
    session.run()
    assert "did not work" not in shown(session)


def test_another_index_in_the_place_of_one_shows_its_own_reviews(make, app):
    asked = {"q": "kettle", "instruction": PRODUCT, "k": "2"}
    folder = make(instructions=[PRODUCT])
    session = settle(app("search", index="reviews", **asked))
    assert "kettle" in shown(session)
    others = [review | {"id": f"other {review['id']}", "text": "A drone, loud."} for review in REVIEWS]
    other = make("other", rows=others, instructions=[PRODUCT])
    remove(folder)
    other.rename(folder)
    settle(session)
    assert texts(session) == [] and "love this kettle" not in shown(session)
    assert "A drone, loud." in shown(session)


def test_an_index_that_changed_is_searched_again(make, app):
    make(rows=REVIEWS[:2])
    session = settle(app("search", q="kettle"))
    assert len(texts(session)) == 2
    make(rows=REVIEWS)
    whole(session.run())
    assert len(texts(session)) == len(REVIEWS)


def test_a_change_right_after_the_search_is_seen(make, app):
    make(rows=REVIEWS[:2])
    session = app("search", q="kettle")
    assert session.session_state["search: running"][1].wait(PATIENCE).over
    make(rows=REVIEWS)
    whole(session.run())
    assert len(texts(session)) == len(REVIEWS)
