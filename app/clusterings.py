"""Clusterings that all sessions share: worked out by jobs, kept while the documents they are of stay as they are."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.clustering import Clustering
from retriever.clusters.map import map_places
from retriever.core.results import IndexingReport
from retriever.core.types import Ids
from retriever.serving.jobs import Job, Work
from retriever.workspace import Index
from retriever_app.foreground import FOREGROUND
from retriever_app.view_models.grouping import UNIT, Ask, Part

MOST_KEPT = 8
READING = "Reading the reviews under the instruction"
JUDGING = "Checking whether the model follows the instruction"
_STOP_SECONDS = 0.2  # between looks at whether the job was stopped while it waits
_numbers = count()


@dataclass(frozen=True, slots=True)
class ClusteringProgress:
    """What a clustering is doing, in words for the user, and the share of that, 0 to 1; None where it is not known."""

    doing: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """A clustering, and its map where one was wanted; without its vectors then, which only the map needs.

    The map's ``places`` (n, 2) between -1 and 1 are where the documents stand; ``number`` is one that no other has, to
    key what is worked out from it.
    """

    found: Clustering
    places: NDArray[np.float32] | None
    number: int

    def showing(self, found: Clustering) -> "Drawn":
        """Return another clustering of the same documents in the same places, without its vectors."""
        material = replace(found.material, vectors=found.material.vectors[:0])
        return replace(self, found=replace(found, material=material), number=next(_numbers))

    def rows(self, part: Part) -> NDArray[np.int64]:
        """Return the rows of the documents of a part, those nearest to their cluster's centre first."""
        partition = self.found.partition
        inside = np.isin(partition.labels, part.clusters) if part.clusters else partition.labels >= 0
        if part.area and self.places is not None:
            inside &= _enclosed(self.places, part.area)
        rows = np.flatnonzero(inside)
        return rows[np.argsort(-partition.cosines[rows], kind="stable")]

    def ids(self, part: Part) -> frozenset[str]:
        """Return the ids of the documents of a part."""
        documents = self.found.material.documents
        return frozenset(documents[row].id for row in self.rows(part).tolist())


BY_NUMBER: dict[str | type[Any], Callable[[Any], int]] = {Drawn: lambda drawn: drawn.number}
"""Tells Streamlit's caches clusterings apart."""


@dataclass(slots=True)
class _Kept:
    """A clustering with the revision of the index at which it was last seen to hold."""

    drawn: Drawn
    revision: int


class ClusteringCache:
    """The last clusterings, by index and what was asked for; one is worked out at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._kept: OrderedDict[tuple[str, Ask], _Kept] = OrderedDict()

    def find(self, index: Index, ask: Ask, *, mapped: bool) -> Drawn | None:
        """Return a clustering, with its map where wanted, if it is known and its documents are still all there are."""
        ids: frozenset[str] | None = None
        if ask.within:
            parent = self.find(index, ask.parent, mapped=bool(ask.within[-1].area))
            if parent is None:
                return None
            ids = parent.ids(ask.within[-1])
        name = (index.identity, ask)
        with self._lock:
            kept = self._kept.get(name)
            if kept is not None:
                self._kept.move_to_end(name)
        if kept is None or (mapped and kept.drawn.places is None) or kept.drawn.found.request.ids != ids:
            return None
        return kept.drawn if _holds(index, kept) else None

    def lacking(self, index: Index, asks: Sequence[Ask]) -> Ids:
        """Return the content ids of the texts to read before the first of some clusterings that is not known.

        All are of the same documents.
        """
        ask, ids = asks[0], None
        instructions = [one.instruction for one in asks]
        while ask.within:
            parent = self.find(index, ask.parent, mapped=bool(ask.within[-1].area))
            if parent is not None:
                ids = parent.ids(ask.within[-1])
                break
            ask = ask.parent
            instructions = [ask.instruction]
        return index.lacking(instructions, where=ask.where if ids is None else None, ids=ids)

    def work(self, index: Index, asks: Sequence[Ask], *, mapped: bool) -> Work:
        """Return the work of a job after which `find` knows some clusterings of the same documents.

        Its progress is a `ClusteringProgress`; stopped, it has kept the whole shards of what it read.
        """

        def work(job: Job) -> None:
            job.tell(ClusteringProgress("Waiting for another clustering"))
            with self._one_at_a_time(job):
                ids = self._ids(job, index, asks[0])
                _read(job, index, [ask.instruction for ask in asks], asks[0].where, ids)
                for ask in asks:
                    self._draw(job, index, ask, mapped=mapped)

        return work

    def _draw(self, job: Job, index: Index, ask: Ask, *, mapped: bool) -> Drawn:
        """Work out what is not known of a clustering."""
        known = self.find(index, ask, mapped=False)
        if known is None:
            known = self._cluster(job, index, ask)
        if mapped and known.places is None:
            job.check()
            job.tell(ClusteringProgress("Drawing the map"))
            with FOREGROUND.waited_for():
                known = replace(known, places=map_places(known.found)).showing(known.found)
            self._keep(index, ask, known)
        return known

    def _cluster(self, job: Job, index: Index, ask: Ask) -> Drawn:
        ids = self._ids(job, index, ask)
        _read(job, index, [ask.instruction], ask.where, ids)
        job.check()
        job.tell(ClusteringProgress("Grouping the reviews"))
        where = None if ask.within else ask.where
        # One that looks into its question itself waits for the question that is looked into now, which would give way.
        watched = nullcontext() if index.wants_verdict(ask.instruction) else FOREGROUND.waited_for()
        with watched:
            found = index.cluster(ask.instruction, k=ask.groups or None, where=where, ids=ids)
        drawn = Drawn(found, None, next(_numbers))
        self._keep(index, ask, drawn)
        return drawn

    def _ids(self, job: Job, index: Index, ask: Ask) -> frozenset[str] | None:
        """Return the documents of the part a clustering is within; None for all."""
        if not ask.within:
            return None
        part = ask.within[-1]
        return self._draw(job, index, ask.parent, mapped=bool(part.area)).ids(part)

    def _keep(self, index: Index, ask: Ask, drawn: Drawn) -> None:
        name = (index.identity, ask)
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


def _enclosed(places: NDArray[np.float32], area: Sequence[int]) -> NDArray[np.bool_]:
    """Return (n,) which places (n, 2) lie in an area that its corners are told of."""
    from matplotlib.path import Path

    corners = np.reshape(area, (-1, 2)) / UNIT
    return Path(corners).contains_points(places)


def _holds(index: Index, kept: _Kept) -> bool:
    """Return whether the documents are unchanged; looked at only where the index has changed at all."""
    revision = index.revision
    if kept.revision != revision and index.still_holds(kept.drawn.found):
        kept.revision = revision
    return kept.revision == revision


def _read(job: Job, index: Index, instructions: Sequence[str], where: str | None, ids: frozenset[str] | None) -> None:
    """Read what the views of some instructions lack, telling the share of its tokens that is read."""
    where = where if ids is None else None
    lacking = index.lacking(instructions, where=where, ids=ids)
    if not len(lacking):
        return
    job.tell(ClusteringProgress(READING, 0.0))
    tokens = index.count_tokens(lacking)

    def tell(report: IndexingReport) -> None:
        job.check()
        if report.judging:
            job.tell(ClusteringProgress(JUDGING, report.in_hand / max(report.expected or 1, 1)))
        else:
            job.tell(ClusteringProgress(READING, min(1.0, report.tokens / max(tokens, 1))))

    index.complete(instructions, where=where, ids=ids, progress=tell)
