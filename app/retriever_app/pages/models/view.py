"""Models: what an index was read with and whether it is whole, what is installed, and new models from rows."""

import streamlit as st

from retriever.index.model_names import read_promotion
from retriever_app import resources, state
from retriever_app.components import action_button, showing_problems
from retriever_app.pages.models import model, upkeep
from retriever_app.pages.models.model import Shown
from retriever_app.training import panel


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


def _installed() -> None:
    """Draw which model new indexes use, and the names of all."""
    with showing_problems():
        _draw_default()
    st.subheader("Encoders")
    st.dataframe(model.encoder_rows(), hide_index=True)
    st.subheader("Backbones")
    st.dataframe(model.backbone_rows(), hide_index=True)


def _draw_default() -> None:
    """Draw which model of one's own new indexes use, and the way back to the shipped one."""
    promotion = read_promotion()
    if promotion is None:
        st.text("New indexes use the shipped model.")
        return
    own = resources.trainings().models()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(f"New indexes use {own.get(str(promotion.folder), promotion.folder)}.")
        action_button("Back to the shipped model", _reset)


def _reset() -> None:
    from retriever.index import models

    models.reset()


_PARTS = {"index": ("Index", upkeep.draw), "installed": ("Installed", _installed), "train": ("Train", panel.draw)}

main()
