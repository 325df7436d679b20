"""Pieces that several pages show. Text of reviews goes through `st.text`, `plain` or `marked_text`, which escape it.

In files to download, a cell that a spreadsheet would take for a formula gets a leading apostrophe.
"""

import csv
import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

import streamlit as st

from retriever.core.errors import RetrieverError
from retriever.core.text import escape_formula
from retriever.serving.jobs import Job, Snapshot
from retriever_app import charts, state
from retriever_app.background import Progress
from retriever_app.cards import Card
from retriever_app.charts import Colours
from retriever_app.text import count, plain, problem

_LOG = logging.getLogger(__name__)
_PROBLEM = "attempt: problem"
_REFRESH_SECONDS = 0.5  # between looks at a job that goes on
_MARK = "\ufeff"  # tells Excel that the file is UTF-8

Rows = Sequence[Mapping[str, object]]


@contextmanager
def showing_problems() -> Iterator[None]:
    """Show an error of the block as a sentence with the next step; the rest of the page goes on."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, RetrieverError):
            _LOG.exception("A page failed")
        show_problem(error)


def show_problem(error: BaseException) -> None:
    """Show what went wrong and what to do."""
    described = problem(error)
    with st.container(border=True):
        st.markdown(":material/error: **This did not work**")
        st.text(described.message)
        if described.advice:
            st.text(described.advice)


def attempt(action: Callable[[], object]) -> None:
    """Do what a button asks for; what goes wrong is kept for `show_attempt`, as a callback cannot draw."""
    try:
        action()
    except Exception as error:
        if not isinstance(error, RetrieverError):
            _LOG.exception("A button failed")
        st.session_state[_PROBLEM] = error


def action_button(label: str, action: Callable[[], object], **options: Any) -> None:  # noqa: ANN401 - of st.button
    """Draw a button that does something; what goes wrong is shown at the top of the page."""
    st.button(label, on_click=attempt, args=(action,), **options)


def show_attempt() -> None:
    """Show what went wrong with the last button, once."""
    if (error := st.session_state.pop(_PROBLEM, None)) is not None:
        show_problem(error)


@st.fragment(run_every=_REFRESH_SECONDS)
def watch(job: Job, key: str = "", beside: Callable[[], None] | None = None) -> None:
    """Draw how far a job is, with a button to stop it; the page is drawn again when it is over.

    Its work tells a `Progress`; before that it has no place yet where it could stop. ``key`` tells this box from others
    on the page, and ``beside`` draws what can be done meanwhile.
    """
    snapshot = job.snapshot()
    if snapshot.over:
        state.rerun()
    progress_box(job, snapshot.progress, key, beside)


def progress_box(job: Job, told: Progress | None, key: str, beside: Callable[[], None] | None = None) -> None:
    """Draw how far a job that goes on is, or what it waits for, with a button to stop it; the rest as in `watch`."""
    snapshot = job.snapshot()
    stopping, waiting = snapshot.status == "stopping", snapshot.waiting
    progress = told or Progress(job.title)
    with st.container(border=True):
        sentence = f"{progress.sentence}; stopping" if stopping else progress.sentence
        if waiting is not None:
            sentence = f"{job.title}: waiting for {waiting.behind}, number {waiting.place} in the line"
        st.progress(progress.share or 0.0, text=plain(sentence))
        with st.container(horizontal=True, vertical_alignment="center"):
            if told is not None or waiting is not None:
                st.button("Stop", f"stop {key}", on_click=job.stop, disabled=stopping, icon=":material/stop_circle:")
            if beside is not None:
                beside()


def ended(job: Job, key: str = "") -> Snapshot | None:
    """Return how a job ended, an error shown; None while it goes on, with its progress drawn."""
    snapshot = job.snapshot()
    if not snapshot.over:
        watch(job, key)
        return None
    if snapshot.error is not None:
        show_problem(snapshot.error)
    return snapshot


def facts(values: Mapping[str, str]) -> None:
    """Show values with their labels side by side, those that are empty left out; they wrap where there is no room."""
    with st.container(horizontal=True, gap="small"):
        for label, value in values.items():
            if value:
                with st.container(width="content", gap=None):
                    st.caption(label)
                    st.text(value)


def text_box(
    label: str, key: str, placeholder: str, *, max_chars: int, on_change: Callable[[], None] = lambda: None
) -> str:
    """Draw a box for a text that the state holds, and return the text.

    The text is the box's default too, for a browser that has not seen the run which set it.
    """
    held: str = st.session_state.get(key, "")
    return st.text_input(label, held, max_chars, key, placeholder=placeholder, on_change=on_change)


def number_box(label: str, key: str, most: int) -> int:
    """Draw a box for a number from 1 that the state holds, its default as in `text_box`, and return the number."""
    held: int = st.session_state.get(key, 1)
    return st.number_input(label, 1, most, held, key=key, width=120)


def instruction_box(
    key: str,
    suggestions: Sequence[str],
    *,
    label: str = "Question",
    on_change: Callable[[], None] = lambda: None,
    beside: Callable[[], None] = lambda: None,
) -> str:
    """Draw the box for an instruction, with a row of suggestions below that unfolds, and return the instruction.

    ``beside`` draws what stands at the end of the box.
    """
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        instruction = text_box(label, key, "What should the model look at?", max_chars=1000, on_change=on_change)
        beside()
    seed = f"{key} seed"
    shown, number = st.session_state.get(seed, (None, 0))
    if shown != (instruction, suggestions):
        # A browser may still send back what was marked before: draw other pills than those.
        number += 1
        st.session_state[seed] = ((instruction, suggestions), number)
    pills = f"{key} suggested {number}"
    marked = instruction if instruction in suggestions else None
    st.session_state[pills] = marked

    def take() -> None:
        if st.session_state[pills] != marked and st.session_state[key] == instruction:
            chosen = st.session_state[pills] or ""
            st.session_state[key] = chosen
            st.session_state[seed] = ((chosen, suggestions), number)  # the same pills, which keep the focus
            on_change()

    with _unfolding(key):
        st.pills(
            "Suggestions",
            suggestions,
            key=pills,
            on_change=take,
            format_func=plain,
            label_visibility="collapsed",
            wrap=True,
        )
    return instruction.strip()


@contextmanager
def _unfolding(key: str) -> Iterator[None]:
    """Draw the block in one row, with a button that shows its other rows; style.css hides the button without any."""
    name = f"{key} unfolded"
    unfolded = bool(st.session_state.get(name))

    def turn() -> None:
        st.session_state[name] = not unfolded

    with (
        st.container(key=f"{'rows' if unfolded else 'row'} of {key}", gap=None),
        st.container(key=f"unfolding {key}", gap=None),
    ):
        yield
        with st.container(key=f"unfold {key}", width="content"):
            st.button("Fewer" if unfolded else "More", key=f"{key} unfold", type="tertiary", on_click=turn)


def review_card(card: Card, *, menu: Callable[[Card], None] | None = None) -> None:
    """Show a review as a card; ``menu`` draws what can be done with it."""
    product = f"**{plain(card.product)}**" if card.product else ""
    moved = f":blue-badge[{plain(card.moved)}]" if card.moved else ""
    about = f":gray[{plain(card.about)}]" if card.about else ""
    with st.container(border=True, gap="xsmall"):
        head = [f"**{card.rank}**" if card.rank else "", card.stars, product, about, moved]
        st.markdown("&ensp;".join(filter(None, head)) or plain(card.id))
        if card.label:
            st.markdown(f":blue-badge[{plain(card.label)}] :gray[labeled]")
        if card.words:
            st.markdown(" ".join(f":gray-badge[{plain(word)}]" for word in card.words))
        marked_text(*card.parts)
        if card.is_long:
            with st.expander("The whole review", type="compact"):
                st.text(card.body, width="stretch")
        if card.equal:
            st.caption(f"{count(card.equal, 'more review')} with the same text")
        if card.alike:
            with st.expander(f"{count(len(card.alike), 'similar review')}", type="compact"):
                for other in card.alike:
                    st.caption(plain(other.id))
                    st.text(other.beginning, width="stretch")
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.caption(plain(card.id), width="stretch")
            if card.why:
                with st.popover("Why this hit", type="tertiary", key=f"why {card.rank}"):
                    for reason in card.why:
                        st.text(reason)
            if menu is not None:
                menu(card)


def marked_text(before: str, marked: str, after: str) -> None:
    """Draw a text as it is, a part of it marked; the part may be empty."""
    if marked:
        st.html(f'<p class="review">{escape(before)}<mark>{escape(marked)}</mark>{escape(after)}</p>')
    else:
        st.text(before + after, width="stretch")


def theme() -> Colours:
    """Return the colours of the theme the user sees."""
    return charts.DARK if st.context.theme.type == "dark" else charts.LIGHT


def download(rows: Callable[[], Rows], name: str, help: str | None = None) -> None:
    """Draw a button that downloads rows as a CSV file of this name; the file is made when it is requested."""
    icon = ":material/download:"
    st.download_button("Download", lambda: to_csv(rows()), name, "text/csv", icon=icon, on_click="ignore", help=help)


def to_csv(rows: Rows) -> bytes:
    """Return rows as CSV with a header of every key; lists and objects become JSON."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_cell(name) for name in columns])
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return (_MARK + out.getvalue()).encode("utf-8", "replace")


def _cell(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return escape_formula(text)
