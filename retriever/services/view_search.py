"""Nearest vectors of one view: its FAISS generation and the newer tail, merged, without deleted documents."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from retriever.core.paths import within
from retriever.core.similarity import merge
from retriever.core.types import Embeddings, Ids, Neighbours
from retriever.index.building import EXACT, build_index
from retriever.index.faiss_index import FaissIndex
from retriever.index.generations import open_generation
from retriever.index.gpu import place
from retriever.services.typical import shift
from retriever.store.database import Store
from retriever.store.generations import Generation
from retriever.store.views import View


@dataclass(slots=True)
class _Loaded:
    """A view as it was at one version of the database.

    Attributes:
        version: the database's data version.
        generation: the generation in use.
        index: it, opened.
        tail: vectors newer than it.
        contents: those that have a document, ascending.
        live: the same, or None when all vectors of the view are of these.
        complete: whether every one of them has a vector.
        shift: from `retriever.services.typical`, once it was asked for.
    """

    version: int
    generation: Generation | None
    index: FaissIndex | None
    tail: FaissIndex | None
    contents: Ids
    live: Ids | None
    complete: bool
    shift: NDArray[np.float32] | None = None


class ViewSearcher:
    """Searches one view; re-reads what changed when the database did.

    Args:
        store: the index's database.
        view: the view.
        folder: the index's folder.
        device: where to search, as encoders take it; ``cpu`` keeps FAISS off the GPU.
    """

    def __init__(self, store: Store, view: View, folder: Path, *, device: str = "auto") -> None:
        self._store = store
        self._device = device
        self._folder = folder
        self.view = view
        self._loaded: _Loaded | None = None

    @property
    def complete(self) -> bool:
        """Whether every document has its vector in this view."""
        return self._current().complete

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.view.key.dim

    @property
    def size(self) -> int:
        """Vectors in the view, those of deleted documents included."""
        return sum(part.size for part in self._parts(self._current()))

    @property
    def shift(self) -> NDArray[np.float32]:
        """What is taken off a query's vector before it is searched for (dim,)."""
        loaded = self._current()
        if loaded.shift is None:
            loaded.shift = shift(self._store, self.view, loaded.contents)
        return loaded.shift

    @property
    def index(self) -> FaissIndex | None:
        """The generation in use, or None before there is one."""
        return self._current().index

    def search(self, queries: Embeddings, k: int, *, allowed: Ids | None = None) -> Neighbours:
        """Return the k nearest live contents of each query; see `VectorIndex.search`."""
        loaded = self._current()
        within = loaded.live if allowed is None else allowed
        parts = self._parts(loaded)
        if len(parts) == 1:
            return parts[0].search(queries, k, allowed=within)
        empty = Neighbours(np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32))
        return merge([empty, *(part.search(queries, k, allowed=within) for part in parts)], k)

    def _parts(self, loaded: _Loaded) -> list[FaissIndex]:
        return [part for part in (loaded.index, loaded.tail) if part is not None]

    def _current(self) -> _Loaded:
        version = self._store.data_version()
        if self._loaded is None or self._loaded.version != version:
            self._loaded = self._load(version)
        return self._loaded

    def _load(self, version: int) -> _Loaded:
        generation = self._store.generations.active(self.view.view_id)
        index = None if generation is None else self._open(generation)
        tail = self._tail(generation.watermark if generation else 0)
        ids = np.concatenate([np.empty(0, np.int64), *(part.ids for part in (index, tail) if part is not None)])
        live = self._store.documents.live_contents()
        if self._loaded is None:  # damage comes while the file lies there, not while it is open
            self._store.inspection.require_vectors_listed(self.view.view_id, ids, live)
        held = np.isin(live, ids, assume_unique=True)
        return _Loaded(
            version=version,
            generation=generation,
            index=index,
            tail=tail,
            contents=live,
            live=None if int(held.sum()) == len(ids) else live,
            complete=bool(held.all()),
        )

    def _open(self, generation: Generation) -> FaissIndex:
        known = self._loaded
        if known and known.index and known.generation and known.generation.generation_id == generation.generation_id:
            return known.index
        opened = open_generation(
            within(self._folder, generation.path),
            sha256=generation.sha256,
            size=generation.size,
            dim=self.view.key.dim,
            probes=cast("int", generation.details.get("probes", 0)),
        )
        return place(opened, "cpu" if self._device == "cpu" else "auto")

    def _tail(self, watermark: int) -> FaissIndex | None:
        batches = list(self._store.vectors.scan(self.view.view_id, after=watermark))
        if not batches:
            return None
        ids = np.concatenate([batch.content_ids for batch in batches])
        order = np.argsort(ids)
        embeddings = np.concatenate([batch.embeddings for batch in batches])[order]
        return build_index(ids[order], [embeddings], self.view.key.dim, factory=EXACT).index
