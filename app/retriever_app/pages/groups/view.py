"""Clusters: what reviews answer to an instruction, on a map and as cards."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from retriever.workspace import Index
from retriever_app import filters, readers, reading, resources, state, text
from retriever_app.components import download, instruction_box, number_box, theme
from retriever_app.pages.groups import facets, model, panels, saved_view
from retriever_app.pages.groups.facets import TITLES, Facet, Facets
from retriever_app.pages.groups.job import Drawn, asks, ready, report_file
from retriever_app.pages.groups.model import MOST_GROUPS, Ask, Grouping, Sides
from retriever_app.verdicts import show_verdict

_DRAWN = "facets: drawn"  # counts clicks: a chart that was clicked is drawn anew, with nothing selected
_LAST = "clusters: last"
_SHOWS = {"map": "Map", "saved": "Saved"}


def main() -> None:
    """Draw the page."""
    index = resources.needed_index()
    if state.carry(Grouping, "instruction"):
        panels.clear_selection()
    suggested = resources.suggestions(index)
    where = filters.choose(resources.profile(index))
    _let_go_elsewhere(index, where)
    grouping = state.current(Grouping)
    _ask(grouping, suggested)
    if grouping.show == "saved":
        saved_view.show_saved(index, resources.columns(index), where)
        return
    ask = grouping.ask(where)
    if not asks(index, ask):
        ask = replace(ask, read=Ask().read)  # encoders read all: however many it says, it is the same clustering
    way = st.container()
    drawn = ready(index, ask)
    if grouping.within:
        with way:
            panels.draw_breadcrumbs(grouping.parts, _part_names(index, ask))
    if drawn is not None:
        if drawn.found.sampled is not None and drawn.found.sampled.fault:
            again = partial(resources.clusterings().forget, index, ask)
            st.button("Ask the language model again", on_click=again, type="tertiary")
        _show_map(index, drawn, suggested)
    texts = resources.status(index).documents
    reading.offer(index, grouping.instruction, readers.grouping(grouping.read), "", lambda: _choose_read(texts))
    reading.trial(index, grouping.instruction)


def _let_go_elsewhere(index: Index, where: str | None) -> None:
    """Choose nothing where the user has gone over to other reviews meanwhile; a link says what is chosen of them."""
    reviews = (str(index.path), where)
    if st.session_state.get(_LAST, reviews) != reviews and not state.follows_link():
        state.current(Grouping)
        state.change(Grouping, within=())
        panels.clear_selection()
        _clear_facets()
    st.session_state[_LAST] = reviews


def _ask(grouping: Grouping, suggested: Sequence[str]) -> None:
    """Draw what is asked: the instruction, and how many clusters."""
    left, right = st.columns([5, 6], gap="medium")
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
            format_func=lambda number: str(number) if number else "Automatic",
            on_change=panels.clear_selection,
            width=140,
        )
    with right:
        instruction_box(state.key(Grouping, "instruction"), suggested, on_change=panels.clear_selection)


def _choose_read(texts: int) -> None:
    """Draw how many texts a language model reads."""
    with st.container(horizontal=True, vertical_alignment="bottom", width="content"):
        number_box("Reviews to read", state.key(Grouping, "read"), model.MOST_READ)
        st.button("All", on_click=lambda: state.change(Grouping, read=texts))


def _show_map(index: Index, drawn: Drawn, suggested: Sequence[str]) -> None:
    """Draw the map and the charts, and beside them the clusters or the reviews that are chosen."""
    grouping, columns = _existing(drawn), resources.columns(index)
    part, only, sides = grouping.chosen, state.current(Facets), panels.sides_of(drawn, columns)
    passing = facets.passing(sides, only)
    chosen = drawn.rows(part)
    rows = chosen[passing[chosen]]
    some = bool(part.clusters)
    show_verdict(index, drawn.found.request.instruction)
    panels.show_doubts(drawn.found, panels.doubtful_ratings(drawn, columns))
    left, right = st.columns(2, gap="medium")
    with left:
        panels.draw_map(drawn, part, passing)
        panels.choose_clusters(drawn.found)
        within = np.zeros(len(passing), dtype=bool)
        within[chosen] = True
        _draw_facets(sides, only, within)
    with right:
        title = model.part_name(drawn.found, part) if some else ""
        kind = "review" if drawn.found.material.units is None else "sentence"
        sentence = text.count(len(rows), kind) if some or only.any else model.headline(drawn.found)
        with panels.headed(title, sentence):
            if some and len(rows) > 1:
                panels.look_closer(grouping, part, len(chosen), suggested)
            download(
                partial(model.rows, drawn.found, rows.tolist()),
                "selection.csv" if some else "clusters.csv",
                f"Download {text.count(len(rows), 'review')} as CSV",
            )
            panels.offer_report(partial(_report, index, drawn, passing, text.listed(only.said)), bool(passing.any()))
            if not some and not grouping.within:
                saved_view.save_clusters(index, drawn)
            if some:
                st.button("Clear", on_click=panels.clear_selection, icon=":material/close:")
        panels.draw_cards(drawn, columns, passing, part.clusters)
        if some:
            read = drawn.found.material
            reviews = [(read.documents[row], read.answers[row]) for row in rows.tolist()]
            reading.show_answers(index, drawn.found.request.instruction, readers.answer_rows(reviews))
            panels.draw_reviews(reviews, columns, part.spell())


def _report(index: Index, drawn: Drawn, passing: NDArray[np.bool_], only: str, kind: str) -> bytes:
    groups = panels.groups(drawn).kept(passing[model.drawn_evenly(drawn.found)]).by_document()
    return report_file(index, drawn.found, groups, kind, only=only, nearness=drawn.nearness)


def _existing(drawn: Drawn) -> Grouping:
    """Return the page's state without clusters that a link names and that are not there."""
    grouping = state.current(Grouping)
    known = {cluster.number for cluster in drawn.found.clusters}
    if known.issuperset(grouping.clusters):
        return grouping
    state.change(Grouping, clusters=tuple(number for number in grouping.clusters if number in known))
    return state.current(Grouping)


def _part_names(index: Index, ask: Ask) -> list[str]:
    """Name the parts looked closer at, where their clusterings are known."""
    names = []
    while ask.within:
        part, ask = ask.within[-1], ask.parent
        drawn = resources.clusterings().find(index, ask)
        names.append(model.part_name(drawn.found, part) if drawn else "Part")
    return names[::-1]


def _clear_facets() -> None:
    """Let everything pass."""
    state.change(Facets, only_stars=(), only_product=(), only_month=())


def _draw_facets(sides: Sides, chosen: Facets, within: NDArray[np.bool_]) -> None:
    """Draw a chart for stars, product and month each; a click on a bar filters all else, another lets go.

    ``within`` (n,) are the reviews that were chosen otherwise.
    """
    charted = {facet: bars for facet in TITLES if (bars := facets.bars(sides, chosen, facet, within))}
    for facet, bars in charted.items():
        _draw_facet(facet, facets.chart(facet, bars, theme()), chosen)
    if chosen.any:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(f"Only {text.plain(text.listed(chosen.said))}")
            st.button("Show all again", on_click=_clear_facets, type="tertiary", icon=":material/filter_alt_off:")
    elif charted:
        st.caption("Click a bar to show only its reviews, here and on the map.")


def _draw_facet(facet: Facet, spec: Mapping[str, Any], chosen: Facets) -> None:
    key = f"facet {facet} {st.session_state.get(_DRAWN, 0)}"

    def take() -> None:
        picked = st.session_state[key]["selection"].get(facets.PICK) or ()
        value = facets.read_click(facet, picked[0]["value"]) if picked else None
        if value is not None:
            state.change(Facets, **{facet: facets.toggled(getattr(chosen, facet), value)})
            st.session_state[_DRAWN] = st.session_state.get(_DRAWN, 0) + 1

    st.markdown(f"**{TITLES[facet]}**")
    st.vega_lite_chart(
        spec=dict(spec),
        key=key,
        on_select=take,
        selection_mode=facets.PICK,
        alt=f"Reviews by {TITLES[facet].lower()}; the filters beside the page say the same.",
    )


main()
