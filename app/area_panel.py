"""Draw what reviews of an area of the map have in common, as a card like a cluster's, and keep them as a cluster."""

from dataclasses import replace
from functools import partial

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from retriever.index.profiling import Columns
from retriever.workspace import Index
from retriever_app import cluster_panels as panels
from retriever_app import state
from retriever_app.clusterings import BY_NUMBER, Drawn
from retriever_app.components import attempt, told
from retriever_app.view_models.grouping import Grouping, Part


def draw_area(index: Index, drawn: Drawn, part: Part, columns: Columns, passing: NDArray[np.bool_]) -> None:
    """Draw the area's card, of its reviews that pass (n,)."""
    with told():
        apart = _apart(index, drawn, part, part.spell())
        number = _number(apart, drawn, part)
        card = next(one for one in panels.cards_of(apart, columns, passing) if one.number == number)
        panels.draw_card(replace(card, name=apart.found.clusters[number].label), can_choose=False)


def save_area(index: Index, drawn: Drawn, part: Part) -> None:
    """Draw the form that saves the area as a cluster, beside what it leaves of the others."""
    with told():
        apart = _apart(index, drawn, part, part.spell())
        usual = apart.found.clusters[_number(apart, drawn, part)].label
        label, name = f"area label {usual}", "save area as"

        def save() -> None:
            called = str(st.session_state.get(name, "")).strip()
            found = index.set_apart(drawn.found, drawn.ids(part), str(st.session_state.get(label, "")))
            index.save_clustering(called, found)
            state.change(Grouping, show="saved", saved=called, clusters=(), area=())

        with st.popover("Save", icon=":material/bookmark:"):
            st.text("The area becomes a cluster of its own, beside what it leaves of the others.")
            st.text_input("Name of this cluster", usual, 100, label)
            st.text_input("Name for all clusters", "", 100, name)
            st.button("Save the clusters", type="primary", on_click=partial(attempt, save), key="save area")


@st.cache_resource(show_spinner=False, max_entries=8, hash_funcs=BY_NUMBER)
def _apart(_index: Index, drawn: Drawn, _part: Part, spelled: str) -> Drawn:
    """Return the clustering with a part, which is spelled, as a cluster of its own; without vectors."""
    return drawn.showing(_index.set_apart(drawn.found, drawn.ids(_part)))


def _number(apart: Drawn, drawn: Drawn, part: Part) -> int:
    """Return the number of the cluster that the part has become."""
    return int(apart.found.partition.labels[drawn.rows(part)[0]])
