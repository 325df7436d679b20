"""The models on the page Models: which are installed, and which of them new indexes use."""

import streamlit as st

from retriever.index.model_names import read_promotion
from retriever_app import resources
from retriever_app.components import action_button, showing_problems
from retriever_app.pages.models import model


def draw() -> None:
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
