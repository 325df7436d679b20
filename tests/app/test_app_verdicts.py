import threading
from urllib.parse import parse_qs

import pytest
from app_checks import PATIENCE, awaited, settle, shown, whole
from app_fakes import MOOD, REVIEWS, load_encoder

from retriever.core.lessons import Held, Lessons
from retriever.core.results import IndexingReport
from retriever.core.verdicts import Verdict
from retriever.index import completing
from retriever.index.search import rounds
from retriever.index.teaching.part import Teaching
from retriever.index.verdicts.measured import Measured
from retriever.serving.foreground import PAUSE_SECONDS
from retriever.workspace import Index
from retriever_app import resources, text
from retriever_app.background import FOREGROUND

ROWS = [
    {**review, "id": f"{review['id']}-{copy}", "text": f"{review['text']} {copy}"}
    for review in REVIEWS
    for copy in range(7)
]
SHOWN = "This model does not follow this question"


@pytest.fixture
def chance(monkeypatch):
    """No question is followed."""
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
    found = Verdict(MOOD, "not followed", 0.1, 40, [("book", 12), ("kettle", 9)], True)
    line = text.verdict_line(found)
    assert (line.icon, line.sentence, line.link) == (":material/warning:", found.sentence, "Teach it")
    assert line.answers == "Checked on 40 reviews; the model answers most often: book (12), kettle (9)."
    wordless = text.verdict_line(Verdict(MOOD, "followed", 0.9, 1, [], True))
    assert wordless.sentence == "This model follows this question."
    assert wordless.answers == "Checked on 1 review; the model gives no words as answers."
    assert wordless.link == ""
    lessons = Lessons(3, {"a": 3, "b": 4}, Held(0.5, 0.2, 0.8), Held(0.9, 0.7, 1.0), 7, "")
    taught = text.taught_line(lessons)
    both = (
        "Taught with 7 examples: 90% of the examples set aside for testing get the right answer (70% to 100%), "
        "50% before."
    )
    assert (taught.sentence, taught.answers, taught.link) == (both, "Answers: a and b.", "Teach it more")


def test_a_search_looks_into_its_question_and_says_what_it_found(make, app, chance):
    make(rows=ROWS)
    session = awaited(app("search", q="broke", instruction=MOOD), SHOWN)
    assert links(session) == [("Teach it", "teach", {"instruction": [MOOD], "index": ["reviews"]})]
    (warning,) = session.warning
    assert SHOWN in warning.value
    assert SHOWN not in shown(settle(app("search", q="broke")))


def test_clusters_say_what_they_are(make, app, chance):
    make(rows=ROWS, instructions=[MOOD])
    session = settle(app("groups", instruction=MOOD))
    assert SHOWN in shown(session)
    assert [one[:2] for one in links(session)] == [("Teach it", "teach")]
    assert "groups" in " ".join(warning.value for warning in session.warning)


def test_a_question_that_was_taught_says_how_well_it_is_answered(make, app, chance):
    folder = make(rows=ROWS, instructions=[MOOD])
    with Index(folder, encoder=load_encoder()) as index:
        index.teaching.teach(MOOD, [(row["id"], "broke" if "broke" in row["text"] else "whole") for row in ROWS])
        before, held = index.teaching.lessons(MOOD).before, index.teaching.lessons(MOOD).after
    assert list(app("models").dataframe[0].value["taught"]) == [
        "",
        f"42 examples, {before.value:.0%} right before, {held.value:.0%} after ({held.low:.0%} to {held.high:.0%})",
    ]
    for page in ("search", "groups"):
        session = awaited(app(page, q="broke", instruction=MOOD), "Taught with 42 examples")
        assert SHOWN not in shown(session)
        assert [one[0] for one in links(session)] == ["Teach it more"]


def test_groups_that_were_saved_before_their_question_was_taught_have_the_verdict_of_then(make, app, chance):
    folder = make(rows=ROWS, instructions=[MOOD])
    with Index(folder, encoder=load_encoder()) as index:
        index.clusterings.save("untaught", index.cluster(MOOD, into=["broke", "whole"]))
        index.teaching.teach(MOOD, [(row["id"], "broke" if "broke" in row["text"] else "whole") for row in ROWS])
        index.clusterings.save("taught", index.cluster(MOOD))
    before, after = (shown(settle(app("groups", saved=name))) for name in ("untaught", "taught"))
    assert SHOWN in before
    assert "Taught with" not in before
    assert "Taught with 42 examples" in after
    assert SHOWN not in after


def test_clusters_with_other_ratings_than_the_examples_that_taught_them_are_doubted(make, app, chance):
    broken = [row["id"] for row in ROWS if "broke" in row["text"]]
    whole_ones = [row["id"] for row in ROWS if "broke" not in row["text"]]
    rows = [{**row, "stars": 1 if row["id"] in broken[:4] else 5} for row in ROWS]
    folder = make(rows=rows, instructions=[MOOD])
    with Index(folder, encoder=load_encoder()) as index:
        examples = [(id, "broke") for id in broken[:4]] + [(id, "whole") for id in whole_ones[:4]]
        index.teaching.teach(MOOD, examples)
    session = settle(app("groups", instruction=MOOD))
    said = " ".join(warning.value for warning in session.warning).replace("\\", "")
    assert "ratings differ: 1.0 stars in the examples of “broke”" in said


def test_a_verdict_shows_among_the_instructions(make, app, chance, monkeypatch):
    monkeypatch.setattr(completing, "judge_views", lambda *given: {})
    monkeypatch.setattr(rounds, "wants_judging", lambda store, view: False)
    folder = make(rows=ROWS, instructions=[MOOD])
    session = app("models")
    assert list(session.dataframe[0].value["followed"]) == ["", "not checked"]
    with Index(folder, encoder=load_encoder()) as index:
        level = index.teaching.judge(MOOD).level
    assert list(whole(session.run()).dataframe[0].value["followed"]) == ["", level]


def test_the_look_into_a_question_can_be_stopped(make, app, chance, monkeypatch):
    make(rows=ROWS)
    reached, go = threading.Event(), threading.Event()

    def judge(index, instruction, *, progress=None):
        reached.set()
        while not go.wait(0.01):
            progress(IndexingReport(in_hand=20, expected=40, judging=True))

    monkeypatch.setattr(completing, "judge_views", lambda *given: {})
    monkeypatch.setattr(rounds, "wants_judging", lambda store, view: False)
    monkeypatch.setattr(Teaching, "judge", judge)
    session = app("search", q="broke", instruction=MOOD)
    awaited(session, reached.is_set)  # what is asked comes first, then its verdict
    whole(session.run())
    stops = [one for one in session.button if one.label == "Stop"]
    assert [one.key for one in stops] == ["stop verdict"]
    assert len(resources.jobs().named("diagnose")) == 1
    stops[0].click().run()
    for job in resources.jobs().named("diagnose").values():
        assert job.wait(PATIENCE).over
    go.set()
    whole(session.run())
    assert "Nobody has checked yet" in shown(session)


def test_a_question_is_looked_into_when_nobody_waits_for_a_search(make, app, chance, monkeypatch):
    monkeypatch.setattr(rounds, "wants_judging", lambda store, view: False)
    make(rows=ROWS)
    with FOREGROUND.waited_for():
        session = awaited(app("search", q="broke", instruction=MOOD), lambda: resources.jobs().named("diagnose"))
        (job,) = resources.jobs().named("diagnose").values()
        assert not job.wait(2 * PAUSE_SECONDS).over
        assert job.snapshot().progress.sentence == "Checking whether the model follows this question …"
    awaited(session, SHOWN)
