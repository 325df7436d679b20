"""The views of a corpus in shards: the forms of `LoadedView` and `OpenViews` that ask all shards and merge."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from retriever.core.similarity import merge
from retriever.core.types import Embeddings, Encoded, Ids, Neighbours
from retriever.index.open_views import NOTED_EVERY
from retriever.index.search import centering
from retriever.index.search.calibration import Calibration
from retriever.index.teaching.taught import TaughtViews
from retriever.shards.fleet import Fleet
from retriever.shards.messages import Condition, NearestFound, NearestWanted, PartOfView
from retriever.shards.reading import Selection, remember_vectors
from retriever.shards.session import Session
from retriever.shards.store import ShardedStore
from retriever.store.database import Store
from retriever.store.views import View, ViewKey

Allowed: TypeAlias = Ids | Selection | None
"""Contents, what a filter allows, or all."""


@dataclass(frozen=True)
class ShardedContents:
    """The texts of all shards that have a document."""

    fleet: Fleet

    @cached_property
    def sample(self) -> Ids:
        """The contents whose mean a view is centred by, in the order they are wanted; none of few texts.

        While a shard does not answer it stays what it was: what is typical does not depend on who answers.
        """
        with self.fleet.reading() as session:
            known: tuple[object, Ids] | None = self.fleet.remembered.get("sample")
            at = {part: state.documents_revision for part, state in session.states.items()}
            if known is not None and (known[0] == at or session.left_out):
                return known[1]
            few = sum(state.texts for state in session.states.values()) < centering.FEW
            every = [np.empty(0, np.int64), *self.fleet.ask("sample").values()]
            ids = np.concatenate(every[: 1 if few else None])
            found = centering.sample(ids, centering.SAMPLE)
            if not session.left_out:
                self.fleet.keep("sample", (at, found))
            return found


class ShardedView:
    """A view of all shards, in the state of the session at hand; what `LoadedView` is of one index.

    Args:
        store: the shards' store.
        view: the view.
    """

    def __init__(self, store: ShardedStore, view: View) -> None:
        self.store = store
        self._fleet = store.fleet
        self.view = view
        self.contents = ShardedContents(store.fleet)
        with self._fleet.reading() as session:
            self._parts: dict[int, PartOfView] = store.vectors.parts(view.key)
            self._texts = sum(state.texts for state in session.states.values())
            self._documents = {part: state.documents_revision for part, state in session.states.items()}

    @property
    def size(self) -> int:
        """Vectors in the view, those of deleted documents included."""
        return sum(one.size for one in self._parts.values())

    @property
    def _held(self) -> int:
        return sum(one.held for one in self._parts.values())

    @property
    def complete(self) -> bool:
        """Whether every text that has a document has its vector in this view."""
        return self._held == self._texts

    def coverage(self, among_these: Allowed = None) -> float:
        """Return the share of the texts that a filter allows, or of all, that have a vector here; of none it is 1."""
        total, held = self._texts, self._held
        if among_these is not None:
            counts = self._fleet.ask("selected", self.view.key, self._condition(among_these)).values()
            total, held = sum(one for one, _ in counts), sum(one for _, one in counts)
        return held / total if total else 1.0

    def lacking(self, among_these: Allowed = None) -> Ids:
        """Return those of some contents, of what a filter allows, or of all, that have no vector here."""
        if isinstance(among_these, np.ndarray):
            return among_these[~self.holds(among_these)]
        condition = self._condition(among_these)
        with self._fleet.reading() as session:
            found = self._fleet.ask("lacking", self.view.key, condition)
            for part, ids in found.items():
                session.home.update(dict.fromkeys(ids.tolist(), part))
        return np.sort(np.concatenate(list(found.values())))

    def holds(self, ids: Ids) -> NDArray[np.bool_]:
        """Return which contents (n,) have a vector here."""
        if not len(ids):
            return np.zeros(0, dtype=bool)
        return np.asarray(np.logical_or.reduce(list(self._fleet.ask("holds", self.view.key, ids).values())))

    @cached_property
    def shift(self) -> NDArray[np.float32]:
        """Vector that is subtracted from a query's vector (dim,); the same for all shards, see `centering`."""
        key = self.view.key
        if not key.instruction:
            return np.zeros(key.dim, dtype=np.float32)
        at = ({part: one.revision for part, one in self._parts.items()}, self._documents)
        with self._fleet.reading() as session:
            known: tuple[object, NDArray[np.float32]] | None = self._fleet.remembered.get(("typical", key))
            if known is not None and (known[0] == at or session.left_out):
                return known[1]
            told = self._fleet.manifest.of(key)
            if session.left_out and told is not None and told.typical.any():
                return told.typical
            sample = self.contents.sample
            found = centering.shift(
                cast("Store", self.store), self.view, centering.unbiased(sample, self.holds(sample))
            )
            if not session.left_out:
                self._fleet.keep(("typical", key), (at, found))
            return found

    def search(self, queries: Embeddings, k: int, *, allowed: Allowed = None) -> Neighbours:
        """Return the k nearest live contents of each query, and fetch along the vectors that are wanted besides."""
        key, condition = self.view.key, self._condition(allowed)
        with self._fleet.reading() as session:
            wanted = _by_home(session)
            asked = {
                part: (NearestWanted(key, queries, k, condition, wanted.get(part, ())),) for part in session.states
            }
            answers: dict[int, NearestFound] = self._fleet.ask_each("nearest", asked)
            for part, answer in answers.items():
                remember_vectors(session, key, answer.besides)
                session.home.update(dict.fromkeys(np.unique(answer.neighbours.ids).tolist(), part))
            session.wanted.clear()
            session.searched.append(key)
        empty = Neighbours(np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32))
        return merge([empty, *(answer.neighbours for answer in answers.values())], k)

    def _condition(self, allowed: Allowed) -> Condition | None:
        return self.store.documents.condition(allowed.where) if isinstance(allowed, Selection) else None


class ShardedViews:
    """The views of a corpus in shards; what `OpenViews` is of one index.

    Attributes:
        calibration: what their scores mean.

    Args:
        store: the shards' store.
    """

    def __init__(self, store: ShardedStore) -> None:
        self._store = store
        self._noted: dict[int, float] = {}
        self.calibration = Calibration(cast("Store", store))
        self.taught = TaughtViews(cast("Store", store))

    def loaded(self, view: View) -> ShardedView:
        """Return a view in the state of the session at hand."""
        return ShardedView(self._store, view)

    def reach(self, documents: int) -> int:
        """Return how deep a ranking of texts has to go to hold so many documents: they are whole."""
        return documents

    def keep(self, view: View, content_ids: Sequence[int], encoded: Encoded) -> None:
        """Store what a lazy search has read, each vector in the shard that has its text."""
        with self._store.transaction(all_parts=False):
            self._store.put_vectors(view.view_id, content_ids, encoded.embeddings, encoded.words)
        self._store.ids.used(view.key)

    def note_use(self, view_ids: Iterable[int]) -> None:
        """Note that views were used, each once an hour."""
        now = time.monotonic()
        for view_id in set(view_ids):
            if now - self._noted.get(view_id, float("-inf")) > NOTED_EVERY:
                self._noted[view_id] = now
                key = self._store.ids.key(view_id)
                self._store.ids.used(key)
                fleet = self._store.fleet
                self._store.best_effort_write(partial(_touch, fleet, key))


def _by_home(session: Session) -> dict[int, list[int]]:
    """Return the contents whose vectors are wanted, by the shard that has them."""
    found: dict[int, list[int]] = {}
    for one in dict.fromkeys(session.wanted):
        if one in session.home:
            found.setdefault(session.home[one], []).append(one)
    return found


def _touch(fleet: Fleet, key: ViewKey) -> None:
    fleet.told(fleet.there(), "touch", ([key],))
