"""Nearest vectors of one view: its generation and the newer tail, merged, without deleted documents."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retriever.core.similarity import merge
from retriever.core.types import Embeddings, Ids, Neighbours
from retriever.core.unanswered import empty_answer
from retriever.index.generations import build_options
from retriever.index.search import centering
from retriever.index.search.contents import ContentReader, LiveContents, among
from retriever.index.search.windows import best_of_texts
from retriever.store.database import Store
from retriever.store.generations import Generation
from retriever.store.vectors import VectorBatch, VectorRevision
from retriever.store.views import View
from retriever.store.windows import own_ids, windows_among
from retriever.vectors.backend import ListedIndex, open_backend

Hold = Callable[[Ids, Embeddings], ListedIndex]
"""Makes an exact index in memory; see `VectorBackend.hold`."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Vectors with their exact index.

    Attributes:
        index: finds them.
        vectors: (n, dim) half-precision rows in the order of the index's ids, for when segments are merged.
    """

    index: ListedIndex
    vectors: NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class Tail:
    """Vectors newer than a view's generation: segments over disjoint ids, the largest first, which never change.

    New vectors become a segment, merged with the one before while that is less than twice as large: so segments are few
    (the logarithm of the vectors), and a vector is rarely built into an index again.
    """

    hold: Hold
    segments: tuple[Segment, ...] = ()

    def grown(self, batches: Iterable[VectorBatch]) -> "Tail":
        """Return a tail with further vectors, whose contents it does not hold yet."""
        read = list(batches)
        if not read:
            return self
        new = [batch.indexed for batch in read]
        added = _segment(self.hold, [vectors.ids for vectors in new], [vectors.rows for vectors in new])
        segments = list(self.segments)
        while segments and segments[-1].index.size < 2 * added.index.size:
            last = segments.pop()
            added = _segment(self.hold, [last.index.ids, added.index.ids], [last.vectors, added.vectors])
        return Tail(self.hold, (*segments, added))

    @property
    def indexes(self) -> list[ListedIndex]:
        """Indexes to search: one per segment."""
        return [segment.index for segment in self.segments]


def _segment(hold: Hold, ids: list[Ids], vectors: list[Embeddings] | list[NDArray[np.float16]]) -> Segment:
    joined = np.concatenate(ids)
    order = np.argsort(joined)
    rows = np.concatenate(vectors)[order]
    return Segment(hold(joined[order], rows.astype(np.float32)), rows.astype(np.float16))


@dataclass(frozen=True, eq=False)
class LoadedView:
    """A view in one state of the database. It never changes, so threads that read different states share it.

    Attributes:
        store: the index's database.
        view: the view.
        contents: the texts that have a document.
        revision: of its vectors.
        generation: the generation in use.
        index: it, opened.
        tail: the vectors newer than it.
        held: how many of the contents have a vector.
    """

    store: Store
    view: View
    contents: LiveContents
    revision: VectorRevision
    generation: Generation | None
    index: ListedIndex | None
    tail: Tail
    held: int

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.view.key.dim

    @property
    def size(self) -> int:
        """Texts that have a vector in the view, those of deleted documents included."""
        return sum(len(own_ids(part.ids)) for part in self._parts)

    @property
    def complete(self) -> bool:
        """Whether every text that has a document has its vector in this view."""
        return self.held == len(self.contents.ids)

    def coverage(self, among_these: Ids | None = None) -> float:
        """Return the share of some contents (n,) that have a vector here; None asks for all, none of none is 1."""
        total = len(self.contents.ids if among_these is None else among_these)
        held = self.held if among_these is None else int(self.holds(among_these).sum())
        return held / total if total else 1.0

    def lacking(self, among_these: Ids | None = None) -> Ids:
        """Return those of some contents (n,), or of all, that have no vector here."""
        ids = self.contents.ids if among_these is None else among_these
        return ids[~self.holds(ids)]

    def holds(self, ids: Ids) -> NDArray[np.bool_]:
        """Return which contents (n,) have a vector here."""
        return held_by(self._parts, ids)

    @cached_property
    def shift(self) -> NDArray[np.float32]:
        """Vector that is subtracted from a query's vector before the search (dim,); see `centering`."""
        sample = self.contents.sample if self.view.key.instruction else self.contents.ids[:0]
        return centering.shift(self.store, self.view, centering.unbiased(sample, self.holds(sample)))

    @cached_property
    def empty_answers(self) -> Mapping[int, str]:
        """The texts whose answer here is empty, with which of `retriever.core.unanswered.EMPTY` it is."""
        words = self.store.vectors.words(self.view.view_id, self.contents.ids)
        empty = {content: empty_answer(said[0]) for content, said in words.items() if said}
        return {content: kind for content, kind in empty.items() if kind is not None}

    def centred(self, queries: Embeddings) -> Embeddings:
        """Return queries' vectors (n, dim) less what all vectors of the view have in common: what is searched for."""
        return np.asarray(queries - self.shift, dtype=np.float32)

    def search(self, queries: Embeddings, k: int, *, allowed: Ids | None = None, windows: bool = True) -> Neighbours:
        """Return the k nearest live contents of each query; see `VectorIndex.search`.

        A text is as near as the nearest of its own vector and those of its windows; without ``windows``, as its own.
        """
        live = None if self.held == self.size else self.contents.ids  # None where every vector has a document
        among_these = live if allowed is None else allowed
        if self._windows == 0:
            return self._nearest(queries, k, [among_these] * len(self._parts))
        if not windows:
            return self._nearest(queries, k, [self.contents.ids if allowed is None else allowed] * len(self._parts))
        every = [
            None if among_these is None else np.concatenate([among_these, windows_among(part.ids, among_these)])
            for part in self._parts
        ]
        return best_of_texts(lambda width: self._nearest(queries, width, every), k, 1 + self._windows / self.size)

    def _nearest(self, queries: Embeddings, k: int, allowed: Sequence[Ids | None]) -> Neighbours:
        """Return the k nearest vectors of each query, given those that each part may find."""
        every = zip(self._parts, allowed, strict=True)
        if len(self._parts) == 1:
            return self._parts[0].search(queries, k, allowed=allowed[0])
        empty = Neighbours(np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32))
        return merge([empty, *(part.search(queries, k, allowed=these) for part, these in every)], k)

    @cached_property
    def _windows(self) -> int:
        """Vectors of windows."""
        return sum(part.size for part in self._parts) - self.size

    @cached_property
    def _parts(self) -> list[ListedIndex]:
        return [part for part in (self.index, *self.tail.indexes) if part is not None]


class ViewSearcher:
    """Keeps one view loaded, on a device as encoders take it; reads what is new in it when the database has changed."""

    def __init__(
        self, store: Store, view: View, folder: Path, contents: ContentReader, *, device: str = "auto"
    ) -> None:
        self._store = store
        self._device = device
        self._folder = folder
        self._contents = contents
        self.view = view
        self._loaded: LoadedView | None = None

    def current(self) -> LoadedView:
        """Return the view in the state of the database that this thread reads.

        Vectors that came since the last call are added to those loaded; all are read only where some were taken out
        or another generation serves the view.
        """
        with self._store.snapshot():
            known, contents = self._loaded, self._contents.current()
            revision = self._store.vectors.revision(self.view.view_id)
            generation = self._store.generations.active(self.view.view_id)
            if known is None or not _continues(known, revision, generation):
                known = self._load(contents, revision, generation)
            elif known.contents is not contents or known.revision != revision:
                known = self._grown(known, contents, revision)
        self._loaded = known
        return known

    def _load(self, contents: LiveContents, revision: VectorRevision, generation: Generation | None) -> LoadedView:
        index = None if generation is None else self._open(generation)
        backend = generation.backend if generation else build_options(self._store).backend
        watermark = generation.watermark if generation else 0
        empty = Tail(open_backend(backend, self._folder, self._device).hold)
        tail = empty.grown(self._store.vectors.scan(self.view.view_id, after=watermark))
        parts = [part for part in (index, *tail.indexes) if part is not None]
        if self._loaded is None:  # damage comes while the file lies there, not while it is open
            ids = np.concatenate([np.empty(0, np.int64), *(own_ids(part.ids) for part in parts)])
            self._store.inspection.require_vectors_listed(self.view.view_id, ids, contents.ids)
        held = int(held_by(parts, contents.ids).sum())
        return LoadedView(self._store, self.view, contents, revision, generation, index, tail, held)

    def _grown(self, known: LoadedView, contents: LiveContents, revision: VectorRevision) -> LoadedView:
        """Return the view with the vectors that came since it was loaded, and with the contents of now."""
        batches = []
        if revision.last != known.revision.last:
            batches = list(self._store.vectors.scan(self.view.view_id, after=known.revision.last))
        tail = known.tail.grown(batches)
        if contents is known.contents:
            held = known.held + sum(int(among(batch.content_ids, contents.ids).sum()) for batch in batches)
        else:
            held = int(held_by([*([known.index] if known.index else []), *tail.indexes], contents.ids).sum())
        return LoadedView(self._store, self.view, contents, revision, known.generation, known.index, tail, held)

    def _open(self, generation: Generation) -> ListedIndex:
        known = self._loaded
        if known and known.index and known.generation and known.generation.generation_id == generation.generation_id:
            return known.index
        return open_backend(generation.backend, self._folder, self._device).open(generation.handle)


def held_by(parts: list[ListedIndex], ids: Ids) -> NDArray[np.bool_]:
    """Return which contents (n,) have a vector in one of some indexes."""
    mask = np.zeros(len(ids), dtype=bool)
    for part in parts:
        mask |= among(ids, part.ids)
    return mask


def _continues(known: LoadedView, revision: VectorRevision, generation: Generation | None) -> bool:
    """Return whether a state of the view holds all that is loaded, and perhaps more."""
    same = (known.generation and known.generation.generation_id) == (generation and generation.generation_id)
    return same and known.revision.removals == revision.removals and known.revision.last <= revision.last
