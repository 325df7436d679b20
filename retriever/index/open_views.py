"""The views of one open index: what searches them, when they were used, and what lazy searches add to them."""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from retriever.core.errors import IndexLockedError
from retriever.index.search.calibration import Calibration
from retriever.index.search.contents import ContentReader
from retriever.index.search.view_searcher import LoadedView, ViewSearcher
from retriever.index.sources.catalog import Sources, sources_of
from retriever.index.sources.filling import OnTokens, fill
from retriever.index.sources.source import Source
from retriever.index.view_upkeep import evict, lazy_bytes, lazy_limit
from retriever.store.database import Store
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.store.views import View

NOTED_EVERY = 60.0
"""Seconds between two notes of a view's last use."""


class OpenViews:
    """The views of an open index.

    Attributes:
        calibration: what their scores mean.
    """

    def __init__(self, store: Store, folder: Path, *, device: str) -> None:
        self._store = store
        self._folder = folder
        self._device = device
        self._contents = ContentReader(store)
        self._searchers: dict[int, ViewSearcher] = {}
        self._noted: dict[int, float] = {}
        self._grown = False
        self.calibration = Calibration(store)

    def loaded(self, view: View) -> LoadedView:
        """Return a view in the state of the database that this thread reads, with its FAISS index opened once."""
        if view.view_id not in self._searchers:
            self._searchers[view.view_id] = ViewSearcher(
                self._store, view, self._folder, self._contents, device=self._device
            )
        return self._searchers[view.view_id].current()

    def of(self, sources: Sources, source: Source) -> LoadedView | None:
        """Return the view of a source, as `loaded`; None where there is none yet."""
        view = sources.view(source)
        return None if view is None else self.loaded(view)

    def complete_beside(self, source: Source) -> list[LoadedView]:
        """Return the view of another instruction by the same encoder that was used last and has every text, if any."""
        encoder, views = replace(source.key, instruction=""), self._store.views.all()
        others = [view for view in views if not view.lazy and replace(view.key, instruction="") == encoder]
        others = [view for view in others if view.key != source.key]
        recent = sorted(others, key=lambda view: (view.last_used, view.view_id), reverse=True)
        loaded = (self.loaded(view) for view in recent)
        return list(islice((view for view in loaded if view.complete), 1))

    def reach(self, documents: int) -> int:
        """Return how deep a ranking of texts has to go to hold so many documents."""
        return self._contents.current().reach(documents)

    def forget(self, views: Iterable[View]) -> None:
        """Let go of views that are dropped."""
        for view in views:
            self._searchers.pop(view.view_id, None)

    def keep(self, index: Sources, sources: Sequence[Source], ids: Sequence[int], on_tokens: OnTokens | None) -> None:
        """Fill the views of sources, needed ones first, for a lazy search; see `fill`."""
        fill(index, sources, ids, on_tokens)
        for view in map(index.view, sources):
            if view is not None:
                self._store.views.touch(view.view_id)
        self._grown = True

    def shrink(self) -> None:
        """Hold the limit of lazily filled views after a search that stored something.

        While another process writes nothing is removed; a later search does it.
        """
        limit = lazy_limit(self._store) if self._grown else None
        self._grown = False
        if limit is not None and lazy_bytes(self._store) > limit:
            with suppress(IndexLockedError), WriterLock(self._folder / LOCK_NAME):
                evict(self._store, self._folder, limit)

    def note_use(self, view_ids: Iterable[int]) -> None:
        """Note that views were used, each once a minute: who only reads should not have to write.

        The use of a view is one of that whose texts it has.
        """
        now, every = time.monotonic(), sources_of(self._store).all(lambda view: True)
        roots = {source.view_id: source.root.view_id for source in every}
        for view_id in {roots.get(used, used) for used in view_ids}:
            if now - self._noted.get(view_id, float("-inf")) > NOTED_EVERY:
                self._noted[view_id] = now
                self._store.best_effort_write(partial(self._store.views.touch, view_id))
