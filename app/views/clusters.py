"""Clusters: what reviews answer to an instruction, on a map and as cards, and what another instruction changes."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st

from retriever.clusters.caution import division
from retriever.workspace import Index
from retriever_app import (
    area_panel,
    facet_panel,
    filters,
    flow_panel,
    frame,
    report_panel,
    resources,
    state,
    topic_panels,
)
from retriever_app import cluster_panels as panels
from retriever_app.cluster_job import ready
from retriever_app.clusterings import Drawn
from retriever_app.components import instruction_box
from retriever_app.verdicts import show_verdict
from retriever_app.view_models import clusters, facets, flows, search, text
from retriever_app.view_models.facets import Facets
from retriever_app.view_models.grouping import MOST_GROUPS, Ask, Grouping

_LAST = "clusters: last"
_SHOWS = {"map": "One instruction", "flow": "Two side by side", "saved": "Saved"}


def main() -> None:
    """Draw the page."""
    index = frame.needed_index()
    suggestions = search.suggestions(resources.status(index).views)
    where = filters.choose(resources.profile(index))
    _let_go_elsewhere(index, where)
    grouping = state.current(Grouping)
    _ask(grouping, suggestions)
    if grouping.show == "saved":
        topic_panels.show_saved(index, resources.columns(index), where)
        return
    asks = [grouping.ask(where)]
    if grouping.show == "flow":
        asks.append(grouping.ask(where, grouping.beside))
    way = st.container()
    found = ready(index, asks, mapped=grouping.show == "map")
    if grouping.within:
        with way:
            panels.draw_breadcrumbs(grouping.parts, _part_names(index, asks[0]))
    if found is None:
        return
    if grouping.show == "map":
        _show_map(index, found[0], suggestions)
    else:
        _show_flow(index, found[0], found[1])


def _let_go_elsewhere(index: Index, where: str | None) -> None:
    """Choose nothing where the user has gone over to other reviews meanwhile."""
    reviews = (str(index.path), where)
    if st.session_state.get(_LAST, reviews) != reviews:
        state.current(Grouping)
        state.change(Grouping, within=())
        panels.clear_selection()
        facet_panel.clear()
    st.session_state[_LAST] = reviews


def _ask(grouping: Grouping, suggestions: Sequence[str]) -> None:
    """Draw what is asked: one instruction or two, and how many clusters."""
    left, right = st.columns([5, 6], gap="medium") if grouping.show == "map" else (st.container(), None)
    with left, st.container(horizontal=True, gap="small"):
        st.segmented_control(
            "Show",
            list(_SHOWS),
            key=state.key(Grouping, "show"),
            format_func=_SHOWS.__getitem__,
            on_change=panels.clear_selection,
            required=True,
        )
        if grouping.show == "saved":
            return
        st.selectbox(
            "Clusters",
            [0, *range(2, MOST_GROUPS + 1)],
            key=state.key(Grouping, "groups"),
            format_func=lambda one: str(one) if one else "Automatic",
            on_change=panels.clear_selection,
            width=140,
        )
    if right is not None:
        with right:
            instruction_box(state.key(Grouping, "instruction"), suggestions, on_change=panels.clear_selection)
        return
    sides = (("instruction", "First instruction"), ("beside", "Second instruction"))
    for column, (field, label) in zip(st.columns(2), sides, strict=True):
        with column:
            instruction_box(state.key(Grouping, field), suggestions, label=label, on_change=panels.clear_selection)


def _show_map(index: Index, drawn: Drawn, suggestions: Sequence[str]) -> None:
    """Draw the map and the charts, and beside them the clusters or the reviews that are chosen."""
    grouping, columns = _existing(drawn), resources.columns(index)
    part, only, sides = grouping.chosen, state.current(Facets), panels.sides_of(drawn, columns)
    passing = facets.passing(sides, only)
    chosen = drawn.rows(part)
    rows = chosen[passing[chosen]]
    some = bool(part.clusters or part.area)
    show_verdict(index, drawn.found.request.instruction)
    if said := division(drawn.found):
        st.caption(text.plain(said))
    left, right = st.columns(2, gap="medium")
    with left:
        panels.draw_map(drawn, part, passing)
        panels.choose_clusters(drawn.found)
        within = np.zeros(len(passing), dtype=bool)
        within[chosen] = True
        facet_panel.draw_facets(sides, only, within)
    with right:
        title = clusters.part_name(drawn.found, part) if some else ""
        what = "review" if drawn.found.material.units is None else "sentence"
        said = text.count(len(rows), what) if some or only.any else clusters.headline(drawn.found)
        with panels.headed(title, said):
            if some and len(rows) > 1:
                panels.look_closer(grouping, part, len(chosen), suggestions)
            panels.download(drawn.found, rows, "selection" if some else "clusters")
            report_panel.offer(
                partial(report_panel.made, index, drawn, passing, text.listed(only.said)), bool(passing.any())
            )
            if not some and not grouping.within:
                topic_panels.save_clusters(index, drawn)
            if part.area and len(chosen) and not grouping.within:
                area_panel.save_area(index, drawn, part)
            if some:
                st.button("Clear", on_click=panels.clear_selection, icon=":material/close:")
        if not part.area:
            panels.draw_cards(drawn, columns, passing, part.clusters)
        elif len(chosen):
            area_panel.draw_area(index, drawn, part, columns, passing)
        if some:
            panels.draw_reviews(drawn.found, rows, columns, part.spell())


def _existing(drawn: Drawn) -> Grouping:
    """Return the page's state without clusters that a link names and that are not there."""
    grouping = state.current(Grouping)
    known = {cluster.number for cluster in drawn.found.clusters}
    if known.issuperset(grouping.clusters):
        return grouping
    state.change(Grouping, clusters=tuple(one for one in grouping.clusters if one in known))
    return state.current(Grouping)


def _show_flow(index: Index, first: Drawn, second: Drawn) -> None:
    change = flow_panel.change_between(first, second)
    for column, one, place in zip(st.columns(2), (first, second), ("first", "second"), strict=True):
        with column:
            show_verdict(index, one.found.request.instruction, place=place)
            if said := division(one.found):
                st.caption(text.plain(said))
    wanted = state.current(Grouping).flow
    chosen = next((flow for flow in change.flows if (flow.first, flow.second) == wanted), None)
    st.text(flows.sentence(change))
    flow_panel.draw_flows(change, chosen)
    if chosen is None:
        return
    places = {document.id: row for row, document in enumerate(first.found.material.documents)}
    rows = np.array([places[id] for id in chosen.ids], dtype=np.int64)
    with panels.headed(flows.flow_name(change, chosen), text.count(len(rows), "review")):
        panels.download(first.found, rows, "flow")
        st.button("Clear", on_click=panels.clear_selection, icon=":material/close:")
    panels.draw_reviews(first.found, rows, resources.columns(index), flows.spell(*wanted))


def _part_names(index: Index, ask: Ask) -> list[str]:
    """Name the parts looked closer at, where their clusterings are known."""
    names = []
    while ask.within:
        part, ask = ask.within[-1], ask.parent
        drawn = resources.clusterings().find(index, ask, mapped=False)
        names.append(clusters.part_name(drawn.found, part) if drawn else "Part")
    return names[::-1]


main()
