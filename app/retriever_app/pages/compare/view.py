"""Compare: one query under two instructions, side by side, with where each hit is on the other side."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

import streamlit as st

from retriever.clusters.comparing import compare_ranks
from retriever.core.requests import SearchRequest
from retriever.workspace import Index
from retriever_app import filters, resources, state, text
from retriever_app.cards import Card
from retriever_app.components import download, instruction_box, number_box, text_box
from retriever_app.examples import known_answers
from retriever_app.pages.clusters.model import short
from retriever_app.pages.compare import model
from retriever_app.pages.compare.model import MOST_HITS, HitPair
from retriever_app.pages.search.job import LiveAnswer, live_answers
from retriever_app.pages.search.model import suggestions
from retriever_app.verdicts import show_verdict

_SIDES = ("first", "second")
_COLOURS = {"▲": "blue", "▼": "orange", "=": "gray"}  # of a badge, by how it begins


def main() -> None:
    """Draw the page."""
    index = resources.needed_index()
    state.carry(HitPair, "first", empty=("first", "second"))
    pair = state.current(HitPair)
    where = filters.choose(resources.profile(index))
    _ask(suggestions(resources.status(index).views))
    if not pair.q.strip():
        st.text("Enter a query and two questions: the page shows how the second question changes the hits.")
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
    for column, side in zip(st.columns(2), _SIDES, strict=True):
        with column:
            instruction_box(state.key(HitPair, side), suggested, label=f"{side.capitalize()} question")


def _show(index: Index, answers: Sequence[LiveAnswer]) -> None:
    first, second = answers
    change, columns = compare_ranks(first.result.shown, second.result.shown), resources.columns(index)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.text(model.sentence(change), width="stretch")
        if change.moved:
            download(lambda: model.rows(change), "comparison.csv")
    ready = first.settled and second.settled
    if not (ready or first.stopped or second.stopped):
        st.caption("First hits. The lists may change while the model reads more.")
    for place, column, answer in zip(_SIDES, st.columns(2, gap="medium"), answers, strict=True):
        with column:
            instruction = answer.result.instruction
            st.markdown(f"**{text.plain(instruction)}**" if instruction else "**Without a question**")
            show_verdict(index, instruction, ready=ready, place=place, boxed=True)
    known = [known_answers(index, answer.result) for answer in answers]
    sides = [model.side(change, which, columns, known[which]) for which in range(len(_SIDES))]
    for pair in zip_longest(*sides):
        for place, column, hit in zip(_SIDES, st.columns(2, gap="medium"), pair, strict=True):
            if hit is not None:
                with column:
                    _card(hit, place)


def _card(hit: Card, place: str) -> None:
    """Draw a hit, with where it is on the other side; style.css shows which side this is where both are one column."""
    product = short(hit.product or hit.about, model.PRODUCT)
    with st.container(border=True, gap="xsmall", key=f"hit {place} {hit.rank}"):
        with st.container(key=f"side of {place} {hit.rank}"):
            st.caption(f"{place.capitalize()} question")
        mark = f":{_COLOURS.get(hit.moved[0], 'violet')}-badge[{text.plain(hit.moved)}]"
        head = [f"**{hit.rank}**", hit.stars, f"**{text.plain(product)}**" if product else "", mark]
        st.markdown("&ensp;".join(filter(None, head)))
        if hit.label:
            st.caption(f"{text.plain(hit.label)} (labeled)")
        if hit.words:
            st.caption(text.plain(", ".join(hit.words)))
        st.text(short(hit.body, model.BODY), width="stretch")


main()
