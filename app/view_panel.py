"""Draw what can be done with what the model has read under one instruction: read the rest, or drop it."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from retriever.core.results import IndexingReport, ViewStatus
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app import resources
from retriever_app.cluster_job import watch
from retriever_app.clusterings import ClusteringProgress
from retriever_app.components import attempt, show_problem
from retriever_app.view_models import clusters, text

_KEY = "view to keep up"


def draw_upkeep(index: Index, views: Sequence[ViewStatus]) -> None:
    """Draw the choice of an instruction, with what reads the rest of the reviews under it, and what drops it."""
    asked = {view.instruction: view for view in views if view.instruction}
    name = f"read {index.identity}"
    job = resources.jobs().find(name)
    if job is not None and not job.snapshot().over:
        watch(job)
        return
    if job is not None and (error := job.snapshot().error) is not None:
        show_problem(error)
    if not asked:
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = asked[st.selectbox("Instruction", list(asked), key=f"{_KEY} {hash(tuple(asked))}")]
        lacking = round((1 - chosen.coverage) * resources.status(index).texts)
        st.button(
            "Read the rest",
            on_click=partial(attempt, partial(_begin, index, name, chosen.instruction)),
            disabled=not lacking,
            help=_said(index, lacking) if lacking else "All reviews are read under this instruction.",
        )
        st.button(
            "Drop",
            on_click=partial(attempt, partial(index.drop_views, [chosen.instruction])),
            icon=":material/delete:",
            help="Frees its place on the disk. The reviews stay, and are read again when somebody asks.",
        )


def _said(index: Index, lacking: int) -> str:
    seconds = clusters.expected_seconds(resources.status(index), lacking)
    return f"{text.count(lacking, 'review')}, about {text.about(seconds)}"


def _begin(index: Index, name: str, instruction: str) -> None:
    resources.jobs().start(name, "The reading", lambda job: _read(job, index, instruction))


def _read(job: Job, index: Index, instruction: str) -> None:
    def tell(report: IndexingReport) -> None:
        job.check()
        share = report.in_hand / report.expected if report.expected else None
        job.tell(ClusteringProgress("Reading the reviews under the instruction", share))

    index.complete([instruction], progress=tell)
