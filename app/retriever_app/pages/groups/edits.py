"""Saving a grouping, and changing a saved one: renamed, merged, split and moved by a click, with the way back."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from retriever.clusters.clustering import Clustering
from retriever.clusters.edit_requests import ClusterEdits
from retriever.clusters.references import ordinal
from retriever.workspace import Index
from retriever_app import state
from retriever_app.cards import Card
from retriever_app.components import action_button, attempt
from retriever_app.pages.groups import model
from retriever_app.pages.groups.asked import Grouping
from retriever_app.pages.groups.model import GroupCard
from retriever_app.text import plain

_NONE = "no group"


def holding(index: Index, name: str) -> tuple[int, ...]:
    """Return the numbers of the changes of a saved grouping that hold; none for a new one."""
    return tuple(edit.number for edit in index.clusterings.history(name) if edit.undone is None) if name else ()


def offer_save(index: Index, found: Clustering) -> None:
    """Draw the button that saves the groups of the page under a name; only saved ones can be changed."""
    key = "save groups as"

    def save() -> None:
        name = str(st.session_state.get(key) or "").strip()
        index.clusterings.save(name, found)
        state.change(Grouping, saved=name, clusters=())

    with st.popover("Save and edit", icon=":material/bookmark:"):
        st.text("Saved groups can be renamed, merged, split and corrected. New reviews go to them.")
        st.text_input("Name", found.question[:100], 100, key)
        action_button("Save these groups", save, type="primary", key="save groups")


def offer_undo(index: Index, name: str) -> None:
    """Draw the button that takes back the last change of a saved grouping."""
    changes = [str(edit.change) for edit in index.clusterings.history(name) if edit.undone is None]
    label, undo = "Undo", partial(index.clusterings.undo, name)
    action_button(label, undo, disabled=not changes, icon=":material/undo:", help=changes[-1] if changes else None)


def group_menu(index: Index, name: str, found: Clustering, card: GroupCard) -> None:
    """Draw the changes of a group of a saved grouping: another name, merge, split."""
    own = card.group.number
    others = {group.number: group.label for group in model.in_order(found) if group.number != own}
    number, label, into = str(ordinal(own)), f"name {own}", f"into {own}"

    def offer(change: str, edits: Callable[[], ClusterEdits]) -> None:
        action_button(change, lambda: index.clusterings.edit(name, edits()), key=f"{change} {own}")

    with st.popover("Change", key=f"change {own}", type="tertiary"):
        st.text_input("Name", card.group.label, 100, label)
        offer("Rename", lambda: ClusterEdits(rename={number: st.session_state[label]}))
        if others:
            st.selectbox("Merge with", list(others), key=into, format_func=others.__getitem__)
            offer("Merge", lambda: ClusterEdits(merge=[[number, str(ordinal(st.session_state[into]))]]))
        offer("Split in two", lambda: ClusterEdits(split={number: 2}))


def move_menu(index: Index, name: str, found: Clustering, chosen: tuple[int, ...], card: Card) -> None:
    """Draw where else than to the chosen group a review of a saved grouping can go."""
    others = [group for group in model.in_order(found) if (group.number,) != chosen]
    targets = {str(ordinal(group.number)): group.label for group in others} | {"none": _NONE}
    key = f"move {card.id}"
    move = lambda: index.clusterings.edit(name, ClusterEdits(move={card.id: st.session_state[key]}))  # noqa: E731
    st.menu_button(
        "Move to",
        list(targets),
        key=key,
        on_click=attempt,
        args=(move,),
        type="tertiary",
        format_func=lambda number: plain(targets[number]),
    )
