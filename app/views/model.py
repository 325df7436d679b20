"""Model and index: what is loaded, its views, and whether the model obeys an instruction."""

import streamlit as st

from retriever.services import diagnosing
from retriever.services.workspace import Index
from retriever_app import frame, resources, state
from retriever_app.components import facts, instruction_box, no_index, show_problem
from retriever_app.jobs import Job
from retriever_app.view_models import model, search, text
from retriever_app.view_models.model import Diagnosed

EVERY = 1.0


def main() -> None:
    """Draw the page."""
    index = frame.chosen_index()
    if index is None:
        no_index()
        return
    status = resources.status(index)
    st.title("Model and index")
    facts(model.index_facts(status))
    st.subheader("Model")
    facts(model.model_facts(status.encoder))
    st.subheader("Views")
    st.caption("A view is how the model reads the reviews under one instruction. Whole ones answer at once.")
    st.dataframe(
        model.view_rows(status.views),
        hide_index=True,
        column_config={"coverage": st.column_config.ProgressColumn(format="percent", min_value=0, max_value=1)},
    )
    st.subheader("Does the model follow an instruction?")
    _diagnose(index, search.suggestions(status.views))


def _diagnose(index: Index, suggestions: list[str]) -> None:
    state.current(Diagnosed)
    asked = instruction_box(state.key(Diagnosed, "diagnose"), suggestions)
    name = f"diagnose {index.path} {asked}"
    job = resources.jobs().find(name)
    running = job is not None and not job.snapshot().over
    if st.button("Look into it", type="primary", disabled=not asked or running):
        job = resources.jobs().start(name, "The diagnosis", lambda job: _look(index, asked))
    if job is not None:
        _diagnosis(job)


def _look(index: Index, instruction: str) -> diagnosing.Diagnosis:
    texts = diagnosing.index_texts(index, diagnosing.SAMPLE)
    return diagnosing.diagnose(index.encoder, texts, instruction)


def _diagnosis(job: Job) -> None:
    snapshot = job.snapshot()
    if not snapshot.over:
        _watch(job)
    elif snapshot.error is not None:
        show_problem(snapshot.error)
    else:
        st.markdown(f"**{text.plain(model.verdict(snapshot.result))}**")
        for sentence in model.evidence(snapshot.result):
            st.text(sentence)


@st.fragment(run_every=EVERY)
def _watch(job: Job) -> None:
    snapshot = job.snapshot()
    if snapshot.over:
        st.rerun()
    st.text(f"Reading {diagnosing.SAMPLE} reviews under ten instructions; this takes minutes. {snapshot.seconds:.0f} s")


main()
