"""Draw what changed between two periods in saved clusters or categories."""

import streamlit as st

from retriever.clusters.groups import Groups
from retriever.index.profiling import Columns
from retriever_app import state
from retriever_app.view_models import periods
from retriever_app.view_models.grouping import Grouping


def draw_periods(groups: Groups, columns: Columns) -> None:
    """Draw the choice of two periods, and every cluster's share in both; nothing where there are fewer than two."""
    dated = periods.dated(groups.documents, columns)
    if len(dated.periods) < 2:
        return
    _settle(dated)
    with st.expander("Compare two periods", icon=":material/date_range:"):
        with st.container(horizontal=True):
            for label, field in (("From", "before"), ("To", "after")):
                st.selectbox(label, dated.periods, key=state.key(Grouping, field), width=140)
        chosen = state.current(Grouping)
        change = periods.change(groups, dated, chosen.before, chosen.after)
        for sentence in change.sentences:
            st.text(sentence)
        st.dataframe(change.rows, hide_index=True)


def _settle(dated: periods.Dated) -> None:
    """Choose the last two periods where none are chosen that are there."""
    chosen, last = state.current(Grouping), dated.periods[-2:]
    for field, usual in zip(("before", "after"), last, strict=True):
        if getattr(chosen, field) not in dated.periods:
            state.change(Grouping, **{field: usual})
