"""Model and index: what is loaded, its views, whether the model follows an instruction, and whether all is whole."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from retriever.evaluation.run import diagnosing
from retriever.index.durability import repair, verify
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app import frame, resources, state, view_panel
from retriever_app.components import attempt, facts, instruction_box, show_attempt, show_problem, told
from retriever_app.verdicts import DIAGNOSE
from retriever_app.view_models import model, search, text
from retriever_app.view_models.model import Diagnosed

_DIAGNOSIS = "The diagnosis"
_REFRESH_SECONDS = 1.0  # between looks at a job that goes on


def main() -> None:
    """Draw the page; a damaged index can still be checked and mended."""
    st.title("Model and index")
    show_attempt()
    path = frame.needed_path()
    with told():
        _describe()
    st.subheader("Is it whole?")
    _check(path)


def _describe() -> None:
    index = frame.needed_index()
    status = resources.status(index)
    facts(model.index_facts(status))
    st.subheader("What was read")
    st.caption("The model reads the reviews once for every instruction. Where all are read, answers come at once.")
    st.dataframe(
        model.view_rows(status.views),
        hide_index=True,
        column_config={"read": st.column_config.ProgressColumn(format="percent", min_value=0, max_value=1)},
    )
    view_panel.draw_upkeep(index, status.views)
    with st.expander("Models and vectors", icon=":material/memory:"):
        if status.plain is not None:
            st.caption("It reads reviews as they are: for searches without an instruction, and to draw candidates.")
            facts(model.model_facts(status.plain))
            st.caption("It follows instructions.")
        facts(model.model_facts(status.encoder))
        st.dataframe(model.detail_rows(status.views), hide_index=True)
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
            mend = partial(jobs.start, mending, "The repair", lambda job: repair.repair(path))
            st.button("Mend it", type="primary", on_click=attempt, args=(mend,))


def _verified(path: Path) -> verify.Verification:
    """Check every row too, and embed a sample of the texts again with the index's encoder, which is loaded once."""
    return verify.verify(path, deep=True, load=resources.encoders().described)


def _outcome(job: Job, told_as: Callable[[Any], list[str]]) -> None:
    if (result := _result(job, f"{job.title} is going on.")) is not None:
        for sentence in told_as(result):
            st.text(sentence)


def _diagnose(index: Index, suggestions: list[str]) -> None:
    state.current(Diagnosed)
    asked = instruction_box(state.key(Diagnosed, "diagnose"), suggestions)
    jobs, mine = resources.jobs(), f"{DIAGNOSE}{index.identity} "
    name = f"{mine}{asked}"
    job = jobs.find(name)
    running = [other for other in jobs.named(DIAGNOSE).values() if not other.snapshot().over]
    if running and job not in running:
        _watch(running[0], "Another instruction is being looked into; one is at a time.")
    if st.button("Look into it", type="primary", disabled=not asked or bool(running)):
        jobs.forget_others(mine, name)
        job = jobs.start(name, _DIAGNOSIS, lambda job: _look(job, index, asked), alone=DIAGNOSE)
    if job is not None:
        _diagnosis(job)


def _look(job: Job, index: Index, instruction: str) -> diagnosing.Diagnosis:
    def told(done: int, texts: int) -> None:
        job.check()
        job.tell(done / texts)

    texts, readers = diagnosing.index_texts(index, diagnosing.DIAGNOSED_TEXTS), index.readers
    plain = readers.base if readers.two else None
    return diagnosing.diagnose(readers.question, texts, instruction, plain=plain, on_texts=told)


def _diagnosis(job: Job) -> None:
    doing = f"Reading up to {diagnosing.DIAGNOSED_TEXTS} reviews under seven instructions."
    if (found := _result(job, doing)) is not None:
        st.markdown(f"**{text.plain(model.verdict(found))}**")
        for sentence in model.evidence(found):
            st.text(sentence)


def _result(job: Job, doing: str) -> Any:  # noqa: ANN401 - what the job's work returns
    """Return a job's result; None where it still goes on, or failed, which is shown."""
    snapshot = job.snapshot()
    if not snapshot.over:
        _watch(job, doing)
    elif snapshot.error is not None:
        show_problem(snapshot.error)
    return snapshot.result


@st.fragment(run_every=_REFRESH_SECONDS)
def _watch(job: Job, what: str) -> None:
    snapshot = job.snapshot()
    if snapshot.over:
        st.rerun()
    st.text(f"{what} {text.seconds(snapshot.seconds)}")
    if job.title != _DIAGNOSIS:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(float(snapshot.progress or 0.0))
        st.button("Stop", key="stop diagnosis", on_click=job.stop, icon=":material/stop:", type="tertiary")


main()
