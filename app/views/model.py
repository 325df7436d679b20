"""Model and index: what is loaded, its views, whether the model obeys an instruction, and whether all is whole."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from retriever.evaluation.run import diagnosing
from retriever.index.durability import repair, verify
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app import frame, resources, state
from retriever_app.components import attempt, facts, instruction_box, no_index, show_attempt, show_problem, told
from retriever_app.view_models import model, search, text
from retriever_app.view_models.model import Diagnosed

EVERY = 1.0
_DIAGNOSE = "diagnose "


def main() -> None:
    """Draw the page; a damaged index can still be checked and mended."""
    st.title("Model and index")
    show_attempt()
    path = frame.chosen_path()
    if path is None:
        no_index()
        return
    with told():
        _describe()
    st.subheader("Is it whole?")
    _check(path)


def _describe() -> None:
    index = frame.chosen_index()
    if index is None:
        return
    status = resources.status(index)
    facts(model.index_facts(status))
    if status.plain is None:
        st.subheader("Model")
    else:
        st.subheader("Model that reads reviews as they are")
        st.caption("It answers searches without an instruction, and draws candidates for the others.")
        facts(model.model_facts(status.plain))
        st.subheader("Model that follows instructions")
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


def _check(path: Path) -> None:
    """Draw the check of every file and row, and the repair of what it finds."""
    jobs, checking, mending = resources.jobs(), f"verify {path}", f"repair {path}"
    busy = any(job is not None and not job.snapshot().over for job in map(jobs.find, (checking, mending)))
    if st.button("Check every file and row", disabled=busy, icon=":material/verified:"):
        jobs.forget(mending)
        jobs.start(checking, "The check", lambda job: _verified(path))
    checked, mended = jobs.find(checking), jobs.find(mending)
    if mended is not None:
        _outcome(mended, model.repaired)
    elif checked is not None:
        _outcome(checked, model.verified)
        found = checked.snapshot().result
        if found is not None and not found.whole:
            st.button("Mend it", type="primary", on_click=attempt, args=(partial(_mend, mending, path),))


def _verified(path: Path) -> verify.Verification:
    """Check every row too, and embed a sample of the texts again with the index's encoder, which is loaded once."""
    return verify.verify(path, deep=True, load=resources.encoders().described)


def _mend(name: str, path: Path) -> None:
    resources.jobs().start(name, "The repair", lambda job: repair.repair(path))


def _outcome(job: Job, told_as: Callable[[Any], list[str]]) -> None:
    snapshot = job.snapshot()
    if not snapshot.over:
        _watch(job, f"{job.title} is going on.")
    elif snapshot.error is not None:
        show_problem(snapshot.error)
    else:
        for sentence in told_as(snapshot.result):
            st.text(sentence)


def _diagnose(index: Index, suggestions: list[str]) -> None:
    state.current(Diagnosed)
    asked = instruction_box(state.key(Diagnosed, "diagnose"), suggestions)
    jobs, mine = resources.jobs(), f"{_DIAGNOSE}{index.identity} "
    name = f"{mine}{asked}"
    job = jobs.find(name)
    running = [other for other in jobs.named(_DIAGNOSE).values() if not other.snapshot().over]
    if running and job not in running:
        _watch(running[0], "Another instruction is being looked into; one is at a time.")
    if st.button("Look into it", type="primary", disabled=not asked or bool(running)):
        jobs.forget_others(mine, name)
        job = jobs.start(name, "The diagnosis", lambda job: _look(index, asked), alone=_DIAGNOSE)
    if job is not None:
        _diagnosis(job)


def _look(index: Index, instruction: str) -> diagnosing.Diagnosis:
    texts = diagnosing.index_texts(index, diagnosing.SAMPLE)
    return diagnosing.diagnose(index.encoder, texts, instruction)


def _diagnosis(job: Job) -> None:
    snapshot = job.snapshot()
    if not snapshot.over:
        _watch(job, f"Reading {diagnosing.SAMPLE} reviews under ten instructions; this takes minutes.")
    elif snapshot.error is not None:
        show_problem(snapshot.error)
    else:
        st.markdown(f"**{text.plain(model.verdict(snapshot.result))}**")
        for sentence in model.evidence(snapshot.result):
            st.text(sentence)


@st.fragment(run_every=EVERY)
def _watch(job: Job, what: str) -> None:
    snapshot = job.snapshot()
    if snapshot.over:
        st.rerun()
    st.text(f"{what} {text.seconds(snapshot.seconds)}")


main()
