"""Compare: one query under two instructions, side by side, with where each hit is on the other side."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from retriever.clusters.comparing import RankChange, compare_ranks
from retriever.core.requests import SearchRequest
from retriever.index.profiling import Columns
from retriever.workspace import Index
from retriever_app import filters, resources, state, text
from retriever_app.cards import Card
from retriever_app.components import download, instruction_box, number_box, text_box
from retriever_app.pages.clusters.model import short
from retriever_app.pages.compare import model
from retriever_app.pages.compare.model import MOST_HITS, HitPair
from retriever_app.pages.search.job import LiveAnswer, live_answers
from retriever_app.pages.search.model import suggestions
from retriever_app.verdicts import show_verdict

_COLOURS = {"▲": "blue", "▼": "orange", "=": "gray"}  # of a badge, by how it begins


def main() -> None:
    """Draw the page."""
    index = resources.needed_index()
    pair = state.current(HitPair)
    where = filters.choose(resources.profile(index))
    _ask(suggestions(resources.status(index).views))
    if not pair.q.strip():
        st.text("Enter a query and two instructions: the page shows how the second one changes the hits.")
        return
    request = SearchRequest(pair.q, k=pair.k, where=where)
    requests = tuple(replace(request, instruction=instruction) for instruction in (pair.first, pair.second))
    if answers := live_answers(index, requests, "compare"):
        _show(index, answers)


def _ask(suggested: Sequence[str]) -> None:
    """Draw the query above the two instructions."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        text_box("Search for", state.key(HitPair, "q"), "it stopped working after a few days", max_chars=2000)
        number_box("Hits", state.key(HitPair, "k"), MOST_HITS)
    sides = (("first", "First instruction"), ("second", "Second instruction"))
    for column, (field, label) in zip(st.columns(2), sides, strict=True):
        with column:
            instruction_box(state.key(HitPair, field), suggested, label=label)


def _show(index: Index, answers: Sequence[LiveAnswer]) -> None:
    first, second = answers
    change, columns = compare_ranks(first.result, second.result), resources.columns(index)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.text(model.sentence(change), width="stretch")
        if change.moved:
            download(lambda: model.rows(change), "comparison.csv")
    if not (first.settled and second.settled):
        st.caption("First answers. The best candidates are being read.")
    ready = first.settled and second.settled
    for which, (column, answer) in enumerate(zip(st.columns(2, gap="medium"), answers, strict=True)):
        with column:
            show_verdict(index, answer.result.instruction, ready=ready, place=("first", "second")[which])
            _side(change, which, columns)


def _side(change: RankChange, which: int, columns: Columns) -> None:
    """Draw the hits of one side, 0 for the left and 1 for the right."""
    instruction = change.results[which].instruction
    st.markdown(f"**{text.plain(instruction)}**" if instruction else "**Without an instruction**")
    for hit in model.side(change, which, columns):
        _card(hit, which)


def _card(hit: Card, which: int) -> None:
    """Draw a hit, with where it is on the other side."""
    product = short(hit.product or hit.about, model.PRODUCT)
    with st.container(border=True, gap="xsmall", key=f"hit {which} {hit.rank}"):
        mark = f":{_COLOURS.get(hit.moved[0], 'violet')}-badge[{text.plain(hit.moved)}]"
        head = [f"**{hit.rank}**", hit.stars, f"**{text.plain(product)}**" if product else "", mark]
        st.markdown("&ensp;".join(filter(None, head)))
        if hit.words:
            st.caption(text.plain(", ".join(hit.words)))
        st.text(short(hit.body, model.BODY), width="stretch")


main()
