"""Models: what an index was read with and whether it is whole, what is installed, and new models from rows."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from retriever.core.results import ViewStatus
from retriever.index.model_names import read_promotion
from retriever.index.upkeep import repair, verify
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app import readers, resources, state, text
from retriever_app.background import READING, expected_seconds, promise, reporting
from retriever_app.components import action_button, ended, facts, showing_problems, watch
from retriever_app.pages.models import model
from retriever_app.pages.models.model import Shown
from retriever_app.training import panel


def main() -> None:
    """Draw the page."""
    shown = state.current(Shown).part
    st.segmented_control(
        "Show",
        list(_PARTS),
        key=state.key(Shown, "part"),
        format_func=lambda part: _PARTS[part][0],
        label_visibility="collapsed",
        required=True,
    )
    _PARTS[shown][1]()


def _installed() -> None:
    """Draw which model new indexes use, and the names of all."""
    with showing_problems():
        promotion = read_promotion()
        if promotion is None:
            st.text("New indexes use the shipped model.")
        else:
            own = resources.trainings().models()
            with st.container(horizontal=True, vertical_alignment="center"):
                st.text(f"New indexes use {own.get(str(promotion.folder), promotion.folder)}.")
                action_button("Back to the shipped model", _reset)
    st.subheader("Encoders")
    st.dataframe(model.encoder_rows(), hide_index=True)
    st.subheader("Backbones")
    st.dataframe(model.backbone_rows(), hide_index=True)


def _reset() -> None:
    from retriever.index import models

    models.reset()


def _index() -> None:
    """Draw what an index holds; a damaged one can still be checked and repaired."""
    path = resources.needed_path()
    with showing_problems():
        _describe()
    st.subheader("Integrity")
    _check(path)


def _describe() -> None:
    index = resources.needed_index()
    status = index.status()
    facts(model.index_facts(status))
    st.subheader("Questions")
    st.caption(
        "The model reads every review once for each question. After that, searches and clusters under the question "
        "need no waiting."
    )
    for name, job in resources.jobs().named(f"groups {index.identity} ").items():  # which read reviews too
        if not job.over:
            watch(job, name)
    st.dataframe(
        model.view_rows(status.views),
        hide_index=True,
        column_config={
            "question": st.column_config.TextColumn(width="medium"),
            "read": st.column_config.ProgressColumn(format="percent", min_value=0, max_value=1, width=80),
            "followed": st.column_config.TextColumn(width=90, help="Whether the model follows the question."),
        },
    )
    _upkeep(index, status.views)
    with st.expander("Models and vectors", icon=":material/memory:"):
        if status.plain is not None:
            st.caption("The base encoder serves searches without a question.")
            facts(model.model_facts(status.plain))
            st.caption("The instruction encoder serves searches and clusters under a question.")
        facts(model.model_facts(status.encoder))
        st.dataframe(model.detail_rows(status.views), hide_index=True)


def _upkeep(index: Index, views: Sequence[ViewStatus]) -> None:
    """Draw what can be done with the vectors of an instruction: read the remaining reviews, or delete them."""
    own = list(dict.fromkeys(view.instruction for view in views if view.instruction))
    name = f"read {index.identity}"
    job = resources.jobs().find(name)
    if (job is not None and ended(job) is None) or not own:
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        instruction = st.selectbox("Question to complete or delete", own, key=f"view to keep up {hash(tuple(own))}")
        lacking = len(index.upkeep.lacking([instruction]))
        judged = index.teaching.verdict(instruction) is None
        takes = promise(expected_seconds(resources.status(index), lacking, judged=judged))
        by_itself = readers.reads(index.teaching.reader(instruction))
        nothing = "A language model reads reviews when a page needs them." if by_itself else "All reviews are read."
        read = lambda job: index.upkeep.complete([instruction], progress=reporting(job, READING))  # noqa: E731
        begin = partial(resources.jobs().start, name, "Reading", read)
        action_button(
            "Read the remaining reviews",
            begin,
            disabled=not lacking,
            help=f"The model reads {text.count(lacking, 'review')}{takes}." if lacking else nothing,
        )
        action_button(
            "Delete",
            partial(index.upkeep.drop_views, [instruction]),
            icon=":material/delete:",
            help="Frees disk space. The reviews stay. The model reads them again when a page needs them.",
        )


def _check(path: Path) -> None:
    """Draw the check of every file and row, and the repair of what it finds."""
    jobs, checking, repairing = resources.jobs(), f"verify {path}", f"repair {path}"
    busy = any(job is not None and not job.over for job in map(jobs.find, (checking, repairing)))
    if st.button("Check for damage", disabled=busy, icon=":material/verified:"):
        jobs.forget(repairing)
        described = resources.encoders().described
        jobs.start(checking, "Checking the index", lambda job: verify.verify(path, deep=True, load=described))
    checked, repaired = jobs.find(checking), jobs.find(repairing)
    if repaired is not None:
        _outcome(repaired, model.repaired)
    elif checked is not None:
        _outcome(checked, model.verified)
        verification = checked.snapshot().result
        if verification is not None and not verification.whole:
            begin = partial(jobs.start, repairing, "Repairing the index", lambda job: repair.repair(path))
            action_button("Repair", begin, type="primary")


def _outcome(job: Job, describe: Callable[[Any], list[str]]) -> None:
    snapshot = ended(job, job.title)
    if snapshot is not None and snapshot.result is not None:
        for sentence in describe(snapshot.result):
            st.text(sentence)
        st.caption(f"Ended {text.seconds(snapshot.idle)} ago.")


_PARTS = {"index": ("Index", _index), "installed": ("Installed", _installed), "train": ("Train", panel.draw)}

main()
