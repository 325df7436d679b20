"""Whether the model follows an instruction, beside the instruction: as it is stored, or checked by a job meanwhile."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from retriever.core.errors import RetrieverError
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app import resources, state, text
from retriever_app.background import FOREGROUND, JUDGING, reporting
from retriever_app.components import action_button, ended
from retriever_app.pages.teach.model import TaughtQuestion
from retriever_app.resources import Chosen
from retriever_app.text import VerdictLine

if TYPE_CHECKING:
    from retriever.clusters.clustering import Clustering

DIAGNOSE = "diagnose "
"""Prefix of the names of jobs that check an instruction; one of them runs at a time."""

_REFRESH_SECONDS = 1.0  # between looks at a job that goes on


def show_verdict(
    index: Index,
    instruction: str | None,
    *,
    of: "Clustering | None" = None,
    ready: bool = True,
    boxed: bool = False,
    beside: Callable[[], None] = lambda: None,
) -> None:
    """Draw the verdict on an instruction; where there is none yet, begin to check it, and show how far that is.

    Args:
        index: whose model it is.
        instruction: the instruction; nothing is drawn without one.
        of: groups that are shown, which may be of what served the instruction before; None for what serves it now.
        ready: whether the page's own work is done, so that the view has filled.
        boxed: whether a verdict that warns stands in a box; style.css keeps it low.
        beside: draws another way to an answer beside a verdict that warns.
    """
    instruction = (instruction or "").strip()
    if not instruction:
        return
    line = _line(index, instruction, of)
    if line is not None:
        _show_line(instruction, line, box="boxed verdict" if boxed and line.warns else None, beside=beside)
        return
    name = f"{DIAGNOSE}{index.identity} view {instruction}"
    job = resources.jobs().find(name)
    if job is None and ready and index.teaching.wants_verdict(instruction):
        try:
            work = partial(_check, index, instruction)
            job = resources.jobs().start(name, "Checking the question", work, alone=DIAGNOSE)
        except RetrieverError:  # that of another instruction goes on; then it is this one's turn
            _await_turn()
    if job is not None:
        _show_job(job, name)


def _line(index: Index, instruction: str, of: "Clustering | None") -> VerdictLine | None:
    """Return the line beside a question: what it was taught, or the verdict; None where nobody has checked yet."""
    lessons = resources.lessons(index, instruction) if of is None else of.lessons
    if lessons is not None:
        return text.taught_line(lessons)
    verdict = (None if of is None else of.verdict) or index.teaching.verdict(instruction)
    return None if verdict is None else text.verdict_line(verdict)


@st.fragment(run_every=_REFRESH_SECONDS)
def _await_turn() -> None:
    """Say that another diagnosis goes on; the page is drawn again when it is over."""
    if all(other.over for other in resources.jobs().named(DIAGNOSE).values()):
        state.rerun()
    st.caption("Whether the model follows this question is checked after another question.")


def _show_line(instruction: str, line: VerdictLine, box: str | None, beside: Callable[[], None]) -> None:
    answers = text.plain(line.answers)
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key=box):
        if box:
            st.warning(text.plain(line.sentence), icon=line.icon)
        else:
            st.caption(f"{line.icon} {text.plain(line.sentence)}", help=answers)
        if line.link:
            page, icon = state.params(TaughtQuestion(instruction), state.current(Chosen)), ":material/school:"
            hint = answers if box else None
            st.page_link("teach/view.py", label=line.link, icon=icon, query_params=page, help=hint)
        if line.warns:
            beside()


def _check(index: Index, instruction: str, job: Job) -> None:
    give_way = partial(FOREGROUND.give_way, job.check)
    report = reporting(job, JUDGING, check=give_way, first=JUDGING)
    give_way()
    index.teaching.judge(instruction, progress=report)


def _show_job(job: Job, name: str) -> None:
    snapshot = ended(job, "verdict")
    if snapshot is not None and snapshot.status == "stopped":
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption("Nobody has checked yet whether the model follows this question.")
            forget = partial(resources.jobs().forget, name)
            action_button("Check", forget, key=f"again {name}", type="tertiary")
