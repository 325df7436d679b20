"""The work of the page Groups: new groupings and saved ones, as jobs that all sessions share.

Groupings are kept while the documents they are of stay as they are.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from retriever.clusters.clustering import Clustering
from retriever.clusters.groups import Groups
from retriever.clusters.index_numbers import numbers_of, usual_segments
from retriever.clusters.map import map_places
from retriever.clusters.report import make_report, model_names, render
from retriever.core.types import Ids
from retriever.index.asking.limits import ReadingLimits
from retriever.serving.jobs import Job, Snapshot
from retriever.workspace import Index, limited
from retriever_app import readers, reading, resources, text
from retriever_app.background import FOREGROUND, READING, Progress, expected_seconds, promise, reporting, taking_turns
from retriever_app.components import show_problem, watch
from retriever_app.pages.groups.asked import AT_ONCE, Ask

MOST_KEPT = 8
_GROUPING = "Grouping the reviews"
_WAIT_SECONDS = 0.6  # a page waits, so that what is quick shows no progress
_GO = "groups: go"
_NOTHING = ReadingLimits(texts=0)  # lets what is stored be grouped, and nothing be sent
_numbers = count()


@dataclass(frozen=True, slots=True)
class Drawn:
    """A grouping with its map, and without its vectors, which only the map needs.

    The map's ``places`` (n, 2) between -1 and 1 are where the documents stand; ``nearness`` (n,) is that of each to its
    group's middle; ``number`` is one that no other has, to key what is worked out from it.
    """

    found: Clustering
    places: NDArray[np.float32]
    nearness: NDArray[np.float32]
    number: int

    def rows(self, chosen: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the rows of the documents of some groups, or of all, those nearest to their group's middle first."""
        documents = self.found.material.documents
        wanted = set(chosen or (group.number for group in self.found.clusters))
        inside = [row for row, each in enumerate(documents) if wanted.intersection(self.found.places[each.id])]
        rows = np.array(inside, dtype=np.int64)
        return rows[np.argsort(-self.nearness[rows], kind="stable")]


BY_NUMBER: dict[str | type[Any], Callable[[Any], int]] = {Drawn: lambda drawn: drawn.number}
"""Tells Streamlit's caches groupings apart."""


@dataclass(slots=True)
class _Kept:
    """A grouping with the revision of the index at which it was last seen to hold."""

    drawn: Drawn
    revision: int

    def holds(self, index: Index) -> bool:
        """Return whether the documents are unchanged; looked at only where the index has changed at all."""
        revision = index.revision
        if self.revision != revision and index.clusterings.still_holds(self.drawn.found):
            self.revision = revision
        return self.revision == revision


class GroupingCache:
    """The last groupings, by index and request; of those that encoders read for, one is worked out at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, Ask], _Kept] = OrderedDict()

    def find(self, index: Index, ask: Ask) -> Drawn | None:
        """Return a grouping if it is known and its documents are still all there are."""
        name = _name(index, ask)
        with self._lock:
            kept = self._kept.get(name)
            if kept is not None:
                self._kept.move_to_end(name)
        return kept.drawn if kept is not None and kept.holds(index) else None

    def work(self, index: Index, ask: Ask, job: Job) -> None:
        """Work a grouping out as a job, unless `find` knows it by its turn; stopped, it has kept whole batches."""
        job.tell(Progress("Waiting for other groups"))
        with nullcontext() if asks(index, ask) else taking_turns(self._turn, job):
            if self.find(index, ask) is not None:
                return
            found = _made(job, index, ask)
            job.check()
            job.tell(Progress("Drawing the map"))
            with FOREGROUND.waited_for():
                places, near = map_places(found), _nearness(found)
            bare = replace(found, material=replace(found.material, vectors=found.material.vectors[:0]))
            revision = index.revision if ask.saved else -1  # saved groups stay in their view, whatever serves by now
            name = _name(index, ask)
            with self._lock:
                self._kept[name] = _Kept(Drawn(bare, places, near, next(_numbers)), revision)
                self._kept.move_to_end(name)
                while len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)

    def forget(self, index: Index, ask: Ask) -> None:
        """Drop a grouping, so that it is worked out again."""
        with self._lock:
            self._kept.pop(_name(index, ask), None)


def _name(index: Index, ask: Ask) -> tuple[str, str, Ask]:
    return (index.identity, reading.serving_name(index, ask.instruction), ask)


def _made(job: Job, index: Index, ask: Ask) -> Clustering:
    """Return a new grouping, or a saved one as it is now."""
    if ask.saved:
        return index.clusterings.get(ask.saved, progress=reporting(job, READING, first=_GROUPING, last=_GROUPING))
    if len(lacking(index, ask)):
        index.upkeep.complete([ask.instruction], where=ask.where, progress=reporting(job, READING))
    job.check()
    # A grouping that checks its own question waits for a check that goes on, which would give way to it.
    others = index.teaching.wants_verdict(ask.instruction) or asks(index, ask)
    with nullcontext() if others else FOREGROUND.waited_for():
        return (limited(index, _NOTHING) if ask.stored else index).cluster(
            ask.instruction,
            k=ask.groups or None,
            where=ask.where,
            into=ask.into,
            several=ask.several,
            read=ask.read,
            progress=reporting(job, READING, first=_GROUPING, last=_GROUPING),
        )


def lacking(index: Index, ask: Ask) -> Ids:
    """Return the content ids of the texts that are read first for a new grouping."""
    return index.upkeep.lacking([ask.instruction], where=ask.where)


def _nearness(found: Clustering) -> NDArray[np.float32]:
    """Return the cosine (n,) of every row with the mean of its group, which people may have changed."""
    vectors, labels = found.material.vectors, found.labels
    near = np.zeros(len(labels), dtype=np.float32)
    for number in np.unique(labels):
        inside = vectors[labels == number]
        middle = inside.mean(axis=0)
        near[labels == number] = inside @ (middle / max(float(np.linalg.norm(middle)), 1e-12))
    return near


def asks(index: Index, ask: Ask) -> bool:
    """Whether a language model reads for a grouping: that waits for its endpoint, and holds nobody up."""
    return not ask.saved and readers.reads(index.teaching.reader(ask.instruction))


def go() -> None:
    """Begin the page's grouping without asking, however long it takes."""
    st.session_state[_GO] = True


def ready(index: Index, ask: Ask) -> Drawn | None:
    """Return a grouping with its map; else begin it or show how it stands.

    Before this session has agreed to what is sent to a language model, it is of what is stored.
    """
    if not asks(index, ask):
        return _ready(index, replace(ask, read=Ask().read))  # encoders read all: whatever it says, it is the same
    sending = readers.grouping(ask.read)
    if reading.agreed(index, ask.instruction, sending):
        return _ready(index, ask)
    answers, drawn = index.teaching.answers_status(ask.instruction).answers, None
    if answers:
        drawn = _ready(index, replace(ask, read=min(answers, ask.read), stored=True))
    more = sending.number(index.teaching.answers_status(ask.instruction))
    if not answers or (drawn is not None and (more or drawn.found.fault)):  # sending would make other groups
        reading.ask_for_rest(index, ask.instruction, sending)
    return drawn


def _ready(index: Index, ask: Ask) -> Drawn | None:
    jobs, name = resources.jobs(), job_name(index, ask)
    wanted = st.session_state.pop(_GO, False)
    drawn = resources.groupings().find(index, ask)
    if drawn is not None:
        jobs.forget(name)
        return drawn
    job = jobs.find(name)
    if job is None or (wanted and job.over):
        if not wanted and not ask.saved and not _is_quick(index, ask):
            return None
        job = jobs.join(name, "Grouping", partial(resources.groupings().work, index, ask))
    snapshot = job.wait(_WAIT_SECONDS)
    if not snapshot.over:
        watch(job)
        return None
    drawn = resources.groupings().find(index, ask) if snapshot.status == "done" else None
    if drawn is None:
        _say_why(snapshot)
    return drawn


def job_name(index: Index, ask: Ask) -> str:
    """Return the name of the job that works a grouping out."""
    key = repr((reading.serving_name(index, ask.instruction), ask))
    return f"groups {index.identity} {hashlib.sha256(key.encode()).hexdigest()[:16]}"


def report_file(index: Index, drawn: Drawn, groups: Groups, kind: str, *, only: str = "") -> bytes:
    """Return the report of a grouping as the bytes of a file, html or md.

    The numbers are of the groups; ``only`` says for people how their reviews were chosen.
    """
    found, status = drawn.found, resources.status(index)
    numbers = numbers_of(index, groups, usual_segments(index))
    near = dict(zip(found.assignments, drawn.nearness.tolist(), strict=True))
    report = make_report(found, numbers, model_names(status.encoder, status.plain), where=only or None, nearness=near)
    return render(report, kind).encode()


def _is_quick(index: Index, ask: Ask) -> bool:
    """Return whether little has to be read first; else say how long it takes, and let the user begin it."""
    with st.spinner("Counting the reviews to read …", show_time=True):
        number = len(lacking(index, ask))
    if number <= AT_ONCE:
        return True
    seconds = expected_seconds(resources.status(index), number, judged=index.teaching.verdict(ask.instruction) is None)
    with st.container(border=True):
        st.text(
            f"The model must read {text.count(number, 'review')} under this question first"
            f"{promise(seconds)}. You can use the other pages meanwhile. If you stop, the reviews read so far are kept."
        )
        st.button("Read and group", type="primary", on_click=go)
    return False


def _say_why(snapshot: Snapshot) -> None:
    """Say why a job ended without a grouping."""
    if snapshot.error is not None:
        show_problem(snapshot.error)
    elif snapshot.status == "stopped":
        st.text("Stopped. The reviews read so far are kept.")
    else:
        st.text("The reviews have changed in the meantime.")
    st.button("Continue" if snapshot.status == "stopped" else "Group again", type="primary", on_click=go)
