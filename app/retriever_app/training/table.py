"""The rows of a training as a table: to be written in, or only to be looked at."""

from typing import cast

import pyarrow as pa
import streamlit as st

from retriever.training.splits import Findings, look_at
from retriever_app.training import model
from retriever_app.training.job import Training
from retriever_app.training.model import COLUMNS, Rows

_PREVIEWED = 200  # rows


def draw_table(training: Training, stored: Rows) -> None:
    """Draw the rows to be written in, ``stored`` as they are now; what is written is kept at once.

    Another session's rows are not written over, but shown.
    """
    begun, known, number = (f"{training.folder} {what}" for what in ("begun with", "known", "number"))
    changed = stored not in st.session_state.get(known, (stored,))
    if changed:
        st.text("The table was changed in another window. Check your last edit.")
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
            "text": st.column_config.TextColumn("Review", width=200, help="The text of the review."),
            "question": st.column_config.TextColumn("Question", width=140, help="A question about the review."),
            "answer": st.column_config.TextColumn(
                "Answer", width=120, help="The answer that the review gives, in a few words."
            ),
        },
    )
    rows = model.written(cast("pa.Table", edited).to_pylist())
    if rows != stored:
        st.session_state[known] = (stored, rows)  # first: a run may be cut short, and these are no other session's
        training.write_rows(rows)


def draw_preview(rows: Rows) -> None:
    """Show rows that are not to be changed."""
    st.dataframe(model.preview_rows(rows[:_PREVIEWED]), hide_index=True)
    if len(rows) > _PREVIEWED:
        st.caption(f"The first {_PREVIEWED} of {len(rows):,} rows.")


def findings(training: Training) -> Findings:
    """Check a training's rows as they are."""
    changed = training.rows_file.stat()
    return _findings_of(str(training.rows_file), (changed.st_mtime_ns, changed.st_size), training)


@st.cache_data(show_spinner=False, max_entries=16)
def _findings_of(file: str, changed: tuple[int, int], _training: Training) -> Findings:
    return model.named(look_at(_training.rows_file), _training.rows_file, "The table")
