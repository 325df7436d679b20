"""Whether the model follows an instruction, beside the instruction: as it is stored, or found by a job meanwhile."""

from functools import partial

import streamlit as st

from retriever.core.errors import RetrieverError
from retriever.core.results import IndexingReport
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app import resources, state
from retriever_app.components import attempt, show_problem
from retriever_app.foreground import FOREGROUND
from retriever_app.frame import Chosen
from retriever_app.view_models import text, verdicts
from retriever_app.view_models.teaching import TaughtQuestion
from retriever_app.view_models.verdicts import VerdictLine

DIAGNOSE = "diagnose "
"""What the names of jobs begin with that look into an instruction; one of them runs at a time."""

_REFRESH_SECONDS = 1.0  # between looks at a job that goes on


def show_verdict(index: Index, instruction: str, *, ready: bool = True, place: str = "") -> None:
    """Draw the verdict on an instruction; where there is none yet, begin to find it out, and show how far that is.

    Args:
        index: what is asked.
        instruction: what is asked; nothing is drawn without one.
        ready: whether what is asked has been answered, so that its view has filled.
        place: tells this verdict from another on the page, which may be on the same instruction.
    """
    if not instruction.strip():
        return
    said = _line(index, instruction.strip())
    if said is not None:
        _show_line(instruction, said)
        return
    name = f"{DIAGNOSE}{index.identity} view {instruction.strip()}"
    job = resources.jobs().find(name)
    if job is None and ready and index.wants_verdict(instruction):
        try:
            work = partial(_look, index, instruction)
            job = resources.jobs().start(name, "The diagnosis", work, alone=DIAGNOSE)
        except RetrieverError:  # one of another instruction goes on; then it is this one's turn
            _await_turn()
    if job is not None:
        _show_job(job, name, place)


def _line(index: Index, asked: str) -> VerdictLine | None:
    """Return the line beside a question: what it was taught, or the verdict; None where nobody has looked yet."""
    lessons = next((one.taught for one in resources.status(index).views if one.instruction == asked), None)
    if lessons is not None:
        return verdicts.taught_line(lessons)
    found = index.verdict(asked)
    return None if found is None else verdicts.line(found)


@st.fragment(run_every=_REFRESH_SECONDS)
def _await_turn() -> None:
    """Say that another diagnosis goes on; the page is drawn again when it is over."""
    if all(other.snapshot().over for other in resources.jobs().named(DIAGNOSE).values()):
        state.rerun()
    st.caption("Whether the model follows this instruction is looked into after another one.")


def _show_line(instruction: str, said: VerdictLine) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"{said.icon} {text.plain(said.sentence)}", help=text.plain(said.answers))
        if said.link:
            asked = state.params(TaughtQuestion(instruction.strip()), state.current(Chosen))
            st.page_link("views/teach.py", label=said.link, icon=":material/school:", query_params=asked)


def _look(index: Index, instruction: str, job: Job) -> None:
    def tell(report: IndexingReport) -> None:
        job.tell(report.in_hand / max(report.expected or 1, 1))
        FOREGROUND.give_way(job.check)

    FOREGROUND.give_way(job.check)
    index.judge(instruction, progress=tell)


def _show_job(job: Job, name: str, place: str) -> None:
    snapshot = job.snapshot()
    if not snapshot.over:
        _watch(job, place)
    elif isinstance(snapshot.error, RetrieverError):
        show_problem(snapshot.error)
    elif snapshot.status == "stopped":
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption("Nobody has looked yet whether the model follows this instruction.")
            again, key = resources.jobs().forget, f"again {place} {name}"
            st.button("Look into it", key=key, on_click=attempt, args=(lambda: again(name),), type="tertiary")


@st.fragment(run_every=_REFRESH_SECONDS)
def _watch(job: Job, place: str) -> None:
    """Draw how far a diagnosis is, with what stops it; the page is drawn again when it is over."""
    snapshot = job.snapshot()
    if snapshot.over:
        state.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Checking whether the model follows this instruction …")
        st.progress(float(snapshot.progress or 0.0))
        stopping = snapshot.status == "stopping"
        key = f"stop verdict {place}"
        st.button("Stop", key=key, on_click=job.stop, disabled=stopping, icon=":material/stop:", type="tertiary")
