import threading
from urllib.parse import parse_qs

import pytest
from app_checks import PATIENCE, awaited, settle, shown, whole
from app_fakes import MOOD, PRODUCT, REVIEWS, load_encoder

from retriever.core.results import Held, IndexingReport, Lessons
from retriever.core.verdicts import Verdict
from retriever.index.filled_index import FilledIndex
from retriever.index.verdicts.measured import Measured
from retriever.workspace import Index
from retriever_app import resources
from retriever_app.foreground import FOREGROUND, PAUSE_SECONDS
from retriever_app.view_models import text, verdicts

ROWS = [
    {**review, "id": f"{review['id']}-{copy}", "text": f"{review['text']} {copy}"}
    for review in REVIEWS
    for copy in range(7)
]
HARDLY = "This model hardly follows this question; teach it with examples."
SHOWN = text.plain(HARDLY)


@pytest.fixture
def chance(monkeypatch):
    """Every question is hardly followed."""
    monkeypatch.setattr(Measured, "chance", lambda self, features: 0.01)


def links(session):
    """The links in the page: what each says, its page, and its query parameters."""
    found = [one.proto for one in session.main.children.values() for one in elements(one)]
    return [(one.label, one.page, parse_qs(one.query_string)) for one in found if one.DESCRIPTOR.name == "PageLink"]


def elements(node):
    """The elements of a part of the page."""
    if hasattr(node, "children"):
        return [found for child in node.children.values() for found in elements(child)]
    return [node]


def test_the_line_says_what_to_do():
    found = Verdict(MOOD, "hardly", 0.1, 40, [("book", 12), ("kettle", 9)], True)
    line = verdicts.line(found)
    assert (line.icon, line.sentence, line.link) == (":material/warning:", HARDLY, "Teach it")
    assert line.answers == "Looked at 40 reviews; the model answers most often: book (12), kettle (9)."
    wordless = verdicts.line(Verdict(MOOD, "followed", 0.9, 1, [], True))
    assert wordless.sentence == "This model follows this question."
    assert wordless.answers == "Looked at 1 review; the model answers in no words."
    assert wordless.link == ""
    lessons = Lessons(3, {"a": 3, "b": 4}, Held(0.5, 0.2, 0.8), Held(0.9, 0.7, 1.0), 7, "")
    taught = verdicts.taught_line(lessons)
    assert taught.sentence == "This question was taught by 7 reviews: of reviews left out, 90% get the right answer."
    assert (taught.answers, taught.link) == ("Between 70% and 100%. Answers: a and b.", "Teach it more")


def test_a_search_looks_into_its_question_and_says_what_it_found(make, app, chance):
    make(rows=ROWS)
    session = awaited(app("search", q="broke", instruction=MOOD), SHOWN)
    assert links(session) == [("Teach it", "teach", {"instruction": [MOOD], "index": ["reviews"]})]
    assert SHOWN not in shown(settle(app("search", q="broke")))


def test_a_question_is_looked_into_when_nobody_waits_for_a_search(make, app, chance):
    make(rows=ROWS)
    with FOREGROUND.waited_for():
        session = awaited(app("search", q="broke", instruction=MOOD), lambda: resources.jobs().named("diagnose"))
        (job,) = resources.jobs().named("diagnose").values()
        assert not job.wait(2 * PAUSE_SECONDS).over
    awaited(session, SHOWN)


def test_clusters_say_what_they_are(make, app, chance):
    make(rows=ROWS, instructions=[MOOD])
    session = settle(app("clusters", instruction=MOOD))
    assert SHOWN in shown(session)
    assert [one[:2] for one in links(session)] == [("Teach it", "teach")]
    assert "not answers to the question" in shown(session)


def test_the_link_leads_to_the_question_on_the_page_teach(make, app, chance):
    make("other", rows=ROWS)
    make(rows=ROWS)
    ((_, page, asked),) = links(awaited(app("search", q="broke", instruction=MOOD, index="reviews"), SHOWN))
    session = app(page, **{name: value for name, (value,) in asked.items()})
    assert session.text_input(key="TaughtQuestion.instruction").value == MOOD
    assert session.selectbox(key="Chosen.index").value == "reviews"


def test_a_question_that_was_taught_says_how_well_it_is_answered(make, app, chance):
    folder = make(rows=ROWS, instructions=[MOOD])
    with Index(folder, encoder=load_encoder()) as index:
        index.teach(MOOD, [(row["id"], "broke" if "broke" in row["text"] else "whole") for row in ROWS])
        held = index.lessons(MOOD).after
    assert list(app("model").dataframe[0].value["taught"]) == [
        "",
        f"42 reviews, {held.value:.0%} right ({held.low:.0%} to {held.high:.0%})",
    ]
    for page in ("search", "clusters"):
        session = awaited(app(page, q="broke", instruction=MOOD), "This question was taught by 42 reviews")
        assert SHOWN not in shown(session)
        assert [one[0] for one in links(session)] == ["Teach it more"]


def test_saved_clusters_have_a_verdict_too(make, app, chance):
    folder = make(rows=ROWS, instructions=[MOOD])
    with Index(folder, encoder=load_encoder()) as index:
        index.save_clustering("moods", index.cluster(MOOD, k=2))
    assert SHOWN in shown(settle(app("clusters", show="saved", saved="moods")))


def test_a_comparison_has_a_verdict_for_both(make, app, chance):
    make(rows=ROWS, instructions=[MOOD, PRODUCT])
    assert shown(settle(app("compare", q="broke", first=MOOD, second=PRODUCT))).count(SHOWN) == 2


@pytest.mark.parametrize(
    ("page", "fields"),
    [("compare", {"q": "broke", "first": MOOD, "second": MOOD}), ("clusters", {"show": "flow", "beside": MOOD})],
)
def test_one_question_on_both_sides_is_looked_into_once_and_can_be_stopped(
    make, app, chance, monkeypatch, page, fields
):
    make(rows=ROWS)
    reached, go = threading.Event(), threading.Event()

    def judge(index, instruction, *, progress=None):
        reached.set()
        while not go.wait(0.01):
            progress(IndexingReport(in_hand=20, expected=40, judging=True))

    monkeypatch.setattr(FilledIndex, "_judge", lambda *given: {})
    monkeypatch.setattr(Index, "judge", judge)
    session = app(page, instruction=MOOD, **fields)
    awaited(session, reached.is_set)  # what is asked comes first, then its verdict
    whole(session.run())
    stops = [one for one in session.button if one.label == "Stop"]
    assert [one.key for one in stops] == ["stop verdict first", "stop verdict second"]
    assert len(resources.jobs().named("diagnose")) == 1
    stops[1].click().run()
    for job in resources.jobs().named("diagnose").values():
        assert job.wait(PATIENCE).over
    go.set()
    whole(session.run())
    assert shown(session).count("Nobody has looked yet") == 2


def test_one_question_is_looked_into_at_a_time(make, app, chance):
    make(rows=ROWS)
    go = threading.Event()
    running = resources.jobs().start("diagnose another", "The diagnosis", lambda job: go.wait(PATIENCE))
    session = awaited(app("search", q="broke", instruction=MOOD), "is looked into after another one")
    assert list(resources.jobs().named("diagnose")) == ["diagnose another"]
    go.set()
    running.wait(PATIENCE)
    awaited(session, SHOWN)


def test_the_model_page_shows_it_in_the_table_of_views(make, app, chance):
    make(rows=ROWS, instructions=[MOOD])
    table = app("model").dataframe[0].value
    assert list(table["followed"]) == ["", "hardly"]
    assert list(table["taught"]) == ["", ""]
