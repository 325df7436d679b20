"""Lets a language model read a question, on the pages that ask one: offered, agreed to, shown, corrected, taken back.

A page sends nothing by being opened: each session agrees, by a button, to what a question sends.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256

import streamlit as st

from retriever.core.errors import EncoderError, RetrieverError
from retriever.index.asking.asker import ReaderPlace
from retriever.index.teaching.answering import DEFAULT, GIVEN
from retriever.workspace import Index
from retriever_app import readers, resources, state
from retriever_app.components import action_button, attempt, ended, show_attempt
from retriever_app.readers import Answered, Sending
from retriever_app.text import plain

_AGREED = "reading: agreed"  # by index, question and language model, what it may be sent
_CORRECTED = "reading: corrected"  # counts corrections
_READ, _SEND, _ALLOW = "Use this language model", "Send them", "Allow this host"
_WAIT_SECONDS = 0.6  # a page waits, so that what is quick shows no progress


def offer(
    index: Index, question: str, sending: Sending, place: str = "", beside: Callable[[], None] | None = None
) -> None:
    """Draw who reads a question: the choice of a language model, or the way back from it; nothing without a question.

    ``place`` tells this offer from others on the page; ``beside`` draws what else can be chosen.
    """
    question = question.strip()
    if not question:
        return
    reader = index.teaching.reader(question)
    configured = os.environ.get(readers.VARIABLE, "")
    places, reason = readers.offers(index.teaching.place, configured, index.teaching.readers())
    label = plain(reader) if readers.reads(reader) else "Language model"
    with st.popover(label, icon=":material/chat:", key=f"language model {place} {reader}"):
        if reader:
            given = reader == GIVEN
            st.text("This question uses imported answers." if given else f"{reader} answers this question.")
            back = partial(index.teaching.read_by, question, DEFAULT)
            action_button("Use the index's own model again", back, key=f"back {place}")
        if beside is not None and (places or readers.reads(reader)):
            beside()
        if readers.reads(reader):
            return
        if not places:
            st.text(reason)
            return
        chosen = _choose(places, place)
        said = readers.sending(chosen, sending.said(index.teaching.answers_status(question)))
        _consent(index, chosen, said, _READ, partial(_begin, index, question, chosen, sending), f"{place} {question}")


def permit_encoders() -> None:
    """Draw what the chosen index sends to hosts that its encoders are at, with consent for each that has none."""
    with suppress(RetrieverError):  # of an index that is gone or damaged, which the page says
        if (index := resources.chosen_index()) is None:
            return
        for place in _not_allowed(index):
            with st.container(border=True):
                _consent(index, place, readers.embedding(place), _ALLOW, lambda: None, "encoder")


def trial(index: Index, question: str) -> None:
    """Draw how far the trial of a language model that is new to a question is, or why it failed."""
    name = _name(index, question.strip())
    job = resources.jobs().find(name)
    if job is None:
        return
    job.wait(_WAIT_SECONDS)
    if ended(job, "reader") is not None:
        resources.jobs().forget(name)


def may_send(index: Index, question: str, sending: Sending) -> bool:
    """Return whether work under a question may begin: it sends nothing, or this session has agreed to what it sends."""
    return agreed(index, question, sending) or not sending.number(index.teaching.answers_status(question.strip()))


def agreed(index: Index, question: str, sending: Sending) -> bool:
    """Return whether this session has agreed to what work under a question sends, or nobody could be sent anything."""
    question = question.strip()
    reader = index.teaching.reader(question) if question else ""
    place = _place(index, reader) if readers.reads(reader) else None
    if place is None:
        return True
    known = st.session_state.get(_AGREED, {}).get((index.identity, question, reader), ())
    return place.allowed and any(each.covers(sending) for each in known)


def ask_for_rest(index: Index, question: str, sending: Sending) -> None:
    """Draw what work under a question would send, with a button that agrees to it."""
    question = question.strip()
    reader = index.teaching.reader(question)
    if (place := _place(index, reader)) is not None:
        with st.container(border=True):
            agree = partial(_agree, index, question, reader, sending)
            said = readers.sending(place, sending.said(index.teaching.answers_status(question)))
            _consent(index, place, said, _SEND, agree, f"rest {question}")


def serving_name(index: Index, question: str | None) -> str:
    """Name who serves a question, and whether it and the encoders may be asked: what that finds depends on all."""
    reader = index.teaching.reader(question) if question else ""
    place = _place(index, reader)
    return f"{reader} {place is not None and place.allowed} {[each.host for each in _not_allowed(index)]}"


def state_name(index: Index, question: str | None) -> str:
    """Name what answers to a question depend on besides the index's revision: who serves it, and corrections."""
    return f"{serving_name(index, question)} {st.session_state.get(_CORRECTED, 0)}"


def show_answers(index: Index, question: str | None, texts: Answered) -> None:
    """Draw texts with their answers as a table; an answer that is written there goes before the language model's."""
    if not question or not texts or not index.teaching.reader(question):
        return
    with st.expander("Edit answers", expanded=_CORRECTED in st.session_state, type="compact"):
        _correct(index, question, texts[: readers.MOST_ROWS])


@st.fragment
def _correct(index: Index, question: str, texts: Answered) -> None:
    """Draw the table. What is written there is stored at once, and the rest of the page is drawn anew by a button.

    A page that is drawn anew has another table, which would take the place of the one that is being written in.
    """
    rows = readers.answer_rows(texts)
    shown = (question, [document.id for document, _ in texts], rows)
    key = f"answers {sha256(repr(shown).encode()).hexdigest()}"

    def take() -> None:
        written = readers.corrections(texts, st.session_state[key]["edited_rows"])
        attempt(lambda: index.teaching.give_answers(question, written))
        st.session_state[_CORRECTED] = st.session_state.get(_CORRECTED, 0) + 1

    show_attempt()
    st.caption("Click an answer to edit it. Your answer replaces the language model's; an empty one restores that.")
    if said := readers.unanswered(index.teaching.answers_status(question), index.teaching.refusals(question)):
        st.caption(plain(said))
    st.data_editor(
        rows,
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


def _place(index: Index, reader: str) -> ReaderPlace | None:
    """Return where a reader gets texts; None where it has no endpoint."""
    try:
        return index.teaching.place(reader)
    except EncoderError:
        return None


def _not_allowed(index: Index) -> list[ReaderPlace]:
    """Return where encoders of an index are that may get no texts, one place a host."""
    places = filter(None, (_place(index, name) for name in index.teaching.elsewhere()))
    return list({place.host: place for place in places if not place.allowed}.values())


def _choose(places: Sequence[ReaderPlace], key: str) -> ReaderPlace:
    """Draw the choice of a language model where there are several, and return it."""
    named = {place.name: place for place in places}
    return named[st.selectbox("Language model", list(named), key=f"reader {key}")] if len(named) > 1 else places[0]


def _consent(index: Index, place: ReaderPlace, said: str, label: str, begin: Callable[[], None], key: str) -> None:
    """Draw what goes where, as it is ``said``, consent for a host that has none, and the button that begins."""
    st.text(said)
    key = f"{place} {key}"
    may = place.allowed or st.checkbox(plain(f"Texts of this index may be sent to {place.host}"), key=f"may {key}")

    def agree() -> None:
        if not place.allowed:
            index.teaching.allow(place.host)
        begin()

    action_button(label, agree, key=f"agree {key}", type="primary", disabled=not may)


def _agree(index: Index, question: str, reader: str, sending: Sending) -> None:
    st.session_state.setdefault(_AGREED, {}).setdefault((index.identity, question, reader), set()).add(sending)


def _begin(index: Index, question: str, place: ReaderPlace, sending: Sending) -> None:
    """Let a language model read a question from now on; one that is new to the index is tried out first."""
    _agree(index, question, place.name, sending)
    work = lambda job: index.teaching.read_by(question, place.name)  # noqa: E731
    resources.jobs().start(_name(index, question), "Trying out the language model", work)


def _name(index: Index, question: str) -> str:
    return f"reader {index.identity} {question}"
