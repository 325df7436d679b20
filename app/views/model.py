"""Model and index: what is loaded, its views, and whether all is well."""

import streamlit as st

from retriever_app import frame, resources
from retriever_app.components import facts, no_index
from retriever_app.view_models import model

st.title("Model and index")
index = frame.chosen_index()
if index is None:
    no_index()
    st.stop()

status = resources.status(index)
facts(model.index_facts(status))
st.subheader("Model")
facts(model.model_facts(status.encoder))
st.subheader("Views")
st.dataframe(
    model.view_rows(status.views),
    hide_index=True,
    column_config={"coverage": st.column_config.ProgressColumn(format="percent", min_value=0, max_value=1)},
)
