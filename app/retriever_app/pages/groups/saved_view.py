"""The part of the page Groups with saved clusterings and categories: renamed, merged and corrected by a click."""

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from retriever.clusters.edit_requests import ClusterEdits
from retriever.clusters.groups import Groups
from retriever.clusters.references import ordinal
from retriever.clusters.saved import SavedClustering
from retriever.index.profiling import Columns
from retriever.workspace import Index
from retriever_app import state, text
from retriever_app.cards import Card
from retriever_app.components import action_button, attempt
from retriever_app.pages.groups import job, saved_model
from retriever_app.pages.groups.job import Drawn, SavedPage
from retriever_app.pages.groups.model import Grouping
from retriever_app.pages.groups.panels import draw_reviews, offer_report, show_doubts
from retriever_app.pages.groups.saved_model import Dated, TopicCard, members
from retriever_app.verdicts import show_verdict

_NONE = "no cluster"


def show_saved(index: Index, columns: Columns, where: str | None) -> None:
    """Draw the saved clusterings of an index: which, what is in it, and what can be changed.

    The report is of the reviews that a filter accepts.
    """
    if job.making(index):
        return
    names = index.clusterings.names()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if names:
            chosen = state.current(Grouping).saved
            options = names if not chosen or chosen in names else [chosen, *names]
            st.selectbox("Saved clusters", options, key=state.key(Grouping, "saved"), on_change=_let_go)
        with st.popover("New categories", icon=":material/new_label:"):
            _ask_categories(index)
    name = state.current(Grouping).saved
    if name not in names:
        nothing = (
            f"There are no saved clusters named {name!r}." if name and names else "There are no saved clusters yet."
        )
        st.text(f"{nothing} Save clusters from the map, or define categories of your own.")
        return
    shown = job.saved(index, name)
    if shown is not None:
        _show(index, shown, columns, where)


def save_clusters(index: Index, drawn: Drawn) -> None:
    """Draw the button that saves the clusters of the map under a name."""
    key = "save clusters as"

    def save() -> None:
        name = str(st.session_state.get(key, "")).strip()
        index.clusterings.save(name, drawn.found)
        state.change(Grouping, show="saved", saved=name, clusters=())

    with st.popover("Save", icon=":material/bookmark:"):
        st.text_input("Name", key=key, max_chars=100)
        action_button("Save these clusters", save, type="primary", key="save clusters")


def _let_go() -> None:
    state.change(Grouping, clusters=())


def _ask_categories(index: Index) -> None:
    """Draw the form for categories: the question, their names, and what to save them under."""

    def begin() -> None:
        fields = ("ask", "into", "name")
        question, into, name = (str(st.session_state.get(f"categories {field}") or "").strip() for field in fields)
        several = bool(st.session_state.get("categories several"))
        job.classify(index, name or question, question, into, several=several)
        state.change(Grouping, saved=name or question, clusters=())

    instruction = state.current(Grouping).instruction
    st.text_input("Question", instruction, 1000, "categories ask", placeholder="What does the customer want?")
    st.text_area(
        "Categories, separated by commas", key="categories into", placeholder="refund, repair, replacement, nothing"
    )
    st.checkbox("A review may belong to several categories", key="categories several")
    st.text_input("Name", "", 100, "categories name", placeholder="Default: the question")
    action_button("Sort the reviews", begin, type="primary", key="categories go")


def _show(index: Index, saved: SavedPage, columns: Columns, where: str | None) -> None:
    clustering, shown, name = saved.found, saved.page, saved.found.name
    show_verdict(index, clustering.request.instruction or "")
    show_doubts(clustering)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.caption(text.plain(shown.headline), width="stretch")
        undo = partial(index.clusterings.undo, name)
        action_button("Undo", undo, disabled=not shown.can_undo, icon=":material/undo:")
        with st.popover("History", icon=":material/history:", disabled=not shown.history):
            for line in shown.history:
                st.text(line)
        make = partial(job.report_file, index, clustering, saved.groups, where=where)
        offer_report(make, bool(saved.groups.documents))
    if shown.titles:
        st.caption(text.plain(shown.titles))
    if where:
        st.caption("The filters apply to the report only.")
    chosen = [card for card in shown.cards if card.number in state.current(Grouping).clusters]
    if len(chosen) == 1:
        _read(index, clustering, chosen[0], shown.cards, columns)
        return
    if clustering.sampled is None or not clustering.sampled.withheld:
        _draw_periods(saved.groups, columns)
    for start in range(0, len(shown.cards), 2):
        for column, card in zip(st.columns(2), shown.cards[start : start + 2], strict=False):
            with column, st.container(border=True, gap="small"):
                _card(index, name, card, shown.cards)


def _card(index: Index, name: str, card: TopicCard, others: Sequence[TopicCard]) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        with st.container(gap=None, width="stretch"):
            st.markdown(f"{':gray[hidden] ' if card.hidden else ''}**{text.plain(card.name)}**")
            st.caption(text.plain(card.size))
        with st.container(horizontal=True, width="content"):
            st.button(
                "Read",
                key=f"topic read {card.number}",
                type="tertiary",
                on_click=partial(state.change, Grouping, clusters=(card.number,)),
            )
            with st.popover("Change", key=f"topic change {card.number}", type="tertiary"):
                _changes(index, name, card, [other for other in others if other.number != card.number])
    if card.description and not card.hidden:
        st.text(card.description, width="stretch")
    for quote in card.quotes if not card.hidden else ():
        st.text(f"“{quote}”", width="stretch")
    if card.words and not card.hidden:
        st.caption(f"Answers: {text.plain(card.words)}")


def _changes(index: Index, name: str, card: TopicCard, others: Sequence[TopicCard]) -> None:
    """Draw what can be done with a cluster: another name, merge, split, hide."""
    number, label, into = str(ordinal(card.number)), f"topic name {card.number}", f"topic into {card.number}"
    named = {str(ordinal(other.number)): other.name for other in others}
    st.text_input("Name", card.name, 100, label)
    _button("Rename", index, name, card.number, lambda: ClusterEdits(rename={number: st.session_state[label]}))
    if named:
        st.selectbox("Merge with", list(named), key=into, format_func=named.__getitem__)
        _button("Merge", index, name, card.number, lambda: ClusterEdits(merge=[[number, st.session_state[into]]]))
    _button("Split in two", index, name, card.number, lambda: ClusterEdits(split={number: 2}))
    if card.hidden:
        _button("Show again", index, name, card.number, lambda: ClusterEdits(show=[number]))
    else:
        _button("Hide", index, name, card.number, lambda: ClusterEdits(hide=[number]))


def _button(label: str, index: Index, name: str, number: int, edits: Callable[[], ClusterEdits]) -> None:
    action_button(label, lambda: index.clusterings.edit(name, edits()), key=f"topic {label} {number}")


def _read(
    index: Index, clustering: SavedClustering, card: TopicCard, others: Sequence[TopicCard], columns: Columns
) -> None:
    """Draw the reviews of one cluster, each with where else it could belong."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.subheader(text.plain(card.name), anchor=False)
        st.button("All clusters", on_click=_let_go, icon=":material/close:")
    others = [other for other in others if other.number != card.number]
    targets = {str(ordinal(other.number)): other.name for other in others} | {"none": _NONE}
    menu = partial(_move, index, clustering.name, targets)
    draw_reviews(members(clustering, card.number), columns, f"{clustering.name} {card.number}", menu)


def _move(index: Index, name: str, targets: dict[str, str], card: Card) -> None:
    key = f"topic move {card.id}"
    work = lambda: index.clusterings.edit(name, ClusterEdits(move={card.id: st.session_state[key]}))  # noqa: E731
    st.menu_button(
        "Move to",
        list(targets),
        key=key,
        on_click=attempt,
        args=(work,),
        type="tertiary",
        format_func=lambda number: text.plain(targets[number]),
    )


def _draw_periods(groups: Groups, columns: Columns) -> None:
    """Draw the choice of two periods, and every cluster's share in both; nothing where there are fewer than two."""
    dated = saved_model.dated(groups.documents, columns)
    if len(dated.periods) < 2:
        return
    _settle(dated)
    with st.expander("Compare two periods", icon=":material/date_range:"):
        with st.container(horizontal=True):
            for label, field in (("From", "before"), ("To", "after")):
                st.selectbox(label, dated.periods, key=state.key(Grouping, field), width=140)
        chosen = state.current(Grouping)
        change = saved_model.change(groups, dated, chosen.before, chosen.after)
        for sentence in change.sentences:
            st.text(sentence)
        st.dataframe(change.rows, hide_index=True)


def _settle(dated: Dated) -> None:
    """Choose the last two periods where none are chosen that are there."""
    chosen, last = state.current(Grouping), dated.periods[-2:]
    for field, usual in zip(("before", "after"), last, strict=True):
        if getattr(chosen, field) not in dated.periods:
            state.change(Grouping, **{field: usual})
