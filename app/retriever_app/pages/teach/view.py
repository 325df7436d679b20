"""Teach: people label some reviews with the answer to a question; searches and clusters under it learn from them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from textwrap import shorten
from typing import Any

import streamlit as st

from retriever.core.lessons import Lessons
from retriever.index.teaching.labels import NONE_OF_THESE, Labels
from retriever.workspace import Index
from retriever_app import cards, reading, resources, state
from retriever_app.components import (
    action_button,
    attempt,
    instruction_box,
    review_card,
    show_attempt,
    showing_problems,
)
from retriever_app.pages.models.model import Shown
from retriever_app.pages.search.model import SearchQuestion
from retriever_app.pages.teach import job as tunings
from retriever_app.pages.teach import model
from retriever_app.pages.teach.model import Labeling, TaughtQuestion
from retriever_app.readers import SEARCHING
from retriever_app.resources import Chosen
from retriever_app.text import count, plain

_TRAIN = state.params(Shown("train"))
_SESSION = "teach: session"
_GO = "teach: go"
_REDRAW = "teach: redraw"
_ANSWERS = "teach: answers"
_SHOWN = "teach: answers shown"
_KEYS = 9  # answers that a digit chooses
_LISTED = 50  # labels that are shown in a list
_BEGINNING = 120  # characters of a review that are shown there


def main() -> None:
    """Draw the page."""
    st.text(model.PURPOSE)
    st.page_link("models/view.py", label="Train a model", icon=":material/model_training:", query_params=_TRAIN)
    index = resources.needed_index()
    state.carry(TaughtQuestion, "instruction")
    question = state.current(TaughtQuestion)
    offer = partial(reading.offer, index, question.instruction, SEARCHING)
    instruction_box(state.key(TaughtQuestion, "instruction"), resources.suggestions(index), beside=offer)
    reading.trial(index, question.instruction)
    instruction = question.instruction.strip()
    if not instruction:
        st.text("Enter the question that the model should learn.")
        return
    session = _session(index, instruction)
    if st.session_state.pop(_GO, False):
        _learn(session)
    tuning = tunings.going_on(index)
    lessons = resources.lessons(index, instruction)
    _show_lessons(session, lessons, busy=tuning is not None)
    _answers_box(session)
    if len(index.teaching.labels(instruction).answers) < 2:
        st.text("Enter two answers or more.")
    else:
        _choose(session, lessons)
        _label_reviews(session, lessons, busy=tuning is not None)
    tunings.show(index, instruction, tuning)


def _session(index: Index, question: str) -> Labeling:
    """Return what this browser labels under this question."""
    session: Labeling | None = st.session_state.get(_SESSION)
    if session is None or session.name != (index.identity, question):
        session = st.session_state[_SESSION] = Labeling(index, question)
        st.session_state.pop(_SHOWN, None)
    session.index = index
    return session


def _learn(session: Labeling) -> None:
    """Learn from the labels that the index keeps."""
    with st.spinner("Learning …", show_time=True), showing_problems():
        tunings.forget(session.index, session.question)
        session.index.teaching.teach(session.question)


def _choose(session: Labeling, lessons: Lessons | None) -> None:
    """Choose the reviews that say most, unless that was done for these answers, lessons and this reader."""
    teaching, question = session.index.teaching, session.question
    basis = (lessons, teaching.reader(question), teaching.labels(question).answers)
    if session.basis != basis:
        with st.spinner("Choosing the most informative reviews …"):
            session.offer()
            session.basis = basis


def _show_lessons(session: Labeling, lessons: Lessons | None, *, busy: bool) -> None:
    """Show what was learned so far, and the way back, which is closed while the index is written to."""
    if lessons is None:
        return
    index, question = session.index, session.question
    with st.container(border=True):
        st.text(model.learned(lessons))
        for line in filter(None, [model.unlearned(lessons), model.advice(lessons)]):
            st.text(line)

        def forget() -> None:
            tunings.forget(index, question)
            attempt(lambda: index.teaching.forget(question))

        st.button(
            "Undo the teaching",
            disabled=busy,
            on_click=forget,
            icon=":material/undo:",
            help="Searches and clusters no longer use it. Your examples are kept.",
        )


def _answers_box(session: Labeling) -> None:
    """Draw the box with the answers to choose from, as the index keeps them."""
    teaching, question = session.index.teaching, session.question
    answers = teaching.labels(question).answers
    kept = model.written(answers)
    if st.session_state.get(_SHOWN) != kept or _ANSWERS not in st.session_state:
        st.session_state[_SHOWN] = st.session_state[_ANSWERS] = kept

    def keep() -> None:
        known = teaching.labels(question).answers
        changed = model.changed_answers(known, kept, st.session_state[_ANSWERS])
        attempt(lambda: teaching.name_answers(question, changed))
        st.session_state.pop(_SHOWN)

    with st.expander("Answers to choose from", type="compact", expanded=len(answers) < 2):
        st.text_area(
            "One answer per line. A description may follow after a colon.",
            key=_ANSWERS,
            placeholder="price\nquality: poor material or workmanship\ndelivery: late, lost or damaged",
            help="The model learns descriptions with their answers. The index keeps both.",
            height="content",
            max_chars=10_000,
            on_change=keep,
        )


@st.fragment
def _label_reviews(session: Labeling, lessons: Lessons | None, *, busy: bool) -> None:
    """Draw the review in focus with its answers; a label draws this part of the page alone."""
    show_attempt()
    if _GO in st.session_state or st.session_state.pop(_REDRAW, False):
        state.rerun()
    labels = session.index.teaching.labels(session.question)
    lacking = model.lacking(labels)
    with st.container(key="teach bar", horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
        st.markdown(plain(model.counted(labels)), width="stretch")
        st.button(
            "Learn",
            type="primary",
            shortcut="L",
            disabled=busy or bool(lacking),
            on_click=_go,
            help=lacking or (model.LEARN_HELP if lessons is not None and lessons.tuned else None),
        )
    session.pass_by({*labels.examples, *labels.skipped})
    review = session.current
    if review is None:
        _show_end(session)
    else:
        place, total = session.place + 1, len(session.offered)
        guess = model.guess(review, lessons)
        st.caption(f"Review {place} of {total}{plain(f'; the model takes it for: {guess}') if guess else ''}")
        shown = cards.card(review.document, resources.columns(session.index))
        said = model.excerpt(shown.body, session.question, labels.answers, resources.language_of(session.index))
        review_card(replace(shown, excerpt=said))
        _show_answers(session, labels, review.document.id)
    _offer_searches(session, labels)
    tune = partial(_tune, session)
    _button("Fine-tune", tune, "tune", disabled=busy or bool(lacking), help=lacking or model.TUNE_HELP)
    if lacking:
        st.caption(plain(lacking))
    _show_labels(session, labels)


def _show_answers(session: Labeling, labels: Labels, id: str) -> None:
    """Draw the buttons that label the review in focus; their keys are new for every review, which drops the focus."""
    with st.container(horizontal=True, gap="xsmall"):
        for number, answer in enumerate(labels.answers, start=1):
            key = str(number) if number <= _KEYS else None
            _button(plain(answer), partial(session.label, id, answer), f"{number} {id}", shortcut=key)
        _button("None of these", partial(session.label, id, NONE_OF_THESE), f"none {id}", shortcut="0")
    with st.container(horizontal=True, gap="xsmall"):
        _button(
            "Skip for good",
            partial(session.skip, id),
            f"skip {id}",
            shortcut="S",
            help="This review is not offered again for this question.",
        )
        leave = partial(session.leave, id)
        _button("Next", leave, f"next {id}", shortcut="Enter", help="This review may be offered again later.")
        _button("Undo", session.undo, "undo", shortcut="U", disabled=not session.labeled)


def _show_end(session: Labeling) -> None:
    """Draw the end of a round, and the next round."""
    st.text("All reviews of this round are done." if session.offered else "There are no more reviews to label.")
    with st.container(horizontal=True, gap="xsmall"):
        _button("More reviews", session.offer, "more", shortcut="Enter", icon=":material/refresh:")
        _button("Undo", session.undo, "undo", shortcut="U", disabled=not session.labeled)


def _offer_searches(session: Labeling, labels: Labels) -> None:
    """Draw a search for each answer that has no example yet."""
    if not (answers := model.unmet(labels)):
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("No example yet:", width="content")
        for answer in answers:
            page = state.params(SearchQuestion(q=answer, instruction=session.question), state.current(Chosen))
            label = f"Search for “{plain(answer)}”"
            st.page_link("search/view.py", label=label, icon=":material/search:", query_params=page, width="content")


def _show_labels(session: Labeling, labels: Labels) -> None:
    """Draw the labels so far, the latest first, each with a button that takes it back."""
    given = [*labels.examples.items(), *((id, "skipped") for id in labels.skipped)][::-1][:_LISTED]
    skipped = f" and {len(labels.skipped)} skipped" if labels.skipped else ""
    if not given or not st.toggle(f"Show {count(len(labels.examples), 'example')}{skipped}", key="teach list"):
        return
    documents = session.index.get([id for id, _ in given])
    for id, answer in given:
        with st.container(horizontal=True, vertical_alignment="center"):
            text = shorten(documents[id].text, _BEGINNING, placeholder=" …") if id in documents else ""
            st.markdown(f"**{plain(answer)}** {plain(text)}", width="stretch")
            _button("Remove", partial(session.index.teaching.unlabel, session.question, id), f"remove {id}")


def _button(label: str, action: Callable[[], object], key: str, **options: Any) -> None:  # noqa: ANN401 - of st.button
    """Draw a button that does something; what goes wrong is shown above the reviews."""
    action_button(label, action, key=f"teach {key}", **options)


def _tune(session: Labeling) -> None:
    tunings.begin(session.index, session.question)
    st.session_state[_REDRAW] = True


def _go() -> None:
    st.session_state[_GO] = True


main()
