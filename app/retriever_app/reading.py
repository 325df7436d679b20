"""Lets a language model read a question, on the pages that ask one: offered, agreed to, shown, corrected, taken back.

A page sends nothing by being opened: each session agrees, by a button, to what a question sends.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256

import streamlit as st

from retriever.core.errors import EncoderError
from retriever.index.asking.asker import ReaderPlace
from retriever.index.teaching.answering import DEFAULT
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app import readers, resources, state
from retriever_app.components import action_button, attempt, ended, show_attempt
from retriever_app.readers import AnswerRow
from retriever_app.text import plain

_AGREED = "reading: agreed"  # index, question, language model and what it may be sent
_CORRECTED = "reading: corrected"  # counts corrections
_READ = "Use this language model"
_WAIT_SECONDS = 0.6  # a page waits, so that what is quick shows no progress


def offer(
    index: Index,
    question: str,
    sends: str,
    beside: Callable[[], None] | None = None,
) -> None:
    """Draw who reads a question: the choice of a language model, or the way back from it; nothing without a question.

    Args:
        index: it is asked of.
        question: it.
        sends: what the page then sends, as `readers.sending` takes it.
        beside: draws what else can be chosen.
    """
    question = question.strip()
    if not question or _is_switching(index, question):
        return
    reader = index.teaching.reader(question)
    if reader:
        _show_serving(index, question, reader, beside)
    if readers.reads(reader):
        return
    with st.expander("Use a language model for this question", type="compact"):
        places, reason = _offers(index)
        if not places:
            st.caption(plain(reason))
            return
        place = _choose(places)
        if beside is not None:
            beside()
        _consent(index, place, sends, _READ, question, lambda: _begin(index, question, place, sends))


def offer_titles(index: Index, clusters: int, begin: Callable[[ReaderPlace], None]) -> None:
    """Draw what lets a language model title clusters; nothing where none is configured or has read for the index.

    Args:
        index: it is of.
        clusters: how many there are.
        begin: begins the work, with the language model that was chosen and agreed to.
    """
    places = [place for place in _offers(index)[0] if place.host]
    if not places:
        return
    with st.popover("Name clusters with a language model", icon=":material/chat:"):
        place = _choose(places)
        _consent(index, place, readers.titles_send(clusters), "Name them", "", lambda: begin(place))


def ready(index: Index, question: str, sends: str) -> bool:
    """Return whether work under a question may begin; draw what it would send, with a button that agrees.

    Arguments as for `offer`. Work that sends nothing may begin: any, until the host is allowed.
    """
    question = question.strip()
    reader = index.teaching.reader(question) if question else ""
    place = _place(index, reader) if readers.reads(reader) else None
    if place is None:  # nothing can be sent
        return True
    agreed = (index.identity, question, reader, sends) in st.session_state.get(_AGREED, ())
    status = index.teaching.answers_status(question)
    if (place.allowed and agreed) or status.answers >= status.texts:
        return True
    with st.container(border=True):
        _consent(index, place, sends, _READ, question, lambda: _agree(index, question, reader, sends))
    return not place.allowed


def serving_name(index: Index, question: str | None) -> str:
    """Name who serves a question, and whether it may be asked: what that finds depends on both."""
    reader = index.teaching.reader(question) if question else ""
    place = _place(index, reader)
    return f"{reader} {place is not None and place.allowed}"


def state_name(index: Index, question: str | None) -> str:
    """Name what answers to a question depend on besides the index's revision: who serves it, and corrections."""
    return f"{serving_name(index, question)} {st.session_state.get(_CORRECTED, 0)}"


def show_answers(index: Index, question: str | None, rows: Sequence[AnswerRow]) -> None:
    """Draw texts with their answers as a table; an answer that is written there goes before the language model's."""
    if not question or not rows or not index.teaching.reader(question):
        return
    with st.expander("Edit answers", expanded=_CORRECTED in st.session_state, type="compact"):
        _correct(index, question, rows)


@st.fragment
def _correct(index: Index, question: str, rows: Sequence[AnswerRow]) -> None:
    """Draw the table. What is written there is stored at once, and the rest of the page is drawn anew by a button.

    A page that is drawn anew has another table, which would take the place of the one that is being written in.
    """
    key = f"answers {sha256(repr((question, rows)).encode()).hexdigest()}"

    def take() -> None:
        written = readers.corrections(rows, st.session_state[key]["edited_rows"])
        attempt(lambda: index.teaching.give_answers(question, written))
        st.session_state[_CORRECTED] = st.session_state.get(_CORRECTED, 0) + 1

    show_attempt()
    st.caption("Click an answer to edit it. Your answer replaces the language model's; an empty one restores that.")
    if said := readers.unanswered(index.teaching.answers_status(question), index.teaching.refusals(question)):
        st.caption(plain(said))
    st.data_editor(
        [{"answer": row.answer, "review": row.beginning} for row in rows],
        key=key,
        on_change=take,
        disabled=["review"],
        column_config={
            "answer": st.column_config.TextColumn("Answer", width="medium", max_chars=160),
            "review": st.column_config.TextColumn("Review", width="large"),
        },
        hide_index=True,
    )
    if st.button("Apply these answers", disabled=not st.session_state[key]["edited_rows"]):
        state.rerun()


def _offers(index: Index) -> tuple[list[ReaderPlace], str]:
    return readers.offers(index.teaching.place, os.environ.get(readers.VARIABLE, ""), index.teaching.readers())


def _place(index: Index, reader: str) -> ReaderPlace | None:
    """Return where a reader gets texts; None where it has no endpoint."""
    try:
        return index.teaching.place(reader)
    except EncoderError:
        return None


def _choose(places: Sequence[ReaderPlace]) -> ReaderPlace:
    """Draw the choice of a language model where there are several, and return it."""
    named = {place.name: place for place in places}
    return named[st.selectbox("Language model", list(named))] if len(named) > 1 else places[0]


def _consent(
    index: Index, place: ReaderPlace, sends: str, label: str, question: str, begin: Callable[[], None]
) -> None:
    """Draw what goes where, consent for a host that has none, and the button that begins."""
    st.text(readers.sending(place, sends))
    key = f"{place} {question}"
    may = place.allowed or st.checkbox(plain(f"Texts of this index may be sent to {place.host}"), key=f"may {key}")

    def agree() -> None:
        if not place.allowed:
            index.teaching.allow(place.host)
        begin()

    action_button(label, agree, key=f"agree {key}", type="primary", disabled=not may)


def _agree(index: Index, question: str, reader: str, sends: str) -> None:
    st.session_state.setdefault(_AGREED, set()).add((index.identity, question, reader, sends))


def _begin(index: Index, question: str, place: ReaderPlace, sends: str) -> None:
    """Let a language model read a question from now on; one that is new to the index is tried out first."""

    def work(job: Job) -> None:
        index.teaching.read_by(question, place.name)

    _agree(index, question, place.name, sends)
    resources.jobs().start(_name(index, question), "Trying out the language model", work)


def _is_switching(index: Index, question: str) -> bool:
    """Draw how far the change of the reader is, or why it failed; return whether it goes on.

    Once the reader is another, the page is drawn again: its work was begun, further up, under the one before.
    """
    job = resources.jobs().find(_name(index, question))
    if job is None:
        return False
    job.wait(_WAIT_SECONDS)
    snapshot = ended(job, "reader")
    if snapshot is None:
        return True
    resources.jobs().forget(_name(index, question))
    if snapshot.error is None:
        state.rerun()
    return False


def _show_serving(index: Index, question: str, reader: str, beside: Callable[[], None] | None) -> None:
    """Draw who answers a question, and the way back to the index's own model."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f":material/chat: {plain(readers.serving(reader))}")
        back = partial(index.teaching.read_by, question, DEFAULT)
        action_button("Use the index's own model again", back, type="tertiary")
        if beside is not None and readers.reads(reader):
            beside()


def _name(index: Index, question: str) -> str:
    return f"reader {index.identity} {question}"
