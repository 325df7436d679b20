"""The work of the page Groups: clusterings, saved ones and categories, as jobs that all sessions share.

Clusterings are kept while the documents they are of stay as they are.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from retriever.clusters.clustering import Clustering
from retriever.clusters.edit_requests import ClusterEdits
from retriever.clusters.groups import Groups, groups_of
from retriever.clusters.index_numbers import numbers_of, usual_segments
from retriever.clusters.map import map_places
from retriever.clusters.report import make_report, model_names, render
from retriever.clusters.saved import SavedClustering
from retriever.core.types import Ids
from retriever.serving.jobs import Job, Snapshot, Work
from retriever.workspace import Index
from retriever_app import readers, reading, resources, text
from retriever_app.background import FOREGROUND, READING, Progress, reporting
from retriever_app.components import ended, show_problem, watch
from retriever_app.estimates import expected_seconds, promise
from retriever_app.pages.groups import model
from retriever_app.pages.groups.model import Ask, Part
from retriever_app.pages.groups.saved_model import Topics, topics

MOST_KEPT = 8
TITLING = "Naming the clusters"
_CLUSTERING = "Clustering the reviews"
_STOP_SECONDS = 0.2  # between looks at whether the job was stopped while it waits
_WAIT_SECONDS = 0.6  # a page waits, so that what is quick shows no progress
_GO = "clusters: go"
_numbers = count()


@dataclass(frozen=True, slots=True)
class Drawn:
    """A clustering with its map, and without its vectors, which only the map needs.

    The map's ``places`` (n, 2) between -1 and 1 are where the documents stand; ``nearness`` (n,) is that of each to its
    cluster's centre; ``number`` is one that no other has, to key what is worked out from it.
    """

    found: Clustering
    places: NDArray[np.float32]
    nearness: NDArray[np.float32]
    number: int

    def rows(self, part: Part) -> NDArray[np.int64]:
        """Return the rows of the documents of a part, those nearest to their cluster's centre first."""
        labels = self.found.labels
        rows = np.flatnonzero(np.isin(labels, part.clusters) if part.clusters else labels >= 0)
        return rows[np.argsort(-self.nearness[rows], kind="stable")]

    def ids(self, part: Part) -> frozenset[str]:
        """Return the ids of the documents of a part."""
        documents = self.found.material.documents
        return frozenset(documents[row].id for row in self.rows(part).tolist())


BY_NUMBER: dict[str | type[Any], Callable[[Any], int]] = {Drawn: lambda drawn: drawn.number}
"""Tells Streamlit's caches clusterings apart."""


@dataclass(frozen=True, slots=True)
class SavedPage:
    """A saved clustering as it is now, as its page shows it, and its groups, which numbers are of."""

    found: SavedClustering
    page: Topics
    groups: Groups


@dataclass(slots=True)
class _Kept:
    """A clustering with the revision of the index at which it was last seen to hold."""

    drawn: Drawn
    revision: int


class ClusteringCache:
    """The last clusterings, by index and request; of those that encoders read for, one is worked out at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, Ask], _Kept] = OrderedDict()

    def find(self, index: Index, ask: Ask) -> Drawn | None:
        """Return a clustering if it is known and its documents are still all there are."""
        ids: frozenset[str] | None = None
        if ask.within:
            parent = self.find(index, ask.parent)
            if parent is None:
                return None
            ids = parent.ids(ask.within[-1])
        name = (index.identity, reading.serving_name(index, ask.instruction), ask)
        with self._lock:
            kept = self._kept.get(name)
            if kept is not None:
                self._kept.move_to_end(name)
        if kept is None or kept.drawn.found.request.ids != ids:
            return None
        return kept.drawn if _holds(index, kept) else None

    def lacking(self, index: Index, ask: Ask) -> Ids:
        """Return the content ids of the texts to read first, for a clustering or the outermost one around it."""
        ids = None
        while ask.within:
            parent = self.find(index, ask.parent)
            if parent is not None:
                ids = parent.ids(ask.within[-1])
                break
            ask = ask.parent
        return index.upkeep.lacking([ask.instruction], where=ask.where if ids is None else None, ids=ids)

    def work(self, index: Index, ask: Ask) -> Work:
        """Return the work of a job after which `find` knows a clustering; stopped, it has kept whole batches."""

        def work(job: Job) -> None:
            job.tell(Progress("Waiting for another clustering"))
            with nullcontext() if asks(index, ask) else self._one_at_a_time(job):
                self._draw(job, index, ask)

        return work

    def _draw(self, job: Job, index: Index, ask: Ask) -> Drawn:
        """Return a clustering, worked out with those that it is within where they are not known."""
        drawn = self.find(index, ask)
        if drawn is not None:
            return drawn
        ids = self._draw(job, index, ask.parent).ids(ask.within[-1]) if ask.within else None
        _read(job, index, ask.instruction, ask.where, ids)
        job.check()
        where = None if ask.within else ask.where
        # A clustering that checks its own question waits for a check that goes on, which would give way to it.
        others = index.teaching.wants_verdict(ask.instruction) or asks(index, ask)
        watched = nullcontext() if others else FOREGROUND.waited_for()
        with watched:
            progress = reporting(job, READING, first=_CLUSTERING)
            clustering = index.cluster(
                ask.instruction, k=ask.groups or None, where=where, ids=ids, read=ask.read, progress=progress
            )
        job.check()
        job.tell(Progress("Drawing the map"))
        with FOREGROUND.waited_for():
            places = map_places(clustering)
        bare = replace(clustering, material=replace(clustering.material, vectors=clustering.material.vectors[:0]))
        drawn = Drawn(bare, places, clustering.nearness(), next(_numbers))
        self._keep(index, ask, drawn)
        return drawn

    def forget(self, index: Index, ask: Ask) -> None:
        """Drop a clustering, so that it is worked out again."""
        with self._lock:
            self._kept.pop((index.identity, reading.serving_name(index, ask.instruction), ask), None)

    def _keep(self, index: Index, ask: Ask, drawn: Drawn) -> None:
        name = (index.identity, reading.serving_name(index, ask.instruction), ask)
        with self._lock:
            self._kept[name] = _Kept(drawn, -1)
            self._kept.move_to_end(name)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)

    @contextmanager
    def _one_at_a_time(self, job: Job) -> Iterator[None]:
        while not self._turn.acquire(timeout=_STOP_SECONDS):
            job.check()
        try:
            yield
        finally:
            self._turn.release()


def asks(index: Index, ask: Ask) -> bool:
    """Whether a language model reads for a clustering: that waits for its endpoint, and holds nobody up."""
    return any(readers.reads(index.teaching.reader(each.instruction)) for each in ask.nested)


def go() -> None:
    """Begin the page's clustering without asking, however long it takes."""
    st.session_state[_GO] = True


def ready(index: Index, ask: Ask) -> Drawn | None:
    """Return a clustering with its map; else begin it or show how it stands."""
    jobs, name = resources.jobs(), job_name(index, ask)
    wanted = st.session_state.pop(_GO, False)
    drawn = resources.clusterings().find(index, ask)
    if drawn is not None:
        jobs.forget(name)
        if drawn.found.sampled is not None and drawn.found.sampled.fault:
            _may_read(index, ask)  # draws what is to be agreed to
        return drawn
    job = jobs.find(name)
    if job is None or (wanted and job.snapshot().over):
        if not all(_may_read(index, each) for each in ask.nested):
            return None
        if not wanted and not _is_quick(index, ask):
            return None
        job = jobs.join(name, "Clustering", resources.clusterings().work(index, ask))
    snapshot = job.wait(_WAIT_SECONDS)
    if not snapshot.over:
        watch(job)
        return None
    drawn = resources.clusterings().find(index, ask) if snapshot.status == "done" else None
    if drawn is None:
        _say_why(snapshot)
    return drawn


def job_name(index: Index, ask: Ask) -> str:
    """Return the name of the job that works a clustering out."""
    key = repr((reading.serving_name(index, ask.instruction), ask))
    return f"clusters {index.identity} {hashlib.sha256(key.encode()).hexdigest()[:16]}"


def saved(index: Index, name: str) -> SavedPage | None:
    """Return a saved clustering as it is now; None where the page shows how far it is, or why there is none."""
    edits = [(edit.number, edit.undone) for edit in index.clusterings.history(name)]
    prefix = f"clusters saved {index.identity}"
    key = f"{prefix} {name} {index.revision} {edits[-1:]} {sum(undone is None for _, undone in edits)}"
    jobs = resources.jobs()
    jobs.forget_others(prefix, key)

    def work(job: Job) -> SavedPage:
        clustering = index.clusterings.get(name, progress=reporting(job, READING))
        return SavedPage(clustering, topics(clustering), groups_of(clustering).by_document())

    job = jobs.find(key) or jobs.join(key, "Saved clusters", work)
    job.wait(_WAIT_SECONDS)
    snapshot = ended(job)
    if snapshot is None:
        return None
    if snapshot.status == "done":
        page: SavedPage = snapshot.result
        return page
    st.button("Continue", type="primary", on_click=lambda: jobs.forget(key))
    return None


def classify(index: Index, name: str, instruction: str, into: str, *, several: bool) -> None:
    """Begin to sort all reviews into categories that are saved under a name.

    Raises:
        UsageError: the name is taken, or the categories cannot be told apart.
    """
    from retriever.clusters.categories import read_categories

    index.clusterings.check_name(name)
    categories = read_categories(into)

    def work(job: Job) -> None:
        clustering = index.clusterings.classify(
            instruction, categories, several=several, progress=reporting(job, READING)
        )
        index.clusterings.save(name, clustering)

    resources.jobs().start(_making(index), "Categories", work)


def title(index: Index, name: str, reader: str) -> None:
    """Begin to let a language model title the clusters of a saved clustering."""

    def work(job: Job) -> None:
        index.clusterings.edit(name, ClusterEdits(name_by=reader), progress=reporting(job, TITLING))

    resources.jobs().start(_making(index), "Titles", work)


def making(index: Index) -> bool:
    """Show how far new categories or titles are, or why they failed; return whether the work goes on."""
    name = _making(index)
    job = resources.jobs().find(name)
    if job is None:
        return False
    job.wait(_WAIT_SECONDS)
    if ended(job) is None:
        return True
    resources.jobs().forget(name)
    return False


def report_file(
    index: Index,
    found: Clustering,
    groups: Groups,
    kind: str,
    *,
    where: str | None = None,
    only: str = "",
    nearness: NDArray[np.float32] | None = None,
) -> bytes:
    """Return the report of a clustering as a file's bytes.

    Args:
        index: it is of.
        found: the clustering.
        groups: what the numbers are of.
        kind: html or md.
        where: a filter over metadata that all reviews of the report pass.
        only: how the reviews were chosen otherwise, for people.
        nearness: (n,) that of every row to its cluster's centre, where the clustering is without its vectors.
    """
    numbers = numbers_of(index, groups, usual_segments(index), where=where)
    status = resources.status(index)
    names, ids = model_names(status.encoder, status.plain), found.assignments
    near = None if nearness is None else dict(zip(ids, nearness.tolist(), strict=True))
    report = make_report(found, numbers, names, where=where or only or None, nearness=near)
    return render(report, kind).encode()


def _making(index: Index) -> str:
    return f"clusters made {index.identity}"


def _may_read(index: Index, ask: Ask) -> bool:
    """Return whether the session has agreed to what a clustering sends, if anything; else ask."""
    reading.ask_for_rest(index, ask.instruction, readers.grouping(ask.read))
    return reading.may_send(index, ask.instruction, readers.grouping(ask.read))


def _is_quick(index: Index, ask: Ask) -> bool:
    """Return whether little has to be read first; else say how long it takes, and let the user begin it."""
    with st.spinner("Counting the reviews to read …", show_time=True):
        lacking = len(resources.clusterings().lacking(index, ask))
    if lacking <= model.AT_ONCE:
        return True
    seconds = expected_seconds(resources.status(index), lacking, judged=index.teaching.verdict(ask.instruction) is None)
    with st.container(border=True):
        st.text(
            f"The model must read {text.count(lacking, 'review')} under this question first"
            f"{promise(seconds)}. You can use the other pages meanwhile. If you stop, the reviews read so far are kept."
        )
        st.button("Read and cluster", type="primary", on_click=go)
    return False


def _say_why(snapshot: Snapshot) -> None:
    """Say why a job ended without a clustering."""
    if snapshot.error is not None:
        show_problem(snapshot.error)
    elif snapshot.status == "stopped":
        st.text("Stopped. The reviews read so far are kept.")
    else:
        st.text("The reviews have changed in the meantime.")
    st.button("Continue" if snapshot.status == "stopped" else "Cluster again", type="primary", on_click=go)


def _holds(index: Index, kept: _Kept) -> bool:
    """Return whether the documents are unchanged; looked at only where the index has changed at all."""
    revision = index.revision
    if kept.revision != revision and index.clusterings.still_holds(kept.drawn.found):
        kept.revision = revision
    return kept.revision == revision


def _read(job: Job, index: Index, instruction: str, where: str | None, ids: frozenset[str] | None) -> None:
    """Read what the view of an instruction lacks."""
    where = where if ids is None else None
    if len(index.upkeep.lacking([instruction], where=where, ids=ids)):
        index.upkeep.complete([instruction], where=where, ids=ids, progress=reporting(job, READING))
