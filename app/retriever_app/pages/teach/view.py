"""Teach: a question is answered for some reviews by clicking, and searches and clusters under it learn from them."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from retriever.core.results import Lessons
from retriever.index.teaching.asking import Asked
from retriever.workspace import Index
from retriever_app import cards, readers, reading, resources, state
from retriever_app.components import action_button, attempt, instruction_box, review_card, showing_problems, text_box
from retriever_app.pages.search.model import suggestions
from retriever_app.pages.teach import job as tunings
from retriever_app.pages.teach import model
from retriever_app.pages.teach.model import TaughtQuestion
from retriever_app.text import plain

_SESSION = "teach: session"
_GO = "teach: go"


class _Session:
    """What the user answered so far under one question of one index.

    Args:
        index: it.
        question: the question.
    """

    def __init__(self, index: Index, question: str) -> None:
        self.name = (index.identity, question)
        self.answers = index.teaching.examples(question)
        self.offered: list[Asked] = []
        self.basis: object = None  # what the choice of these depends on
        self.number = 0

    def offer(self, index: Index) -> None:
        """Choose the reviews that say most now."""
        self.offered = index.teaching.worth_answering(self.name[1], model.AT_ONCE, list(self.answers))
        self.number += 1


def main() -> None:
    """Draw the page."""
    index = resources.needed_index()
    question = state.current(TaughtQuestion)
    views = resources.status(index).views
    instruction_box(state.key(TaughtQuestion, "instruction"), suggestions(views), label="Question")
    instruction = question.instruction.strip()
    if not instruction:
        st.text("Enter a question that the model should learn. You then answer it for some reviews.")
        return
    reading.offer(index, instruction, readers.search_sends())
    session = _session(index, instruction)
    if st.session_state.pop(_GO, False):
        _teach(index, session)
    tuning = tunings.going_on(index)
    lessons = next((view.taught for view in resources.status(index).views if view.instruction == instruction), None)
    _choose(index, session, lessons)
    _show_lessons(index, instruction, lessons, busy=tuning is not None)
    text_box(
        "Answers to choose from, separated by commas",
        state.key(TaughtQuestion, "answers"),
        "price, quality, delivery, other",
        max_chars=500,
    )
    options = model.choices(question.answers, session.answers.values())
    if len(options) < 2:
        st.text("Write two answers or more.")
    else:
        _ask(index, session, lessons, options, busy=tuning is not None)
    tunings.show(index, instruction, tuning)


def _session(index: Index, question: str) -> _Session:
    """Return what was answered under this question."""
    session: _Session | None = st.session_state.get(_SESSION)
    if session is None or session.name != (index.identity, question):
        session = st.session_state[_SESSION] = _Session(index, question)
    return session


def _teach(index: Index, session: _Session) -> None:
    """Learn from the answers."""
    question = session.name[1]
    with st.spinner("Learning …", show_time=True), showing_problems():
        tunings.forget(index, question)
        index.teaching.teach(question, list(session.answers.items()))


def _choose(index: Index, session: _Session, lessons: Lessons | None) -> None:
    """Choose the reviews that say most, unless that was done since the question was last taught or read by another.

    What was taught elsewhere meanwhile is kept: learning takes all answers, and would drop it.
    """
    basis = (lessons, index.teaching.reader(session.name[1]))
    if not session.offered or session.basis != basis:
        with st.spinner("Choosing the most informative reviews …"):
            session.answers = {**index.teaching.examples(session.name[1]), **session.answers}
            session.offer(index)
            session.basis = basis


def _show_lessons(index: Index, instruction: str, lessons: Lessons | None, *, busy: bool) -> None:
    """Show what was learned so far, and the way back, which is closed while the index is written to."""
    if lessons is None:
        return
    with st.container(border=True):
        st.text(model.learned(lessons))
        st.text(model.advice(lessons))

        def forget() -> None:
            tunings.forget(index, instruction)
            attempt(lambda: index.teaching.forget(instruction))
            st.session_state.pop(_SESSION, None)

        st.button("Undo the teaching", disabled=busy, on_click=forget, icon=":material/undo:")


def _ask(index: Index, session: _Session, lessons: Lessons | None, options: Sequence[str], *, busy: bool) -> None:
    """Draw the reviews with their answers, and the buttons that learn from them."""
    columns = resources.columns(index)
    for review in session.offered:
        review_card(cards.card(review.document, columns))
        _answer(session, review, options)
    if not session.offered:
        st.text("There are no more reviews to answer.")
    st.caption(plain(model.counted(session.answers, options)))
    lacking = model.lacking(session.answers, options)
    if lacking:
        st.text(lacking)
    tune = partial(tunings.begin, index, session.name[1], session.answers)
    off, learning = busy or bool(lacking), model.LEARN_HELP if lessons is not None and lessons.tuned else None
    with st.container(horizontal=True):
        st.button("Learn from these answers", type="primary", disabled=off, on_click=_go, help=learning)
        action_button("Fine-tune on these answers", tune, disabled=off, help=model.TUNE_HELP)
        action_button("Other reviews", partial(session.offer, index), icon=":material/refresh:")


def _answer(session: _Session, review: Asked, options: Sequence[str]) -> None:
    """Draw the choice of an answer for a review; the same again takes it back."""
    key, id = f"teach answer {session.number} {review.document.id}", review.document.id

    def take() -> None:
        chosen = st.session_state[key]
        if chosen is None:
            session.answers.pop(id, None)
        else:
            session.answers[id] = chosen

    guess = "" if review.guess is None else plain(f"(the model: {review.guess})")
    st.pills(
        f"Answer {guess}".strip(),
        options,
        default=session.answers.get(id) if session.answers.get(id) in options else None,
        key=key,
        format_func=plain,
        on_change=take,
    )


def _go() -> None:
    st.session_state[_GO] = True


main()
