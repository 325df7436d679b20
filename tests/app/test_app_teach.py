import threading
from dataclasses import replace
from urllib.parse import urlencode

import pytest
from app_checks import PATIENCE, awaited, settle, shown, whole
from app_fakes import MOOD, documents, load_encoder

from retriever.core.lessons import Held, Lessons
from retriever.index.teaching.active_learning import Suggestion
from retriever.index.teaching.labels import NONE_OF_THESE, Labels
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
GLAD = "Is the writer glad of the product?"  # the instruction encoder looks at the products, which tell nothing of it
ALL_STEPS = STEPS * (FOLDS + 1)
LEARN, TUNE = "Learn", "Fine-tune"


def answer(text):
    return "glad" if "love" in text else "cross"


def focus(session):
    """The review in focus: the button of the first answer has its id in its key; None at the end of a round."""
    (id,) = [one.key.split()[-1] for one in session.button if one.key and one.key.startswith("teach 1 ")] or [None]
    return next((row for row in ROWS + PAIRS if row["id"] == id), None)


def give(session, label):
    """Press the button that labels the review in focus."""
    return press(session, label)


def labeled(session):
    """Label all reviews of a round; return the session and the texts."""
    texts = []
    while review := focus(session):
        texts.append(review["text"])
        session = give(session, answer(review["text"]))
    return session, texts


def button(session, label):
    (found,) = [one for one in session.button if one.label == label]
    return found


def press(session, label):
    return whole(button(session, label).click().run())


def counter(session):
    return next(one.value for one in session.markdown if one.value.replace("\\", "").startswith("glad ")).replace(
        "\\", ""
    )


@pytest.fixture
def page(make, app):
    folder = make(rows=ROWS, instructions=[MOOD])
    return folder, open_named(app, folder)


def open_named(app, folder, question=MOOD, answers=("glad", "cross")):
    with Index(folder, encoder=load_encoder()) as index:
        index.teaching.name_answers(question, dict.fromkeys(answers, ""))
    return app("teach", instruction=question)


def kept(folder):
    with Index(folder, encoder=load_encoder()) as index:
        return index.teaching.labels(MOOD)


def test_before_anything_is_asked(make, app):
    make()
    session = app("teach")
    assert "Enter the question" in shown(session)
    assert "train one" in shown(session)
    assert "Enter two answers or more." in shown(app("teach", instruction=MOOD))


def test_answers_are_kept_with_the_index_and_are_there_in_another_session(make, app):
    folder = make(rows=ROWS)
    session = app("teach", instruction=MOOD)
    session = whole(session.text_area[0].set_value("glad: the writer likes it\ncross\nshipping").run())
    assert counter(session) == "glad 0 · cross 0 · shipping 0"
    assert kept(folder).answers == {"glad": "the writer likes it", "cross": "", "shipping": ""}
    other = app("teach", instruction=MOOD)
    assert other.text_area[0].value == "glad: the writer likes it\ncross\nshipping"
    other = give(other, "cross")
    session = whole(session.text_area[0].set_value("glad").run())
    assert counter(session) == "glad 0 · cross 1"


def test_reviews_are_labeled_learned_and_forgotten(page):
    folder, session = page
    assert "Label at least 3 examples for each of at least two answers" in shown(session)
    assert button(session, LEARN).disabled
    session, seen = labeled(session)
    assert len(set(seen)) == teaching.AT_ONCE
    assert "All reviews of this round are done." in shown(session)
    session = press(session, LEARN)
    assert f"{teaching.AT_ONCE} examples gave no gain" in shown(session)
    assert focus(session)["text"] not in seen
    with Index(folder, encoder=load_encoder()) as index:
        assert sum(index.teaching.lessons(MOOD).answers.values()) == teaching.AT_ONCE
        hits = index.search("love", instruction=MOOD, mode="dense", k=10).hits
        assert {answer(hit.document.text) for hit in hits} == {"glad"}
    session = press(session, "Undo the teaching")
    assert "gave no gain" not in shown(session)
    with Index(folder, encoder=load_encoder()) as index:
        assert index.teaching.lessons(MOOD) is None
        assert len(index.teaching.labels(MOOD).examples) == teaching.AT_ONCE


def test_none_of_these_and_skip_for_good_are_kept_and_undone(page):
    folder, session = page
    first = focus(session)["id"]
    session = give(session, "None of these")
    second = focus(session)["id"]
    session = give(session, "Skip for good")
    third = focus(session)["id"]
    assert len({first, second, third}) == 3
    assert counter(session) == "glad 0 · cross 0 · none of these 1 · 1 skipped"
    assert (kept(folder).examples, kept(folder).skipped) == ({first: NONE_OF_THESE}, [second])
    session = press(session, "Undo")
    assert (focus(session)["id"], kept(folder).skipped) == (second, [])
    session = press(session, "Undo")
    assert (focus(session)["id"], kept(folder).examples) == (first, {})
    assert button(session, "Undo").disabled


def test_what_is_passed_comes_again_only_when_there_is_nothing_else(page):
    _, session = page
    seen = []
    while review := focus(session):
        seen.append(review["id"])
        session = press(session, "Next")
    session = press(session, "More reviews")
    second = []
    while review := focus(session):
        second.append(review["id"])
        session = press(session, "Next")
    assert sorted(seen + second) == sorted(row["id"] for row in ROWS)
    session = press(session, "More reviews")
    assert "There are no more reviews to label." in shown(session)
    assert focus(press(session, "More reviews")) is not None


def test_a_second_press_before_the_next_review_is_drawn_does_nothing(page):
    folder, session = page
    current = session.session_state["teach: session"]
    first = focus(session)["id"]
    current.label(first, "glad")
    current.label(first, "cross")
    current.skip(first)
    current.leave(first)
    current.undo()
    current.undo()
    assert (current.place, kept(folder).examples) == (0, {})
    current.label(first, "glad")
    assert (current.place, kept(folder).examples) == (1, {first: "glad"})


def test_a_review_that_was_labeled_elsewhere_meanwhile_is_passed_by(page):
    folder, session = page
    first = focus(session)["id"]
    with Index(folder, encoder=load_encoder()) as index:
        index.teaching.label(MOOD, first, "glad")
    session = whole(session.run())
    assert focus(session)["id"] != first
    assert "Review 2 of 12" in shown(session)


def test_reviews_like_an_answer_that_is_named_later_are_chosen_at_once(make, app):
    rows = [*ROWS, *({"id": f"s{number}", "text": f"The parcel came late {number}."} for number in range(3))]
    session = open_named(app, make(rows=rows, instructions=[MOOD]), answers=("love", "hate"))
    session = whole(session.text_area[0].set_value("love\nhate\nparcel: late").run())
    offered = [one.document.id for one in session.session_state["teach: session"].offered]
    assert {offered[2][0], offered[5][0]} == {"s"}
    assert "Review 1 of 12" in shown(session)


def test_a_label_is_removed_from_the_list(page):
    folder, session = page
    first = focus(session)["id"]
    session = give(session, "glad")
    session = give(session, "Skip for good")
    session = whole(session.toggle[0].set_value(True).run())
    assert session.toggle[0].label == "Show 1 example and 1 skipped"
    for one in [one.key for one in session.button if one.label == "Remove"]:
        session = whole(next(other for other in session.button if other.key == one).click().run())
    assert first not in kept(folder).examples
    assert kept(folder).skipped == []


def searches(session):
    return [one.proto for one in session.get("page_link") if one.proto.label.startswith("Search for")]


def test_an_answer_without_an_example_is_named_with_a_search_and_is_not_learned(make, app):
    folder = make(rows=ROWS, instructions=[MOOD])
    session = open_named(app, folder, answers=("glad", "cross", "shipping"))
    assert "No example yet:" in shown(session)
    assert [link.label for link in searches(session)] == [
        f"Search for “{one}”" for one in ("glad", "cross", "shipping")
    ]
    session, _ = labeled(session)
    (link,) = searches(session)
    assert link.page_script_hash
    assert link.query_string == f"q=shipping&{urlencode({'instruction': MOOD})}&index=reviews"
    session = press(session, LEARN)
    assert "“shipping” was not learned: it has no example and needs 3." in shown(session)


def test_a_hit_is_an_example_of_an_answer(page, app):
    assert page
    search = app("search", q="love", instruction=MOOD)
    settle(search)
    menu = search.get("menu_button")
    assert len([one for one in menu if one.proto.label == "This is an example of …"]) == 10


def test_what_was_taught_elsewhere_goes_on_here(page, app):
    folder, _ = page
    with Index(folder, encoder=load_encoder()) as index:
        index.teaching.teach(MOOD, [(row["id"], answer(row["text"])) for row in ROWS[:8]])
    session = app("teach", instruction=MOOD)
    assert "8 examples gave no gain" in shown(session)
    assert counter(session) == "glad 4 · cross 4"
    assert focus(session) not in ROWS[:8]


def test_what_is_taught_elsewhere_while_the_page_is_open_is_kept(page):
    folder, session = page
    session = give(session, answer(focus(session)["text"]))
    with Index(folder, encoder=load_encoder()) as index:
        for row in ROWS[:8]:
            index.teaching.label(MOOD, row["id"], answer(row["text"]))
        index.teaching.teach(MOOD)
    session = whole(session.run())
    assert focus(session) not in ROWS[:8]
    session = press(session, LEARN)
    assert set(kept(folder).examples) >= {row["id"] for row in ROWS[:8]}


def test_reviews_are_chosen_anew_once_another_reads_the_question(page):
    folder, session = page
    before = session.session_state["teach: session"].offered
    with Index(folder, encoder=load_encoder()) as index:
        index.teaching.give_answers(MOOD, {row["id"]: answer(row["text"]) for row in ROWS})
    whole(session.run())
    assert session.session_state["teach: session"].offered is not before


@pytest.fixture
def tunable(indexes):
    """Make an index with a base encoder that can be fine-tuned, taught by some reviews, and return its lessons."""

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

    def held(index, question, examples=None, *, progress=None, **options):
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
    session, seen = labeled(open_named(app, indexes / "reviews", GLAD))
    session = ended(press(session, TUNE))
    assert "100% of the examples set aside for testing" in shown(session)
    assert "and an encoder fine-tuned for it" in shown(session)
    assert focus(session)["text"] not in seen
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
    assert list(app("models").dataframe[0].value["taught"])[-1].endswith("reader fine-tuned")
    learned = lessons(0.5, 0.9, 0.7)
    assert "fine-tuned" not in taught_line(learned).sentence
    assert "and an encoder fine-tuned for it" in taught_line(replace(learned, tuned=True)).sentence


def lessons(before, after, low):
    return Lessons(3, {"a": 3, "b": 3}, Held(before, 0.2, 0.8), Held(after, low, 1.0), 6, "")


def test_what_to_do_next_follows_the_scores():
    assert "or undo the teaching" in teaching.advice(lessons(0.6, 0.5, 0.3))
    assert "to be sure" in teaching.advice(lessons(0.5, 0.7, 0.4))
    assert "now use it" in teaching.advice(lessons(0.5, 0.9, 0.7))
    assert "Fine-tuning did not help" in teaching.learned(replace(lessons(0.5, 0.9, 0.7), tuned=False))
    assert teaching.learned(lessons(0.6, 0.5, 0.3)) == (
        "6 examples gave no gain: 50% of the examples set aside for testing get the right answer (30% to 100%), "
        "60% before."
    )


def test_answers_are_read_as_they_are_written():
    assert teaching.read_answers(" good\nbad: not nice\n\nGOOD\nnone of these") == {"good": "", "bad": "not nice"}
    assert teaching.read_answers("price, quality,, delivery") == {"price": "", "quality": "", "delivery": ""}
    assert teaching.read_answers("") == {}
    known = {"good, or so": "", "state: ok": "it works"}
    assert teaching.read_answers(teaching.written(known), known) == known
    assert teaching.read_answers("good, or so", known) == {"good, or so": ""}


def test_a_change_of_the_box_keeps_answers_of_another_session():
    kept = {"good": "", "bad": "", "odd": "added meanwhile"}
    assert teaching.changed_answers(kept, "good\nbad", "good: fine\nnew") == {
        "good": "fine",
        "new": "",
        "odd": "added meanwhile",
    }


def labels(*answers):
    return Labels(dict.fromkeys("abc", ""), {str(number): answer for number, answer in enumerate(answers)}, [])


def test_what_is_lacking_is_said():
    assert "Label at least 3 examples for each of at least two answers" in teaching.lacking(labels())
    assert teaching.lacking(labels(*"aaabb"))
    assert teaching.lacking(labels(*"aaabbb")) == ""
    assert teaching.unmet(labels(*"aac")) == ["b"]
    assert teaching.counted(labels(*"aac", NONE_OF_THESE)) == "a 2 · b 0 · c 1 · none of these 1"


def test_a_guess_is_shown_where_it_is_better_than_guessing():
    review = Suggestion(documents(ROWS)[0], "a", 0.9)
    assert teaching.guess(review, lessons(0.5, 0.9, 0.7)) == "a"
    assert teaching.guess(review, None) == ""
    assert teaching.guess(review, lessons(0.5, 0.7, 0.4)) == ""  # of two answers, one half is right by chance
    assert teaching.guess(replace(review, certainty=0.1), lessons(0.5, 0.9, 0.7)) == ""


def test_a_card_shows_the_sentences_that_name_an_answer():
    review = (
        "I bought it in May. The box was blue. It *broke* after a day. My dog sleeps. Shipping took weeks. So it goes."
    )
    said = teaching.excerpt(review, "What is wrong?", {"broken": "", "late": "slow shipping"})
    assert "took weeks" in said
    assert "dog" not in said
    assert teaching.excerpt("One. Two. Three. Four. Five.", "Why?", {"price": ""}) == "One. Two. … Five."
    assert teaching.excerpt("Only this", "Why?", {}) == "Only this"


def test_what_was_not_learned_is_named():
    learned = replace(lessons(0.5, 0.9, 0.7), unlearned={"missing parts": 0, "shipping": 2})
    assert teaching.unlearned(learned) == (
        "“missing parts” was not learned: it has no example and needs 3. "
        "“shipping” was not learned: it has 2 examples and needs 3."
    )
    assert taught_line(learned).answers.endswith("Answers: a and b. Not learned: missing parts and shipping.")
    assert teaching.unlearned(lessons(0.5, 0.9, 0.7)) == ""


def test_a_fine_tuning_gives_way_to_searches_at_every_step(tunable, app, hold):
    tunable()
    gate = hold(tuning=True, done=7)
    session = at(press(app("teach", instruction=GLAD), TUNE), "step 7")
    with FOREGROUND.waited_for():
        gate.set()
        (job,) = fine_tunings()
        assert not job.wait(1).over
        assert job.snapshot().progress.sentence in [f"Fine-tuning: step {done} of {ALL_STEPS}" for done in (7, 8)]
    assert "an encoder fine-tuned for it" in shown(ended(session))
