"""The parts of the page Groups: the map, cards, reviews to read, downloads, and reports."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow as pa
import streamlit as st
from numpy.typing import NDArray
from streamlit.components.v2 import component
from streamlit.components.v2.types import ComponentRenderer

from retriever.clusters.clustering import Clustering
from retriever.clusters.groups import Groups, groups_of
from retriever.clusters.index_numbers import Counted
from retriever.clusters.map import map_asset
from retriever.clusters.numbers import count
from retriever.clusters.references import NONE
from retriever.clusters.report import mistaken
from retriever.core.types import Document
from retriever.index.profiling import Columns
from retriever_app import cards, charts, state, text
from retriever_app.cards import Card
from retriever_app.charts import Colours
from retriever_app.components import review_card, theme
from retriever_app.pages.groups import model
from retriever_app.pages.groups.asked import Grouping
from retriever_app.pages.groups.job import BY_NUMBER, Drawn
from retriever_app.pages.groups.model import GroupCard, Sides
from retriever_app.pages.search.model import SearchQuestion
from retriever_app.resources import Chosen

MOST_CARDS = 8
MOST_REVIEWS = 10
_REPORTS = (("One page (HTML)", "html", "text/html"), ("Markdown", "md", "text/markdown"))
_CSS = """.map { position: relative; height: 480px; font-family: var(--st-font); --text: var(--st-text-color);
  --back: var(--st-background-color); --line: var(--st-border-color); }"""
_TURN, _READ, _ALL = "groups: turn", "groups: shown", "groups: all cards"


def clear_selection() -> None:
    """Choose nothing."""
    state.change(Grouping, clusters=())


def show_doubts(found: Clustering, ratings: str = "") -> None:
    """Say before the groups what they are where their question is not followed, and what else to doubt of them.

    ``ratings`` says which of them have other ratings than the examples that taught them.
    """
    doubts = " ".join(filter(None, [found.doubts, ratings]))
    if doubts:
        st.warning(text.plain(doubts), icon=":material/warning:")


@st.cache_resource(show_spinner=False, max_entries=8, hash_funcs=BY_NUMBER)
def doubtful_ratings(drawn: Drawn, columns: Columns) -> str:
    """Name the groups whose ratings are far from those of the examples that taught them; nothing without any."""
    return mistaken(drawn.found, _counted(groups(drawn), columns)) if drawn.found.examples else ""


def draw_map(drawn: Drawn, chosen: Sequence[int], passing: NDArray[np.bool_]) -> None:
    """Draw the map; a click chooses a group; reviews that do not pass (n,) stand back."""
    key, marks = f"group map {drawn.number}", _marks(drawn, theme())
    numbers = [mark["number"] for mark in marks]

    def take() -> None:
        event = st.session_state[key]["chosen"]
        picked = (numbers[int(place)] for place in event["clusters"])
        state.change(Grouping, clusters=tuple(number for number in picked if number != NONE))
        st.session_state[_TURN] = event["turn"]

    _map()(
        key=key,
        data={
            "points": _points(drawn),
            "passing": pa.table({"passing": passing.astype(np.uint8)}),
            "clusters": marks,
            "chosen": [place for place, number in enumerate(numbers) if number in chosen],
            "turn": st.session_state.get(_TURN),
        },
        on_chosen_change=take,
    )
    st.caption(
        "Click a review to select its group, with Shift to select several. Drag to move; Ctrl and the wheel zoom."
    )


def choose_groups(found: Clustering) -> None:
    """Draw the groups' names to choose from."""
    groups = {group.number: group for group in model.in_order(found)}
    st.pills(
        "Groups",
        list(groups),
        selection_mode="multi",
        key=state.key(Grouping, "clusters"),
        format_func=lambda number: f"{text.plain(groups[number].label)} ({groups[number].size:,})",
        label_visibility="collapsed",
        wrap=True,
    )


def draw_cards(
    drawn: Drawn,
    columns: Columns,
    passing: NDArray[np.bool_],
    chosen: Sequence[int],
    menu: Callable[[GroupCard], None] | None,
) -> None:
    """Draw the groups as cards, or those chosen, each of its reviews that pass (n,); ``menu`` draws its changes."""
    listed = [card for card in _cards(drawn, columns, passing) if not chosen or card.group.number in chosen]
    everything = st.session_state.get(_ALL) == drawn.number
    first = listed if everything else listed[:MOST_CARDS]
    for card in first:
        _draw_card(card, drawn.found.question, menu, can_choose=not chosen)
    if len(first) < len(listed):
        st.button(
            f"Show {text.count(len(listed) - len(first), 'more group')}",
            on_click=lambda: st.session_state.update({_ALL: drawn.number}),
        )


def _draw_card(card: GroupCard, question: str, menu: Callable[[GroupCard], None] | None, *, can_choose: bool) -> None:
    """Draw a group as a card: to be chosen, with what its reviews say; or chosen, with the reviews below it."""
    with st.container(border=True, gap="small"):
        if card.group.alert:
            st.markdown(f":orange[:material/warning: {text.plain(card.group.alert)}]")
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            with st.container(gap=None, width="stretch"):
                st.markdown(f"**{text.plain(card.group.label)}**")
                for line in filter(None, (card.size, card.group.description, card.figures)):
                    st.caption(text.plain(line))
            with st.container(horizontal=True, width="content"):
                if can_choose:
                    choose = partial(state.change, Grouping, clusters=(card.group.number,))
                    st.button("Read", key=f"choose {card.group.number}", type="tertiary", on_click=choose)
                if menu is not None:
                    menu(card)
        _draw_tally(card)
        for quote in card.quotes if can_choose else ():
            st.text(f"“{quote}”", width="stretch")
        if card.words:
            st.caption(f"Typical words: {text.plain(card.words)}")
        if card.more:
            search = SearchQuestion(q=card.more, instruction=question)
            page = state.params(search, state.current(Chosen))
            st.page_link("search/view.py", label="Find more of these", icon=":material/search:", query_params=page)


def _draw_tally(card: GroupCard) -> None:
    """Draw the stars and the months of a group's reviews side by side; nothing where they have neither."""
    tally, group, shades = card.tally, card.group, theme()
    if not tally.ratings and not tally.months:
        return
    left, right = st.columns(2, gap="medium")
    if tally.ratings:
        counts = {f"{stars} {text.STAR}": number for stars, number in tally.ratings.items()}
        spec = charts.bar_chart(counts, shades.of(group.number), shades, shares=True)
        left.vega_lite_chart(spec=spec, alt=f"Stars of the reviews of {group.label}", key=f"stars {group.number}")
    if tally.months:
        spec = charts.time_chart(tally.months, shades.of(group.number), shades, height=92)
        right.vega_lite_chart(spec=spec, alt=f"Reviews of {group.label} over time", key=f"trend {group.number}")


@contextmanager
def headed(title: str, sentence: str) -> Iterator[None]:
    """Draw a heading with a sentence under it; the block draws what can be done, beside them."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        with st.container(width="stretch", gap=None):
            if title:
                st.subheader(text.plain(title), anchor=False)
            st.caption(text.plain(sentence))
        with st.container(horizontal=True, width="content"):
            yield


def draw_reviews(
    reviews: Sequence[tuple[Document, Sequence[str]]],
    columns: Columns,
    name: str,
    menu: Callable[[Card], None] | None = None,
) -> None:
    """Draw reviews with what the model answered of each, and more on demand; another name begins at the top.

    ``menu`` draws what can be done with one.
    """
    before, wanted = st.session_state.get(_READ, ("", MOST_REVIEWS))
    most = wanted if before == name else MOST_REVIEWS
    for document, words in reviews[:most]:
        review_card(replace(cards.card(document, columns), words=words), menu=menu)
    if most < len(reviews):
        st.button(
            f"Show {min(MOST_REVIEWS, len(reviews) - most)} more of {len(reviews):,}",
            on_click=lambda: st.session_state.update({_READ: (name, most + MOST_REVIEWS)}),
        )


def offer_report(make: Callable[[str], bytes], possible: bool) -> None:
    """Draw what makes a report where it is possible; ``make`` is called for it, with the kind of file, html or md."""
    with st.popover("Report", icon=":material/description:", disabled=not possible):
        st.text("Findings, a chart, quotes and a table of all groups in one file, with how far to trust them.")
        for label, kind, mime in _REPORTS:
            icon = ":material/download:"
            name = f"report.{kind}"
            st.download_button(label, partial(make, kind), name, mime, icon=icon, on_click="ignore")


@st.cache_resource(show_spinner=False)
def _map() -> ComponentRenderer:
    here = files("retriever_app.pages.groups")
    script = map_asset("scatter.js") + here.joinpath("map.js").read_text(encoding="utf-8")
    return component("retriever_map", html='<div class="map"></div>', css=map_asset("scatter.css") + _CSS, js=script)


@st.cache_resource(show_spinner=False, max_entries=8, hash_funcs=BY_NUMBER)
def _points(drawn: Drawn) -> pa.Table:
    return pa.table(model.points(drawn.found, drawn.places))


@st.cache_resource(show_spinner=False, max_entries=8, hash_funcs=BY_NUMBER)
def _marks(drawn: Drawn, shades: Colours) -> list[dict[str, Any]]:
    return model.marks(drawn.found, drawn.places, shades)


@st.cache_resource(show_spinner=False, max_entries=8, hash_funcs=BY_NUMBER)
def _cards(drawn: Drawn, columns: Columns, passing: NDArray[np.bool_]) -> list[GroupCard]:
    """Return all groups as cards, each of its reviews that pass (n,)."""
    counted = _counted(groups(drawn).kept(passing[model.drawn_evenly(drawn.found)]), columns)
    return model.cards(drawn.found, sides_of(drawn, columns), counted, passing, drawn.nearness)


def _counted(of: Groups, columns: Columns) -> Counted:
    """Return groups as whole reviews, with their stars."""
    whole = of.by_document()
    stars = model.read_sides(whole.documents, columns).stars
    return Counted(whole, count(whole, stars), stars)


@st.cache_resource(show_spinner=False, max_entries=8, hash_funcs=BY_NUMBER)
def groups(drawn: Drawn) -> Groups:
    """Return the groups of a grouping."""
    return groups_of(drawn.found)


@st.cache_resource(show_spinner=False, max_entries=8, hash_funcs=BY_NUMBER)
def sides_of(drawn: Drawn, columns: Columns) -> Sides:
    """Return what charts count of the reviews of a grouping."""
    return model.read_sides(drawn.found.material.documents, columns)
