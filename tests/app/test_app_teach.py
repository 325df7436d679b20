import pytest
from app_checks import shown, whole
from app_fakes import MOOD, load_encoder

from retriever.core.results import Held, Lessons
from retriever.workspace import Index
from retriever_app.view_models import teaching

ROWS = [
    {"id": f"t{number:02}", "text": f"{'I love' if number % 2 else 'I hate'} the {thing} {number}."}
    for number, thing in enumerate(["kettle", "lamp", "toy", "rug"] * 5)
]


def answer(text):
    return "glad" if "love" in text else "cross"


def asked(session):
    """The reviews that are asked about, by the keys of their answers."""
    return {one.key: next(row["text"] for row in ROWS if row["id"] in one.key) for one in pills(session)}


def pills(session):
    return [one for one in session.button_group if one.key and one.key.startswith("teach answer")]


def press(session, label):
    (button,) = [one for one in session.button if one.label == label]
    return whole(button.click().run())


@pytest.fixture
def page(make, app):
    folder = make(rows=ROWS, instructions=[MOOD])
    return folder, app("teach", instruction=MOOD, answers="glad, cross")


def test_before_anything_is_asked(make, app):
    make()
    assert "Name a question" in shown(app("teach"))
    assert "Write two answers or more." in shown(app("teach", instruction=MOOD, answers="one"))


def test_answers_are_learned_by_clicking_and_forgotten(page):
    folder, session = page
    assert len(asked(session)) == teaching.AT_ONCE
    assert "3 more for “glad” and 3 more for “cross”." in shown(session)
    for key, text in asked(session).items():
        next(one for one in pills(session) if one.key == key).set_value(answer(text))
        session = whole(session.run())
    seen = set(asked(session).values())
    session = press(session, "Learn from these answers")
    assert f"Learned from {teaching.AT_ONCE} reviews." in shown(session)
    assert not seen & set(asked(session).values())
    with Index(folder, encoder=load_encoder()) as index:
        assert sum(index.lessons(MOOD).answers.values()) == teaching.AT_ONCE
        hits = index.search("love", instruction=MOOD, mode="dense", k=10).hits
        assert {answer(hit.document.text) for hit in hits} == {"glad"}
    session = press(session, "Forget what was taught")
    assert "Learned from" not in shown(session)
    with Index(folder, encoder=load_encoder()) as index:
        assert index.lessons(MOOD) is None


def test_what_was_taught_elsewhere_goes_on_here(page, app):
    folder, _ = page
    with Index(folder, encoder=load_encoder()) as index:
        index.teach(MOOD, [(row["id"], answer(row["text"])) for row in ROWS[:8]])
    session = app("teach", instruction=MOOD)
    assert "Learned from 8 reviews." in shown(session)
    assert "cross: 4, glad: 4" in shown(session).replace("\\", "")
    assert not {row["text"] for row in ROWS[:8]} & set(asked(session).values())


def lessons(before, after, low):
    return Lessons(3, {"a": 3, "b": 3}, Held(before, 0.2, 0.8), Held(after, low, 1.0), 6, "")


def test_what_to_do_next_follows_the_scores():
    assert "no better" in teaching.advice(lessons(0.6, 0.5, 0.3))
    assert "may be no better" in teaching.advice(lessons(0.5, 0.7, 0.4))
    assert "from now on" in teaching.advice(lessons(0.5, 0.9, 0.7))
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
