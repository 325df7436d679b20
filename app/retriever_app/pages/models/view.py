"""Models: what an index was read with and whether it is whole, what is installed, and new models from rows."""

import streamlit as st

from retriever_app import state
from retriever_app.pages.models import installed, upkeep
from retriever_app.pages.models.model import Shown
from retriever_app.training import panel

_PARTS = {"index": ("Index", upkeep.draw), "installed": ("Installed", installed.draw), "train": ("Train", panel.draw)}


def main() -> None:
    """Draw the page."""
    shown = state.current(Shown).part
    st.segmented_control(
        "Show",
        list(_PARTS),
        key=state.key(Shown, "part"),
        format_func=lambda part: _PARTS[part][0],
        label_visibility="collapsed",
        required=True,
    )
    _PARTS[shown][1]()


main()
