"""Teach: a question is answered for some reviews by clicking, and searches and clusters under it learn from them."""

from collections.abc import Sequence

import streamlit as st

from retriever.clusters.asking import Asked
from retriever.core.results import Lessons
from retriever.workspace import Index
from retriever_app import frame, resources, state, tunings
from retriever_app.components import attempt, instruction_box, review_card, show_attempt, text_box
from retriever_app.view_models import cards, search, teaching
from retriever_app.view_models.teaching import TaughtQuestion
from retriever_app.view_models.text import plain

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
        self.answers = index.examples(question)
        self.asked: list[Asked] = []
        self.taught: Lessons | None = None  # when these were chosen
        self.number = 0

    def ask(self, index: Index) -> None:
        """Choose the reviews that say most now."""
        self.asked = index.worth_answering(self.name[1], teaching.AT_ONCE, list(self.answers))
        self.number += 1


def main() -> None:
    """Draw the page."""
    index = frame.needed_index()
    question = state.current(TaughtQuestion)
    views = resources.status(index).views
    instruction_box(state.key(TaughtQuestion, "instruction"), search.suggestions(views), label="Question")
    asked = question.instruction.strip()
    if not asked:
        st.text("Name a question that the model should learn. You answer it for some reviews; that takes a minute.")
        return
    session = _session(index, asked)
    if st.session_state.pop(_GO, False):
        _teach(index, session)
    show_attempt()
    tuning = tunings.going_on(index)
    lessons = next((one.taught for one in resources.status(index).views if one.instruction == asked), None)
    _choose(index, session, lessons)
    _tell(index, asked, lessons, busy=tuning is not None)
    text_box(
        "Answers to choose from, with commas between",
        state.key(TaughtQuestion, "answers"),
        "price, quality, delivery, other",
        max_chars=500,
    )
    options = teaching.choices(question.answers, session.answers.values())
    if len(options) < 2:
        st.text("Write two answers or more.")
    else:
        _ask(index, session, options, busy=tuning is not None)
    tunings.show(index, asked, tuning)


def _session(index: Index, question: str) -> _Session:
    """Return what was answered under this question."""
    session: _Session | None = st.session_state.get(_SESSION)
    if session is None or session.name != (index.identity, question):
        session = st.session_state[_SESSION] = _Session(index, question)
    return session


def _teach(index: Index, session: _Session) -> None:
    """Learn from the answers."""

    def work() -> None:
        tunings.forget(index, session.name[1])
        index.teach(session.name[1], list(session.answers.items()))

    with st.spinner("Learning …", show_time=True):
        attempt(work)


def _choose(index: Index, session: _Session, lessons: Lessons | None) -> None:
    """Choose the reviews that say most, unless that was done since the question was last taught."""
    if not session.asked or session.taught != lessons:
        with st.spinner("Choosing the reviews that say most …"):
            session.ask(index)
            session.taught = lessons


def _tell(index: Index, asked: str, lessons: Lessons | None, *, busy: bool) -> None:
    """Show what was learned so far, and the way back, which is closed while the index is written to."""
    if lessons is None:
        return
    with st.container(border=True):
        st.text(teaching.learned(lessons))
        st.text(teaching.advice(lessons))

        def forget() -> None:
            tunings.forget(index, asked)
            attempt(lambda: index.forget(asked))
            st.session_state.pop(_SESSION, None)

        st.button("Forget what was taught", disabled=busy, on_click=forget, icon=":material/undo:")


def _ask(index: Index, session: _Session, options: Sequence[str], *, busy: bool) -> None:
    """Draw the reviews with their answers, and the buttons that learn from them."""
    columns = resources.columns(index)
    for one in session.asked:
        review_card(cards.card(one.document, columns))
        _answer(session, one, options)
    if not session.asked:
        st.text("There are no more reviews to ask about.")
    st.caption(plain(teaching.counted(session.answers)))
    lacking = teaching.lacking(session.answers, options)
    if lacking:
        st.text(lacking)

    def tune() -> None:
        attempt(lambda: tunings.begin(index, session.name[1], session.answers))

    off, learning = busy or bool(lacking), teaching.learn_help(session.taught)
    with st.container(horizontal=True):
        st.button("Learn from these answers", type="primary", disabled=off, on_click=_go, help=learning)
        st.button("Fine-tune on these answers", disabled=off, on_click=tune, help=teaching.TUNE_HELP)
        st.button("Other reviews", on_click=lambda: attempt(lambda: session.ask(index)), icon=":material/refresh:")


def _answer(session: _Session, asked: Asked, options: Sequence[str]) -> None:
    """Draw the choice of an answer for a review; the same again takes it back."""
    key, id = f"teach answer {session.number} {asked.document.id}", asked.document.id

    def take() -> None:
        chosen = st.session_state[key]
        if chosen is None:
            session.answers.pop(id, None)
        else:
            session.answers[id] = chosen

    guess = "" if asked.guess is None else plain(f"(so far: {asked.guess})")
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
