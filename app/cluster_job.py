"""Begins clusterings as jobs, and shows how far they are and why they ended."""

import hashlib
from collections.abc import Sequence

import streamlit as st

from retriever.serving.jobs import Job, Snapshot
from retriever.workspace import Index
from retriever_app import resources, state
from retriever_app.clusterings import ClusteringProgress, Drawn
from retriever_app.components import show_problem
from retriever_app.view_models import clusters, text
from retriever_app.view_models.grouping import Ask

_REFRESH_SECONDS = 0.5  # between looks at a clustering that is worked out
_WAIT_SECONDS = 0.6  # a page waits, so that what is quick shows no progress
_GO = "clusters: go"


def go() -> None:
    """Begin the page's clustering without asking, however long it takes: the user has asked for it."""
    st.session_state[_GO] = True


def ready(index: Index, asks: Sequence[Ask], *, mapped: bool) -> list[Drawn] | None:
    """Return clusterings of the same reviews, with their maps where wanted; else begin them or show how they stand."""
    jobs, name = resources.jobs(), f"clusters {index.identity} {_digest(asks, mapped)}"
    wanted = st.session_state.pop(_GO, False)
    found = _known(index, asks, mapped=mapped)
    if found is not None:
        jobs.forget(name)
        return found
    job = jobs.find(name)
    if job is None or (wanted and job.snapshot().over):
        if not wanted and not _is_quick(index, asks):
            return None
        job = jobs.join(name, "Clustering", resources.clusterings().work(index, asks, mapped=mapped))
    snapshot = job.wait(_WAIT_SECONDS)
    if not snapshot.over:
        watch(job)
        return None
    found = _known(index, asks, mapped=mapped) if snapshot.status == "done" else None
    if found is None:
        _ended(snapshot)
    return found


def _known(index: Index, asks: Sequence[Ask], *, mapped: bool) -> list[Drawn] | None:
    found = [drawn for ask in asks if (drawn := resources.clusterings().find(index, ask, mapped=mapped))]
    return found if len(found) == len(asks) else None


def _is_quick(index: Index, asks: Sequence[Ask]) -> bool:
    """Return whether little has to be read first; else say how long it takes, and let the user begin it."""
    with st.spinner("Looking at what has been read …", show_time=True):
        lacking = len(resources.clusterings().lacking(index, asks))
    seconds = clusters.expected_seconds(resources.status(index), lacking)
    if seconds <= clusters.AT_ONCE:
        return True
    with st.container(border=True):
        st.text(
            f"{text.count(lacking, 'review')} must be read under this instruction first. That takes about "
            f"{text.about(seconds)}. The other pages go on working meanwhile, and what is read is kept."
        )
        st.button("Read and cluster", type="primary", on_click=go)
    return False


def _ended(snapshot: Snapshot) -> None:
    """Say why a job ended without what was wanted."""
    if snapshot.error is not None:
        show_problem(snapshot.error)
    elif snapshot.status == "stopped":
        st.text("Stopped. What was read so far is kept.")
    else:
        st.text("The reviews have changed meanwhile.")
    st.button("Go on" if snapshot.status == "stopped" else "Cluster again", type="primary", on_click=go)


@st.fragment(run_every=_REFRESH_SECONDS)
def watch(job: Job) -> None:
    """Show how far a clustering is, and draw the page again when it is over."""
    snapshot = job.snapshot()
    if snapshot.over:
        state.rerun()
    progress: ClusteringProgress = snapshot.progress or ClusteringProgress("Beginning")
    share = progress.share
    left = f", about {text.about(snapshot.seconds * (1 - share) / share)} left" if share else ""
    said = " …" if share is None else f": {share:.0%}{left}"
    with st.container(border=True):
        st.progress(1.0 if share is None else share, text=f"{progress.doing}{said}")
        st.button("Stop", on_click=job.stop, disabled=snapshot.status == "stopping", icon=":material/stop_circle:")


def _digest(asks: Sequence[Ask], mapped: bool) -> str:
    return hashlib.sha256(repr((list(asks), mapped)).encode()).hexdigest()[:16]
