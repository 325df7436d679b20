"""Compare: one query under two instructions, side by side, with lines for what moved."""

from collections.abc import Sequence

import streamlit as st

from retriever.clusters.comparing import RankChange, compare_ranks
from retriever.core.requests import SearchRequest
from retriever.index.profiling import Columns
from retriever.workspace import Index
from retriever_app import filters, frame, resources, searches, state
from retriever_app.components import instruction_box, number_box, text_box, theme
from retriever_app.searches import LiveAnswer
from retriever_app.verdicts import show_verdict
from retriever_app.view_models import comparison, exports, search, text
from retriever_app.view_models.comparison import CARD, MOST_HITS, STEP, HitPair, RankLine

_LINES = "compare-lines"  # style.css leaves them out where the columns stand one under the other


def main() -> None:
    """Draw the page."""
    index = frame.needed_index()
    pair = state.current(HitPair)
    suggestions = search.suggestions(resources.status(index).views)
    where = filters.choose(resources.profile(index))
    _ask(suggestions)
    if not pair.q.strip():
        st.text("Say what to look for, and under which two instructions: the page shows what the second one changes.")
        return
    requests = tuple(SearchRequest([pair.q], one, pair.k, where, "hybrid") for one in (pair.first, pair.second))
    if answers := searches.live_answers(index, requests, "compare"):
        _show(index, answers)


def _ask(suggestions: Sequence[str]) -> None:
    """Draw the query above the two instructions."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        text_box("Search for", state.key(HitPair, "q"), "it stopped working after a few days", max_chars=2000)
        number_box("Hits", state.key(HitPair, "k"), MOST_HITS)
    sides = (("first", "First instruction"), ("second", "Second instruction"))
    for column, (field, label) in zip(st.columns(2), sides, strict=True):
        with column:
            instruction_box(state.key(HitPair, field), suggestions, label=label)


def _show(index: Index, answers: Sequence[LiveAnswer]) -> None:
    first, second = answers
    change, columns = compare_ranks(first.result, second.result), resources.columns(index)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.text(comparison.sentence(change), width="stretch")
        if change.moved:
            st.download_button(
                "Download",
                lambda: exports.to_csv(comparison.rows(change)),
                "comparison.csv",
                "text/csv",
                icon=":material/download:",
                on_click="ignore",
            )
    if not (first.settled and second.settled):
        st.caption("First answers. The best candidates are being read.")
    ready = first.settled and second.settled
    for column, answer, place in zip(st.columns(2), answers, ("first", "second"), strict=True):
        with column:
            show_verdict(index, answer.result.instruction, ready=ready, place=place)
    if change.moved:
        _sides(change, columns)


def _sides(change: RankChange, columns: Columns) -> None:
    """Draw both sides, and the lines between them."""
    left, middle, right = st.columns([6, 1.6, 6], gap=None)
    for column, which in ((left, 0), (right, 1)):
        with column:
            _side(change, which, columns)
    with middle, st.container(key=_LINES):
        _heading("")
        st.vega_lite_chart(
            spec=comparison.lines_chart(change, theme()),
            alt="Lines from the places of the hits on the left to those on the right; the cards say the same.",
            key="compare lines",
        )


def _side(change: RankChange, which: int, columns: Columns) -> None:
    instruction = change.results[which].instruction
    _heading(text.plain(instruction) if instruction else "Without an instruction")
    with st.container(gap=None):
        for line in comparison.side(change, which, columns):
            _card(line, which)


def _heading(said: str) -> None:
    with st.container(height=44, border=False):
        st.markdown(f"**{said}**" if said else " ")


def _card(line: RankLine, which: int) -> None:
    """Draw a hit at its height; what does not fit is scrolled to."""
    colour = {"up": "blue", "down": "orange", "same": "gray", None: "violet"}[line.way]
    place = st.container(height=STEP, border=False, gap=None)
    with place.container(height=CARD, border=True, gap="xsmall", key=f"hit {which} {line.rank}"):
        mark = f":{colour}-badge[{text.plain(line.mark)}]"
        head = [f"**{line.rank}**", line.stars, f"**{text.plain(line.product)}**" if line.product else "", mark]
        st.markdown("&ensp;".join(filter(None, head)))
        if line.words:
            st.caption(text.plain(", ".join(line.words)))
        st.text(line.body, width="stretch")


main()
