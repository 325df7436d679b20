"""Shows saved clusterings, and sorts reviews into categories, as jobs: both may have to read reviews first."""

from dataclasses import dataclass

import streamlit as st

from retriever.clusters.groups import Groups, saved_groups
from retriever.clusters.saved import SavedClustering
from retriever.core.results import IndexingReport
from retriever.index.indexing import OnIndexing
from retriever.serving.jobs import Job, Work
from retriever.workspace import Index
from retriever_app import resources
from retriever_app.cluster_job import watch
from retriever_app.clusterings import JUDGING, READING, ClusteringProgress
from retriever_app.components import show_problem
from retriever_app.view_models.topics import Topics, topics

_WAIT_SECONDS = 0.6  # a page waits, so that what is quick shows no progress


@dataclass(frozen=True, slots=True)
class Shown:
    """A saved clustering as it is now, as its page shows it, and its groups, which numbers are of."""

    found: SavedClustering
    page: Topics
    groups: Groups


def saved(index: Index, name: str) -> Shown | None:
    """Return a saved clustering as it is now; None where the page shows how far it is, or why there is none."""
    holding = [(one.number, one.undone) for one in index.history(name)]
    return _ready(
        f"clusters saved {index.identity}",
        f"{name} {index.revision} {holding[-1:]} {sum(undone is None for _, undone in holding)}",
        "Saved clusters",
        lambda job: _shown(index.saved_clustering(name, progress=_telling(job))),
    )


def _shown(found: SavedClustering) -> Shown:
    return Shown(found, topics(found), saved_groups(found))


def classify(index: Index, name: str, instruction: str, into: str, *, several: bool) -> None:
    """Begin to sort all reviews into categories that are saved under a name.

    Raises:
        UsageError: the name is taken, or the categories cannot be told apart.
    """
    from retriever.clusters.categories import read_categories

    index.store.clusterings.check_name(name)
    categories = read_categories(into)

    def work(job: Job) -> None:
        found = index.classify(instruction, categories, several=several, progress=_telling(job))
        index.save_classification(name, found)

    resources.jobs().start(_sorting(index), "Categories", work)


def sorting(index: Index) -> bool:
    """Show how far categories are that somebody asked for, or why they failed; return whether they go on."""
    name = _sorting(index)
    job = resources.jobs().find(name)
    if job is None:
        return False
    snapshot = job.wait(_WAIT_SECONDS)
    if not snapshot.over:
        watch(job)
        return True
    if snapshot.error is not None:
        show_problem(snapshot.error)
    resources.jobs().forget(name)
    return False


def _ready(prefix: str, rest: str, title: str, work: Work) -> Shown | None:
    jobs, name = resources.jobs(), f"{prefix} {rest}"
    jobs.forget_others(prefix, name)
    job = jobs.find(name) or jobs.join(name, title, work)
    snapshot = job.wait(_WAIT_SECONDS)
    if not snapshot.over:
        watch(job)
        return None
    if snapshot.status == "done":
        found: Shown = snapshot.result
        return found
    if snapshot.error is not None:
        show_problem(snapshot.error)
    st.button("Go on", type="primary", on_click=lambda: jobs.forget(name))
    return None


def _sorting(index: Index) -> str:
    return f"clusters sorted {index.identity}"


def _telling(job: Job) -> OnIndexing:
    """Return what tells the share of texts that is read, and ends where the job is stopped."""
    job.tell(ClusteringProgress(READING))

    def tell(report: IndexingReport) -> None:
        job.check()
        share = report.in_hand / report.expected if report.expected else None
        job.tell(ClusteringProgress(JUDGING if report.judging else READING, share))

    return tell
