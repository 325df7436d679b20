import threading

import pytest
from app_checks import shown, whole
from app_fakes import MOOD, PRODUCT, REVIEWS

from retriever.core.verdicts import Verdict
from retriever.index.verdicts.measured import Measured
from retriever_app import resources
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


def settle(session):
    """Wait for what is under way, and draw the page again."""
    for _ in range(3):
        for job in resources.jobs().named("").values():
            job.wait(60)
        whole(session.run())
    return session


def test_the_line_says_what_to_do():
    found = Verdict(MOOD, "hardly", 0.1, 40, [("book", 12), ("kettle", 9)], True)
    line = verdicts.line(found)
    assert (line.icon, line.sentence) == (":material/warning:", HARDLY)
    assert line.answers == "Looked at 40 reviews; the model answers most often: book (12), kettle (9)."
    wordless = verdicts.line(Verdict(MOOD, "followed", 0.9, 1, [], True))
    assert wordless.sentence == "This model follows this question."
    assert wordless.answers == "Looked at 1 review; the model answers in no words."


def test_a_search_looks_into_its_question_and_says_what_it_found(make, app, chance):
    make(rows=ROWS)
    session = settle(app("search", q="broke", instruction=MOOD))
    assert SHOWN in shown(session)
    assert SHOWN not in shown(settle(app("search", q="broke")))


def test_clusters_say_what_they_are(make, app, chance):
    make(rows=ROWS, instructions=[MOOD])
    session = settle(app("clusters", instruction=MOOD))
    assert SHOWN in shown(session)
    assert "not answers to the question" in shown(session)


def test_a_comparison_has_a_verdict_for_both(make, app, chance):
    make(rows=ROWS, instructions=[MOOD, PRODUCT])
    assert shown(settle(app("compare", q="broke", first=MOOD, second=PRODUCT))).count(SHOWN) == 2


def test_one_question_is_looked_into_at_a_time(make, app, chance):
    make(rows=ROWS)
    go = threading.Event()
    running = resources.jobs().start("diagnose another", "The diagnosis", lambda job: go.wait(60))
    session = app("search", q="broke", instruction=MOOD)
    assert list(resources.jobs().named("diagnose")) == ["diagnose another"]
    go.set()
    running.wait(60)
    assert SHOWN in shown(settle(session))


def test_the_model_page_shows_it_in_the_table_of_views(make, app, chance):
    make(rows=ROWS, instructions=[MOOD])
    table = app("model").dataframe[0].value
    assert list(table["followed"]) == ["", "hardly"]
