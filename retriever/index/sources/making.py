"""What it takes to make a source: the database, a recorded run, somebody to tell; and storing what was made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from retriever.core.results import IndexingReport
from retriever.index.sources.catalog import Sources, listed
from retriever.index.sources.filling import derive, fill
from retriever.index.sources.source import Source
from retriever.store.database import Store
from retriever.store.views import View

if TYPE_CHECKING:
    from retriever.index.indexing import OnIndexing


@dataclass(frozen=True, slots=True)
class Making:
    """What a source is made with.

    Attributes:
        store: the index's database, with the writer's lock held.
        run_id: of the run.
        progress: called with the growing report while texts are read.
    """

    store: Store
    run_id: int
    progress: "OnIndexing | None" = None


def counting(report: IndexingReport, progress: "OnIndexing | None") -> Callable[[int, int], None] | None:
    """Return what tells progress how much is done of how much there is, by a report that grows; None for nobody."""
    if progress is None:
        return None

    def notify(done: int, total: int) -> None:
        report.in_hand, report.expected = done, total
        progress(report)

    return notify


def add_source(store: Store, source: Source) -> View:
    """Store a source that its view may not have yet, in the caller's transaction; nothing is filled."""
    view, state = store.views.ensure(source.key, lazy=source.costly), source.state()
    needs = [store.views.ensure(need.key, lazy=True).view_id for need in source.needs]
    store.sources.put(view.view_id, source.kind, needs, state.document, state.arrays, hidden=source.hidden)
    return view


def place(store: Store, sources: Sources, source: Source) -> View:
    """Store a source whole, in the place of others of its kind for the same instruction, in one transaction."""
    with store.transaction():
        view = add_source(store, source)
        for need in source.needs:
            if need.hidden and (read := need.contents(sources.held)) is not None:
                fill(store, [need], sources, read)  # what searches have read since it was filled
        contents = source.contents(sources.held)
        if contents is not None and source.costly:
            fill(store, [source], sources, contents)
        elif contents is not None and source.follows:
            derive(store, [source], sources, contents)
        stored = {entry.view.view_id: (entry.kind, entry.instruction, entry.leaves) for entry in listed(store)}
        same = [view_id for view_id, kept in stored.items() if kept == stored[view.view_id] and view_id != view.view_id]
        store.views.drop(*same)
    if contents is not None and not source.follows:
        derive(store, [source], sources, contents)
    return view
