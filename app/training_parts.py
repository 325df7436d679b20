"""Pieces of the page about training: a new one, its rows, how it goes, and what came of it."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
import streamlit as st

from retriever.core.types import JSON
from retriever.training.run.checks import Findings, look_at
from retriever.training.run.examples import Candidate
from retriever_app import charts, training_rows
from retriever_app.training_rows import COLUMNS, Rows
from retriever_app.trainings import Training
from retriever_app.view_models import training as shown
from retriever_app.view_models.text import plain
from retriever_app.view_models.training import ChartLine, Example

_ICONS = {
    "good": ":green[:material/check_circle:]",
    "note": ":material/info:",
    "problem": ":orange[:material/warning:]",
}
_FOUND_CHARACTERS = 220  # of a text that are shown


def say(lines: Sequence[ChartLine]) -> None:
    """Show sentences about rows."""
    for line in lines:
        st.markdown(f"{_ICONS[line.level]} {plain(line.text)}")


def table(training: Training, stored: Rows) -> None:
    """Draw the rows to be written in, ``stored`` as they are now; what is written is kept at once.

    Another session's rows are not written over, but shown.
    """
    begun, known, number = (f"{training.folder} {what}" for what in ("begun with", "known", "number"))
    changed = stored not in st.session_state.get(known, (stored,))
    if changed:
        st.text("The table was changed in another window. It is shown as it is now; look at what you last wrote.")
    key = f"{training.folder} table {st.session_state.get(number, 0)}"
    if changed or key not in st.session_state:  # what was written in a table is forgotten where another page is shown
        columns = {name: pa.array([str(row.get(name, "")) for row in stored], pa.string()) for name in COLUMNS}
        st.session_state[begun], st.session_state[known] = pa.table(columns), (stored,)
        st.session_state[number] = st.session_state.get(number, 0) + 1
        key = f"{training.folder} table {st.session_state[number]}"
    edited = st.data_editor(
        st.session_state[begun],
        key=key,
        num_rows="dynamic",
        hide_index=True,
        height=430,
        column_config={
            "text": st.column_config.TextColumn("Review", width=200, help="What a customer wrote."),
            "question": st.column_config.TextColumn("Question", width=140, help="What you want to know of reviews."),
            "answer": st.column_config.TextColumn("Answer", width=120, help="What the review answers, in few words."),
        },
    )
    rows = training_rows.written(cast("pa.Table", edited).to_pylist())
    if rows != stored:
        st.session_state[known] = (stored, rows)  # first: a run may be cut short, and these are no other session's
        training.write_rows(rows)


def preview(rows: Rows, most: int = 200) -> None:
    """Show rows that are not to be changed."""
    st.dataframe([{name: _cell(value) for name, value in row.items()} for row in rows[:most]], hide_index=True)
    if len(rows) > most:
        st.caption(f"The first {most} of {len(rows):,} rows.")


def findings(training: Training) -> Findings:
    """Check a training's rows as they are."""
    file = training.rows_file
    changed = file.stat()
    return _findings(str(file), (changed.st_mtime_ns, changed.st_size), training)


@st.cache_data(show_spinner=False, max_entries=16)
def _findings(file: str, changed: tuple[int, int], _training: Training) -> Findings:
    return training_rows.named(look_at(_training.rows_file), _training.rows_file, "The table")


def loss(training: Training) -> None:
    """Draw the loss so far."""
    record, steps = training.record()
    if record:
        charts.loss(shown.losses(record), steps)


def scores(report: Mapping[str, Any]) -> None:
    """Show the scores before and after."""
    found = shown.measures(report)
    with st.container(horizontal=True, gap="medium"):
        for one in found[:2]:
            with st.container(border=True, width=360):
                st.metric(one.label, f"{one.after:.1f}", f"{one.change:+.1f}", help=one.help)
                st.caption(plain(one.sentence))
    charts.before_and_after(found)


def example(one: Example) -> None:
    """Show a search before and after, side by side where there is room."""
    with st.container(border=True):
        st.text(one.query)
        st.caption(plain(f"{one.instruction or 'Without a question'} — {one.answer}"))
        for column, title, found in zip(st.columns(2), ("Before", "After"), (one.before, one.after), strict=True):
            with column:
                st.markdown(f"**{title}**, nearest first")
                for hit in found:
                    _found(hit)


def _found(hit: Candidate) -> None:
    mark = ":green[:material/check:]" if hit.right else ":material/remove:"
    answer = f"**{plain(hit.answer)}** — " if hit.answer else ""
    short = f"{hit.text[:_FOUND_CHARACTERS]} …" if len(hit.text) > _FOUND_CHARACTERS else hit.text
    st.markdown(f"{mark} {answer}{plain(short)}")


def _cell(value: JSON) -> str:
    return " | ".join(map(str, value)) if isinstance(value, list) else str(value)
