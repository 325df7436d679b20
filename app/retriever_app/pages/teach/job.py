"""Teaches questions with the base encoder fine-tuned, as jobs; they outlive the page that began them."""

from functools import partial

import streamlit as st

from retriever.core.results import IndexingReport
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app import resources
from retriever_app.background import FOREGROUND
from retriever_app.components import ended, watch
from retriever_app.pages.teach import model

TUNE = "fine-tune "
"""Prefix of the names of jobs that fine-tune a base encoder; one of them runs at a time."""


def begin(index: Index, question: str) -> None:
    """Begin to teach a question by the labels that the index keeps, with the base encoder fine-tuned on them.

    Raises:
        RetrieverError: another fine-tuning goes on, of whatever index.
    """
    title, work = f"The fine-tuning for “{question}”", partial(_teach, index, question)
    resources.jobs().start(_name(index, question), title, work, alone=TUNE)


def going_on(index: Index) -> Job | None:
    """Return the fine-tuning of an index that goes on, for whatever question; None without one."""
    jobs = resources.jobs().named(_name(index)).values()
    return next((job for job in jobs if not job.over), None)


def forget(index: Index, question: str) -> None:
    """Show no longer how the last fine-tuning for a question ended."""
    resources.jobs().forget(_name(index, question))


def show(index: Index, question: str, running: Job | None) -> None:
    """Draw how far the fine-tuning that runs is, or why the last one for a question ended early."""
    if running is not None:
        st.text(f"{running.title} takes minutes. You can use the other pages meanwhile.")
        watch(running, "fine-tuning")
        return
    job = resources.jobs().find(_name(index, question))
    snapshot = None if job is None else ended(job, "fine-tuning")
    if snapshot is not None and snapshot.status == "stopped":
        st.text("The fine-tuning was stopped, and nothing was changed.")


def _name(index: Index, question: str = "") -> str:
    return f"{TUNE}{index.identity} {question}"


def _teach(index: Index, question: str, job: Job) -> None:
    tuned = False

    def report(done: IndexingReport) -> None:
        nonlocal tuned
        tuned = tuned or done.tuning
        job.tell(model.tuning_progress(done, tuned=tuned))
        FOREGROUND.give_way(job.check)

    FOREGROUND.give_way(job.check)
    index.teaching.teach(question, tune=True, progress=report)
