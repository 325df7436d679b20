"""Groups: documents in groups under a question, on a map and as cards; found, named by somebody, or saved."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from retriever.clusters.clustering import Clustering
from retriever.workspace import Index
from retriever_app import filters, readers, reading, resources, state, text
from retriever_app.components import download, instruction_box, number_box, text_box, theme
from retriever_app.pages.groups import comparing, edits, facets, model, panels
from retriever_app.pages.groups.asked import MOST_GROUPS, MOST_READ, OWN, Ask, Grouping
from retriever_app.pages.groups.facets import TITLES, Facet, Facets
from retriever_app.pages.groups.job import Drawn, ready, report_file
from retriever_app.pages.groups.model import Sides
from retriever_app.verdicts import show_verdict

_DRAWN = "facets: drawn"  # counts clicks: a chart that was clicked is drawn anew, with nothing selected
_LAST = "groups: last"


def main() -> None:
    """Draw the page."""
    index = resources.needed_index()
    if state.carry(Grouping, "instruction"):
        panels.clear_selection()
    where = filters.choose(resources.profile(index))
    _let_go_elsewhere(index, where)
    _ask(index, state.current(Grouping))
    grouping = state.current(Grouping)
    if grouping.lacks:
        st.text(grouping.lacks)
        return
    ask = grouping.ask(where, edits.holding(index, grouping.saved))
    drawn = ready(index, ask)
    if grouping.saved and where:
        st.caption("The filters do not apply to saved groups.")
    if drawn is not None:
        _show(index, drawn, ask)


def _let_go_elsewhere(index: Index, where: str | None) -> None:
    """Choose nothing where the user has gone over to other reviews meanwhile; a link says what is chosen of them."""
    reviews = (str(index.path), where)
    if st.session_state.get(_LAST, reviews) != reviews and not state.follows_link():
        state.current(Grouping)
        panels.clear_selection()
        state.clear(Facets)
    st.session_state[_LAST] = reviews


def _ask(index: Index, grouping: Grouping) -> None:
    """Draw what is asked: a saved grouping, or the question with the number of groups or their names."""
    saved = index.clusterings.names()
    if saved or grouping.saved:
        options = list(dict.fromkeys(["", *saved, grouping.saved]))
        key, named = state.key(Grouping, "saved"), lambda name: name or "New groups …"
        st.selectbox("Groups", options, key=key, format_func=named, on_change=panels.clear_selection, width=320)
    if grouping.saved:
        return
    texts = resources.status(index).documents
    beside = partial(_choose_read, texts)
    offer = partial(reading.offer, index, grouping.instruction, readers.grouping(grouping.read), "", beside)
    left, right = st.columns([2, 1], gap="medium")
    with left:
        key, suggested = state.key(Grouping, "instruction"), resources.suggestions(index)
        instruction_box(key, suggested, on_change=panels.clear_selection, beside=offer)
        reading.trial(index, grouping.instruction)
    with right:
        st.selectbox(
            "How many",
            [0, OWN, *range(2, MOST_GROUPS + 1)],
            key=state.key(Grouping, "groups"),
            format_func=lambda number: {0: "Automatic", OWN: "My categories"}.get(number, str(number)),
            on_change=panels.clear_selection,
        )
    if grouping.groups == OWN:
        label, usual = "Categories, separated by commas", "refund, repair, replacement, nothing"
        text_box(label, state.key(Grouping, "into"), usual, max_chars=2000, on_change=panels.clear_selection)
        st.checkbox("A review may belong to several categories", key=state.key(Grouping, "several"))


def _choose_read(texts: int) -> None:
    """Draw how many texts a language model reads."""
    with st.container(horizontal=True, vertical_alignment="bottom", width="content"):
        number_box("Reviews to read", state.key(Grouping, "read"), MOST_READ)
        st.button("All", on_click=lambda: state.change(Grouping, read=texts))


def _show(index: Index, drawn: Drawn, ask: Ask) -> None:
    """Draw the map and the charts, and beside them the groups or the reviews that are chosen."""
    chosen, columns, only = _existing(drawn), resources.columns(index), state.current(Facets)
    sides = panels.sides_of(drawn, columns)
    passing = facets.passing(sides, only)
    inside = drawn.rows(chosen)
    question = drawn.found.question
    beside = partial(reading.offer, index, question, readers.grouping(ask.read), "verdict")
    if ask.saved and question:
        st.subheader(text.plain(question), anchor=False)
    show_verdict(index, question, of=drawn.found, beside=beside)
    panels.show_doubts(drawn.found, panels.doubtful_ratings(drawn, columns))
    _show_fault(index, drawn.found, ask)
    left, right = st.columns(2, gap="medium")
    with left:
        panels.draw_map(drawn, chosen, passing)
        panels.choose_groups(drawn.found)
        within = np.zeros(len(passing), dtype=bool)
        within[inside] = True
        _draw_facets(sides, only, within)
    with right:
        _show_groups(index, drawn, ask, chosen, passing)


def _show_groups(index: Index, drawn: Drawn, ask: Ask, chosen: tuple[int, ...], passing: NDArray[np.bool_]) -> None:
    """Draw the groups as cards, or the chosen ones with their reviews."""
    found, columns, only = drawn.found, resources.columns(index), state.current(Facets)
    inside = drawn.rows(chosen)
    rows = inside[passing[inside]].tolist()
    kind = "review" if found.material.units is None else "sentence"
    sentence = text.count(len(rows), kind) if chosen or only.said else model.headline(found)
    groups = panels.groups(drawn).kept(passing[model.drawn_evenly(found)]).by_document()
    with panels.headed(model.names_of(found, chosen) if chosen else "", sentence):
        file = "selection.csv" if chosen else "groups.csv"
        download(partial(model.rows, found, rows), file, f"Download {text.count(len(rows), 'review')} as CSV")
        make = lambda kind: report_file(index, drawn, groups, kind, only=text.listed(only.said))  # noqa: E731
        panels.offer_report(make, bool(passing.any()))
        if ask.saved:
            edits.offer_undo(index, ask.saved)
        elif not chosen:
            edits.offer_save(index, found)
        if chosen:
            st.button("Clear", on_click=panels.clear_selection, icon=":material/close:")
    if not chosen:
        _offer_numbers(found)
        if found.sampled is None or not found.sampled.withheld:
            comparing.draw(groups, columns)
    changes = partial(edits.group_menu, index, ask.saved, found) if ask.saved else None
    panels.draw_cards(drawn, columns, passing, chosen, changes)
    if chosen:
        reviews = [(found.material.documents[row], found.material.answers[row]) for row in rows]
        reading.show_answers(index, found.question, reviews)
        menu = partial(edits.move_menu, index, ask.saved, found, chosen) if ask.saved else None
        panels.draw_reviews(reviews, columns, f"{ask.saved} {found.question} {chosen}", menu)


def _offer_numbers(found: Clustering) -> None:
    """Draw the other numbers of groups to choose from, where the number was chosen."""
    if numbers := model.other_numbers(found):
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            st.caption("Other numbers:", width="content")
            for number in numbers:
                choose = partial(state.change, Grouping, groups=number)
                st.button(str(number), key=f"number {number}", type="tertiary", on_click=choose)


def _show_fault(index: Index, found: Clustering, ask: Ask) -> None:
    """Say what a language model did not do, with a button that asks it again; nothing where it was not to be asked."""
    faults = [found.fault, "" if found.sampled is None else found.sampled.fault]
    if not any(faults) or not reading.agreed(index, ask.instruction, readers.grouping(ask.read)):
        return
    if found.fault:
        st.caption(text.plain(f"The language model did not do all: {found.fault}"))
    again = partial(resources.groupings().forget, index, ask)
    st.button("Ask the language model again", on_click=again, type="tertiary")


def _existing(drawn: Drawn) -> tuple[int, ...]:
    """Return the groups that are chosen, without those that a link names and that are not there."""
    chosen, known = state.current(Grouping).clusters, {group.number for group in drawn.found.clusters}
    if known.issuperset(chosen):
        return chosen
    state.change(Grouping, clusters=tuple(number for number in chosen if number in known))
    return state.current(Grouping).clusters


def _draw_facets(sides: Sides, chosen: Facets, within: NDArray[np.bool_]) -> None:
    """Draw a chart for stars, product and month each; a click on a bar filters all else, another lets go.

    ``within`` (n,) are the reviews that were chosen otherwise.
    """
    charted = {facet: bars for facet in TITLES if (bars := facets.bars(sides, chosen, facet, within))}
    for facet, bars in charted.items():
        _draw_facet(facet, facets.chart(facet, bars, theme()), chosen)
    if chosen.said:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(f"Only {text.plain(text.listed(chosen.said))}")
            clear = partial(state.clear, Facets)
            st.button("Show all again", on_click=clear, type="tertiary", icon=":material/filter_alt_off:")
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
