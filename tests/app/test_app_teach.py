import threading
from dataclasses import replace

import pytest
from app_checks import PATIENCE, awaited, shown, whole
from app_fakes import MOOD, documents, load_encoder

from retriever.core.results import Held, Lessons
from retriever.index.teaching.part import Teaching
from retriever.index.teaching.tuning import FOLDS, STEPS
from retriever.workspace import Index
from retriever_app import resources
from retriever_app.background import FOREGROUND
from retriever_app.pages.teach import job as tunings
from retriever_app.pages.teach import model as teaching
from retriever_app.text import taught_line

ROWS = [
    {"id": f"t{number:02}", "text": f"{'I love' if number % 2 else 'I hate'} the {thing} {number}."}
    for number, thing in enumerate(["kettle", "lamp", "toy", "rug"] * 5)
]
PAIRS = [
    {"id": f"p{number:02}", "text": f"{'I love' if number % 2 else 'I hate'} the {thing} {number}."}
    for number, thing in enumerate(thing for thing in ["kettle", "lamp", "toy"] * 4 for _ in range(2))
]
GLAD = "Is the writer glad of the product?"  # the question reader looks at the products, which tell nothing of it
ALL_STEPS = STEPS * (FOLDS + 1)
LEARN, TUNE = "Learn from these answers", "Fine-tune on these answers"


def answer(text):
    return "glad" if "love" in text else "cross"


def asked(session):
    """The reviews that are asked about, by the keys of their answers."""
    return {one.key: next(row["text"] for row in ROWS + PAIRS if row["id"] in one.key) for one in pills(session)}


def pills(session):
    return [one for one in session.button_group if one.key and one.key.startswith("teach answer")]


def answered(session):
    """Answer all reviews that are asked about."""
    for key, text in asked(session).items():
        next(one for one in pills(session) if one.key == key).set_value(answer(text))
        session = whole(session.run())
    return session


def button(session, label):
    (found,) = [one for one in session.button if one.label == label]
    return found


def press(session, label):
    return whole(button(session, label).click().run())


@pytest.fixture
def page(make, app):
    folder = make(rows=ROWS, instructions=[MOOD])
    return folder, app("teach", instruction=MOOD, answers="glad, cross")


def test_before_anything_is_asked(make, app):
    make()
    assert "Enter a question" in shown(app("teach"))
    assert "Write two answers or more." in shown(app("teach", instruction=MOOD, answers="one"))


def test_answers_are_learned_by_clicking_and_forgotten(page):
    folder, session = page
    assert len(asked(session)) == teaching.AT_ONCE
    assert "3 more for “glad” and 3 more for “cross”." in shown(session)
    session = answered(session)
    seen = set(asked(session).values())
    session = press(session, LEARN)
    assert f"Learned from {teaching.AT_ONCE} reviews." in shown(session)
    assert not seen & set(asked(session).values())
    with Index(folder, encoder=load_encoder()) as index:
        assert sum(index.teaching.lessons(MOOD).answers.values()) == teaching.AT_ONCE
        hits = index.search("love", instruction=MOOD, mode="dense", k=10).hits
        assert {answer(hit.document.text) for hit in hits} == {"glad"}
    session = press(session, "Undo the teaching")
    assert "Learned from" not in shown(session)
    with Index(folder, encoder=load_encoder()) as index:
        assert index.teaching.lessons(MOOD) is None


def test_what_was_taught_elsewhere_goes_on_here(page, app):
    folder, _ = page
    with Index(folder, encoder=load_encoder()) as index:
        index.teaching.teach(MOOD, [(row["id"], answer(row["text"])) for row in ROWS[:8]])
    session = app("teach", instruction=MOOD)
    assert "Learned from 8 reviews." in shown(session)
    assert "cross: 4, glad: 4" in shown(session).replace("\\", "")
    assert not {row["text"] for row in ROWS[:8]} & set(asked(session).values())


def test_what_is_taught_elsewhere_while_the_page_is_open_is_kept(page):
    folder, session = page
    before = set(asked(session))
    with Index(folder, encoder=load_encoder()) as index:
        index.teaching.teach(MOOD, [(row["id"], answer(row["text"])) for row in ROWS[:8]])
    session = whole(session.run())
    assert "cross: 4, glad: 4" in shown(session).replace("\\", "")
    assert not before & set(asked(session))


def test_reviews_are_chosen_anew_once_another_reads_the_question(page):
    folder, session = page
    before = set(asked(session))
    with Index(folder, encoder=load_encoder()) as index:
        index.teaching.give_answers(MOOD, {row["id"]: answer(row["text"]) for row in ROWS})
    assert not before & set(asked(whole(session.run())))


@pytest.fixture
def tunable(indexes):
    """Make an index with a plain reader that can be fine-tuned, taught by some reviews, and return its lessons."""

    def make(plain="learns all", name="reviews", taught=8):
        with Index(indexes / name, encoder=load_encoder(), plain=load_encoder(plain)) as index:
            index.add(documents(PAIRS), instructions=[GLAD])
            return (
                index.teaching.teach(GLAD, [(row["id"], answer(row["text"])) for row in PAIRS[:taught]])
                if taught
                else None
            )

    return make


@pytest.fixture
def hold(monkeypatch):
    """Keep fine-tunings where they have done so much of a part, until they may go on or are stopped."""
    gates, teach = {}, Teaching.teach

    def held(index, question, examples, *, progress=None, **options):
        def tell(report):
            progress(report)
            gate = gates.get((report.tuning, report.in_hand))
            while gate and not gate.wait(0.01):
                progress(report)

        return teach(index, question, examples, progress=progress and tell, **options)

    def held_at(*, tuning, done):
        gates[tuning, done] = threading.Event()
        return gates[tuning, done]

    monkeypatch.setattr(Teaching, "teach", held)
    yield held_at
    for gate in gates.values():
        gate.set()
    for job in fine_tunings():
        assert job.wait(PATIENCE).over


def fine_tunings():
    return list(resources.jobs().named(tunings.TUNE).values())


def bars(session):
    return [one.proto.text.replace("\\", "") for one in session.get("progress")]


def at(session, progress):
    """Draw the page again until a fine-tuning shows that it is so far."""
    return awaited(session, lambda: progress in str(bars(session)))


def ended(session):
    """Wait for a fine-tuning and draw the page again."""
    (job,) = fine_tunings()
    assert job.wait(PATIENCE).over
    return whole(session.run())


def stored(indexes):
    with Index(indexes / "reviews", encoder=load_encoder()) as index:
        return index.teaching.lessons(GLAD)


def test_what_is_fine_tuned_is_told_and_other_reviews_are_asked_about(tunable, indexes, app):
    tunable(taught=0)
    session = answered(app("teach", instruction=GLAD, answers="glad, cross"))
    seen = set(asked(session).values())
    session = ended(press(session, TUNE))
    assert "100% get the right answer" in shown(session)
    assert "The base encoder was fine-tuned for this question." in shown(session)
    assert len(asked(session)) == teaching.AT_ONCE
    assert not seen & set(asked(session).values())
    assert not button(session, TUNE).disabled
    lessons = stored(indexes)
    assert lessons.tuned
    assert lessons.before.value < lessons.after.value == 1
    assert sum(lessons.answers.values()) == teaching.AT_ONCE


def test_a_fine_tuning_shows_how_far_it_is_and_searches_go_on(tunable, indexes, app, hold):
    before = tunable()
    step, reading = hold(tuning=True, done=7), hold(tuning=False, done=0)
    session = at(press(app("teach", instruction=GLAD), TUNE), "step 7")
    assert bars(session) == [f"Fine-tuning: step 7 of {ALL_STEPS}"]
    assert all(button(session, label).disabled for label in (LEARN, TUNE, "Undo the teaching"))
    result = resources.open_index("reviews").search("love", instruction=GLAD, mode="dense", k=10)
    assert (len(result.hits), stored(indexes)) == (10, before)
    step.set()
    session = at(session, "Reading")
    assert bars(session) == [f"Reading reviews again: 0 of {len(PAIRS)}"]
    reading.set()
    session = ended(session)
    assert bars(session) == []
    assert not any(button(session, label).disabled for label in (LEARN, TUNE, "Undo the teaching"))


def test_a_fine_tuning_that_is_stopped_changes_nothing(tunable, indexes, app, hold):
    before = tunable()
    hold(tuning=True, done=7)
    session = at(press(app("teach", instruction=GLAD), TUNE), "step 7")
    session = ended(press(session, "Stop"))
    assert "The fine-tuning was stopped, and nothing was changed." in shown(session)
    assert stored(indexes) == before
    assert not button(session, TUNE).disabled
    assert "stopped" not in shown(press(session, LEARN))


def test_a_question_that_is_tuned_says_so_elsewhere(tunable, app):
    tunable()
    ended(press(app("teach", instruction=GLAD), TUNE))
    assert list(app("model").dataframe[0].value["taught"])[-1].endswith("reader fine-tuned")
    learned = lessons(0.5, 0.9, 0.7)
    assert "fine-tuned" not in taught_line(learned).sentence
    assert "with an encoder fine-tuned for it" in taught_line(replace(learned, tuned=True)).sentence


def lessons(before, after, low):
    return Lessons(3, {"a": 3, "b": 3}, Held(before, 0.2, 0.8), Held(after, low, 1.0), 6, "")


def test_what_to_do_next_follows_the_scores():
    assert "did not improve" in teaching.advice(lessons(0.6, 0.5, 0.3))
    assert "may be no better" in teaching.advice(lessons(0.5, 0.7, 0.4))
    assert "now use it" in teaching.advice(lessons(0.5, 0.9, 0.7))
    assert "Fine-tuning did not help" in teaching.learned(replace(lessons(0.5, 0.9, 0.7), tuned=False))
    assert "90% get the right answer (between 70% and 100%); before it was 50%" in teaching.learned(
        lessons(0.5, 0.9, 0.7)
    )


def test_choices_are_each_there_once():
    assert teaching.choices(" good,bad, GOOD ,,", ["bad", "odd"]) == ["good", "bad", "odd"]
    assert teaching.choices("") == []


def test_what_is_lacking_is_said():
    assert "Two answers" in teaching.lacking({}, ["a"])
    assert teaching.lacking({"1": "a", "2": "a", "3": "a"}, ["a", "b"]) == (
        "Two answers are needed, with 3 reviews or more each."
    )
    assert teaching.lacking(dict(zip("123456", "aaabbb", strict=True)), ["a", "b", "c"]) == ""
    assert teaching.lacking(dict(zip("12345", "aaabb", strict=True)), ["a", "b"]) == "1 more for “b”."


def test_a_fine_tuning_gives_way_to_searches_at_every_step(tunable, app, hold):
    tunable()
    gate = hold(tuning=True, done=7)
    session = at(press(app("teach", instruction=GLAD), TUNE), "step 7")
    with FOREGROUND.waited_for():
        gate.set()
        (job,) = fine_tunings()
        assert not job.wait(1).over
        assert job.snapshot().progress.sentence in [f"Fine-tuning: step {done} of {ALL_STEPS}" for done in (7, 8)]
    assert "fine-tuned for this question" in shown(ended(session))
