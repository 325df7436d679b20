"""Whether the model follows an instruction, beside the instruction: as it is stored, or found by a job meanwhile."""

import streamlit as st

from retriever.core.errors import RetrieverError
from retriever.core.results import IndexingReport
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app import resources, state
from retriever_app.components import attempt, show_problem
from retriever_app.view_models import text, verdicts

DIAGNOSE = "diagnose "
"""What the names of jobs begin with that look into an instruction; one of them runs at a time."""

_REFRESH_SECONDS = 1.0  # between looks at a job that goes on


def show_verdict(index: Index, instruction: str, *, ready: bool = True) -> None:
    """Draw the verdict on an instruction; where there is none yet, begin to find it out, and show how far that is.

    Args:
        index: what is asked.
        instruction: what is asked; nothing is drawn without one.
        ready: whether what is asked has been answered, so that its view has filled.
    """
    if not instruction.strip():
        return
    if (found := index.verdict(instruction)) is not None:
        said = verdicts.line(found)
        st.caption(f"{said.icon} {text.plain(said.sentence)}", help=text.plain(said.answers))
        return
    name = f"{DIAGNOSE}{index.identity} view {instruction.strip()}"
    job = resources.jobs().find(name)
    if job is None and ready and index.wants_verdict(instruction):
        if any(not other.snapshot().over for other in resources.jobs().named(DIAGNOSE).values()):
            return  # the page is drawn again some time; then it is this one's turn
        job = resources.jobs().start(name, "The diagnosis", lambda job: _look(job, index, instruction), alone=DIAGNOSE)
    if job is not None:
        _show_job(job, name)


def _look(job: Job, index: Index, instruction: str) -> None:
    def tell(report: IndexingReport) -> None:
        job.check()
        job.tell(report.in_hand / max(report.expected or 1, 1))

    index.judge(instruction, progress=tell)


def _show_job(job: Job, name: str) -> None:
    snapshot = job.snapshot()
    if not snapshot.over:
        _watch(job)
    elif isinstance(snapshot.error, RetrieverError):
        show_problem(snapshot.error)
    elif snapshot.status == "stopped":
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption("Nobody has looked yet whether the model follows this instruction.")
            again = resources.jobs().forget
            st.button(
                "Look into it", key=f"again {name}", on_click=attempt, args=(lambda: again(name),), type="tertiary"
            )


@st.fragment(run_every=_REFRESH_SECONDS)
def _watch(job: Job) -> None:
    """Draw how far a diagnosis is, with what stops it; the page is drawn again when it is over."""
    snapshot = job.snapshot()
    if snapshot.over:
        state.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Checking whether the model follows this instruction …")
        st.progress(float(snapshot.progress or 0.0))
        st.button("Stop", key="stop verdict", on_click=job.stop, icon=":material/stop:", type="tertiary")
