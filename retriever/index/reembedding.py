"""`retriever reembed`: the same documents under another encoder.

New views are filled beside the old ones, which go on serving. One transaction then makes the new encoder the index's
own and remembers the one before; until it is forgotten, the way back is one transaction too. An interrupted run has
changed nothing but the new views, and the same command goes on from there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from retriever.core.errors import UsageError
from retriever.core.protocols import Encoder
from retriever.core.schema import SCHEMA_VERSION
from retriever.core.types import JSON
from retriever.index.encoding import VIEW_SETTINGS, belongs, describe, load_described
from retriever.index.generations import build_outgrown
from retriever.index.indexing import Indexer, IndexingOptions, OnIndexing
from retriever.index.run_record import recorded
from retriever.index.status import ENCODER, described
from retriever.index.view_upkeep import clear_dropped
from retriever.store.database import DATABASE, Store
from retriever.store.lock import LOCK_NAME, WriterLock

PREVIOUS = "previous_encoder"


@dataclass(slots=True)
class Reembedding:
    """The result of a change of encoder.

    Attributes:
        encoder: name of the index's encoder now.
        previous: name of the one before, as long as the way back is open.
        instructions: of the views that were carried over; the empty one is the base view.
        left: instructions of views that were not whole, and are filled by searches again.
        embedded: vectors computed.
        dropped: views removed.
    """

    encoder: str = ""
    previous: str | None = None
    instructions: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    embedded: int = 0
    dropped: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def reembed(
    path: Path, encoder: Encoder, *, options: IndexingOptions | None = None, progress: OnIndexing | None = None
) -> Reembedding:
    """Make another encoder the index's own, with every whole view embedded anew.

    Args:
        path: the index folder.
        encoder: the new one.
        options: how to embed.
        progress: called with the growing report, which counts texts.

    Raises:
        UsageError: it is the index's encoder already.
        IndexLockedError: another process writes to the index.
    """
    with Store.open(path / DATABASE) as store, WriterLock(path / LOCK_NAME):
        current = _encoder_of(store)
        wanted = describe(encoder)
        if _same(wanted, current):
            raise UsageError(f"{path} is embedded with {wanted['name'] or 'this encoder'} already.")
        views = [view for view in store.views.all() if belongs(view.key, current)]
        whole = [view.key.instruction for view in views if not len(store.vectors.pending(view.view_id))]
        change = _Change(path, store, lambda: encoder, progress, options)
        change.report.left = [view.key.instruction for view in views if view.key.instruction not in whole]
        return change.to(wanted, whole)


def roll_back(
    path: Path, *, load: Callable[[Mapping[str, JSON]], Encoder] = load_described, progress: OnIndexing | None = None
) -> Reembedding:
    """Go back to the encoder before; texts indexed since are embedded with it first.

    Args:
        path: the index folder.
        load: makes the encoder of a description; called only where something lacks a vector.
        progress: called with the growing report.

    Raises:
        UsageError: there is none, or it was forgotten.
        IndexLockedError: another process writes to the index.
    """
    with Store.open(path / DATABASE) as store, WriterLock(path / LOCK_NAME):
        previous = store.settings.get(PREVIOUS)
        if not isinstance(previous, dict):
            raise UsageError(
                f"{path} has no encoder to go back to.", hint="`retriever reembed --encoder NAME` makes one."
            )
        views = [view for view in store.views.all() if belongs(view.key, previous)]
        kept = [view.key.instruction for view in views if store.generations.active(view.view_id)]
        return _Change(path, store, lambda: load(described(store, PREVIOUS) or previous), progress).to(previous, kept)


def forget(path: Path) -> Reembedding:
    """Remove all vectors of other encoders than the index's own; there is no way back then.

    `retriever compact` gives their space back.

    Raises:
        IndexLockedError: another process writes to the index.
    """
    with Store.open(path / DATABASE) as store, WriterLock(path / LOCK_NAME):
        current = _encoder_of(store)
        dropped = [view.view_id for view in store.views.all() if not belongs(view.key, current)]
        with store.transaction():
            for view_id in dropped:
                store.views.drop(view_id)
            store.settings.remove(PREVIOUS)
        clear_dropped(store, path)
        return Reembedding(_name_of(store, ENCODER), dropped=dropped)


class _Change:
    """One change of encoder under way."""

    def __init__(
        self,
        path: Path,
        store: Store,
        source: Callable[[], Encoder],
        progress: OnIndexing | None,
        options: IndexingOptions | None = None,
    ) -> None:
        self._path = path
        self._options = options
        self._store = store
        self._source = source
        self._progress = progress
        self.report = Reembedding()

    def to(self, wanted: Mapping[str, JSON], instructions: Sequence[str]) -> Reembedding:
        """Fill the views of an encoder, then make it the index's own."""
        with recorded(self._store, "reembed") as run_id:
            self._fill(wanted, instructions, run_id)
            self._switch(wanted)
            self.report.instructions = list(instructions)
            self._store.runs.progress(run_id, self.report.to_json())
        clear_dropped(self._store, self._path)
        return self.report

    def _fill(self, wanted: Mapping[str, JSON], instructions: Sequence[str], run_id: int) -> None:
        """Embed what the views lack; where they lack nothing, no model is loaded."""
        views = [view for view in self._store.views.all() if belongs(view.key, wanted)]
        there = {view.key.instruction: view for view in views}
        asked = [there.get(instruction) for instruction in instructions]
        if all(view is not None and not len(self._store.vectors.pending(view.view_id)) for view in asked) and asked:
            filled = [view for view in asked if view is not None]
        else:
            indexer = Indexer(self._store, self._source(), instructions, options=self._options, progress=self._progress)
            indexer.fill(run_id)
            self.report.embedded = sum(indexer.report.embedded.values())
            filled = indexer.views
        build_outgrown(self._store, filled, self._path)

    def _switch(self, wanted: Mapping[str, JSON]) -> None:
        current = _encoder_of(self._store)
        views = self._store.views.all()
        dropped = [view.view_id for view in views if not (belongs(view.key, wanted) or belongs(view.key, current))]
        with self._store.transaction():
            self._store.settings.set(ENCODER, dict(wanted))
            self._store.settings.set(PREVIOUS, dict(current))
            for view_id in dropped:
                self._store.views.drop(view_id)
        self.report.encoder, self.report.previous = _name_of(self._store, ENCODER), _name_of(self._store, PREVIOUS)
        self.report.dropped = dropped


def _encoder_of(store: Store) -> Mapping[str, JSON]:
    description = store.settings.get(ENCODER)
    if not isinstance(description, dict):
        raise UsageError(f"{store.path} holds no documents yet.", hint="Run `retriever index CORPUS` first.")
    return description


def _name_of(store: Store, key: str) -> str:
    return str((described(store, key) or {}).get("name"))


def _same(one: Mapping[str, JSON], other: Mapping[str, JSON]) -> bool:
    return all(one.get(key) == other.get(key) for key in VIEW_SETTINGS)
