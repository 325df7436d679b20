"""Draw the flows between two clusterings: a chart to click, and the same as a table for the keyboard."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from retriever.clusters.comparing import ClusterChange, Flow, compare_clusters
from retriever_app import state
from retriever_app.clusterings import BY_NUMBER, Drawn
from retriever_app.components import theme
from retriever_app.view_models import flows
from retriever_app.view_models.grouping import Grouping

_SEED = "flows: seed"
_TABLE_HEIGHT = 38 + 35 * 7


@st.cache_resource(show_spinner=False, max_entries=4, hash_funcs=BY_NUMBER)
def change_between(first: Drawn, second: Drawn) -> ClusterChange:
    """Compare two clusterings of the same reviews."""
    return compare_clusters(first.found, second.found)


def draw_flows(change: ClusterChange, chosen: Flow | None) -> None:
    """Draw the flows; a click on a ribbon or a row chooses one."""
    place = (chosen.first, chosen.second) if chosen else ()
    shown, seed, number = st.session_state.get(_SEED, (None, (), 0))
    if shown != place:
        seed, number = place, number + 1
        st.session_state[_SEED] = (place, seed, number)
    chart, table = f"flow chart {number}", f"flow table {number}"

    def choose(flow: tuple[int, ...]) -> None:
        state.change(Grouping, flow=flow)

    def take_ribbon() -> None:
        flow = _picked(st.session_state[chart])
        st.session_state[_SEED] = (flow, seed, number)
        choose(flow)

    def take_row() -> None:
        rows = st.session_state[table]["selection"]["rows"]
        choose((change.flows[rows[0]].first, change.flows[rows[0]].second) if rows else ())

    st.vega_lite_chart(
        spec=flows.flow_chart(change, seed, theme()),
        key=chart,
        on_select=take_ribbon,
        selection_mode=flows.PICK,
        alt="Clusters under the first instruction, what flows, and clusters under the second; the table below says it.",
    )
    st.caption("Click a ribbon, or a row of the table, to read its reviews; a double click lets go.")
    st.dataframe(
        flows.table(change),
        key=table,
        on_select=take_row,
        selection_mode="single-row",
        hide_index=True,
        height=min(_TABLE_HEIGHT, 38 + 35 * len(change.flows)),
    )


def _picked(event: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the flow that the chart's selection means."""
    chosen = event["selection"].get(flows.PICK) or ()
    return flows.read_flow(chosen[0]["flow"]) if chosen else ()
