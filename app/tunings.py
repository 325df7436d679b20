"""Teaches questions with the plain reader fine-tuned, as jobs, and shows how far they are and what ended them early."""

from collections.abc import Mapping
from functools import partial

import streamlit as st

from retriever.core.results import IndexingReport
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app import resources, state
from retriever_app.components import show_problem
from retriever_app.foreground import FOREGROUND
from retriever_app.view_models import teaching
from retriever_app.view_models.teaching import TuningProgress

TUNE = "fine-tune "
"""What the names of jobs begin with that fine-tune a plain reader; one of them runs at a time."""

_REFRESH_SECONDS = 1.0  # between looks at a job that goes on


def begin(index: Index, question: str, answers: Mapping[str, str]) -> None:
    """Begin to teach a question by answers to reviews, named by their ids, with the plain reader fine-tuned on them.

    Raises:
        RetrieverError: another fine-tuning goes on, of whatever index.
    """
    work = partial(_teach, index, question, list(answers.items()))
    resources.jobs().start(_name(index, question), f"The fine-tuning for “{question}”", work, alone=TUNE)


def going_on(index: Index) -> Job | None:
    """Return the fine-tuning of an index that goes on, for whatever question; None without one."""
    found = resources.jobs().named(_name(index)).values()
    return next((job for job in found if not job.snapshot().over), None)


def forget(index: Index, question: str) -> None:
    """Show no longer what ended the last fine-tuning for a question."""
    resources.jobs().forget(_name(index, question))


def show(index: Index, question: str, running: Job | None) -> None:
    """Draw how far a fine-tuning is, or what ended the last one for a question early.

    Args:
        index: what is taught.
        question: the page's.
        running: what `going_on` gave when the page began.
    """
    if running is not None:
        _watch(running)
        return
    job = resources.jobs().find(_name(index, question))
    ended = None if job is None else job.snapshot()
    if ended is not None and ended.error is not None:
        show_problem(ended.error)
    elif ended is not None and ended.status == "stopped":
        st.text(teaching.STOPPED)


def _name(index: Index, question: str = "") -> str:
    return f"{TUNE}{index.identity} {question}"


def _teach(index: Index, question: str, answers: list[tuple[str, str]], job: Job) -> None:
    tuned = False

    def tell(report: IndexingReport) -> None:
        nonlocal tuned
        tuned = tuned or report.tuning
        job.tell(teaching.tuning_progress(report, tuned=tuned))
        FOREGROUND.give_way(job.check)

    FOREGROUND.give_way(job.check)
    index.teach(question, answers, tune=True, progress=tell)


@st.fragment(run_every=_REFRESH_SECONDS)
def _watch(job: Job) -> None:
    """Draw how far a fine-tuning is, with what stops it; the page is drawn again when it is over."""
    snapshot = job.snapshot()
    if snapshot.over:
        state.rerun()
    progress: TuningProgress = snapshot.progress or teaching.TUNING_BEGINS
    with st.container(border=True):
        st.text(f"{job.title} takes minutes. The other pages go on working meanwhile.")
        st.progress(progress.share, text=progress.sentence)
        stopping = snapshot.status == "stopping"
        st.button("Stop", key="stop fine-tuning", on_click=job.stop, disabled=stopping, icon=":material/stop_circle:")
