"""`retriever reembed`: the same documents under another encoder.

New views are filled beside the old ones, which go on serving. One transaction then makes the new encoder the index's
own and remembers the one before; until it is forgotten, the way back is one transaction too. An interrupted run has
changed nothing but the new views, and the same command goes on from there. Questions that examples had taught are
taught anew by these.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from retriever.core.errors import IndexDamagedError, RetrieverError, UsageError
from retriever.core.protocols import Encoder
from retriever.core.results import SCHEMA_VERSION, Lessons
from retriever.core.types import JSON
from retriever.index.encoding import VIEW_SETTINGS, Loader, describe, load_described
from retriever.index.generations import build_outgrown
from retriever.index.indexing import Indexer, IndexingOptions, OnIndexing
from retriever.index.run_record import recorded
from retriever.index.sources.catalog import Sources, listed
from retriever.index.sources.encoders import (
    ENCODER,
    PLAIN,
    Encoders,
    PlainReader,
    ReaderDescriptions,
    made,
    reader_descriptions,
)
from retriever.index.sources.filling import READ_AT_ONCE, derive, fill
from retriever.index.sources.making import Making, place
from retriever.index.view_upkeep import clear_dropped
from retriever.store.database import DATABASE, Store
from retriever.store.lock import LOCK_NAME, WriterLock

PREVIOUS = "previous_encoder"
PREVIOUS_PLAIN = "previous_plain_reader"


@dataclass(slots=True)
class Reembedding:
    """The result of a change of encoder.

    Attributes:
        encoder: name of the encoder that follows instructions now.
        plain: name of the one that fills the base view; None where ``encoder`` does.
        previous: name of the one before, as long as the way back is open.
        instructions: of the views that were carried over; the empty one is the base view.
        left: instructions of views that were not whole, and are filled by searches again.
        embedded: vectors computed.
        dropped: views removed.
        retaught: by instruction, what was learned anew from the examples that had taught it.
        untaught: by instruction that examples had taught, why nothing could be learned from them now.
    """

    encoder: str = ""
    plain: str | None = None
    previous: str | None = None
    instructions: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    embedded: int = 0
    dropped: list[int] = field(default_factory=list)
    retaught: dict[str, Lessons] = field(default_factory=dict)
    untaught: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def reembed(
    path: Path,
    encoder: Encoder | None = None,
    *,
    plain: PlainReader | None = None,
    load: Loader = load_described,
    options: IndexingOptions | None = None,
    progress: OnIndexing | None = None,
) -> Reembedding:
    """Make other encoders the index's own, with every whole view embedded anew that another one reads now.

    Args:
        path: the index folder.
        encoder: what follows instructions from now on; None keeps the index's.
        plain: what fills the base view from now on, ``none`` for the one that follows instructions; None keeps what is.
        load: gives the encoder of a description, for one that is kept.
        options: how to embed.
        progress: called with the growing report, which counts texts.

    Raises:
        UsageError: they are the index's encoders already.
        IndexLockedError: another process writes to the index.
    """
    with Store.open(path / DATABASE) as store, WriterLock(path / LOCK_NAME):
        current = _current(store)
        wanted = ReaderDescriptions(
            current.question if encoder is None else describe(encoder),
            current.plain if plain is None else None if plain == "none" else describe(plain),
        )
        if wanted.plain is not None and wanted.plain["fingerprint"] == wanted.question["fingerprint"]:
            wanted = ReaderDescriptions(wanted.question)  # one encoder, named twice, is one reader
        if _same(wanted.question, current.question) and _same(wanted.plain, current.plain):
            raise UsageError(f"{path} is embedded with {_names(wanted)} already.")
        views = [view for view in store.views.all() if current.make(view)]
        whole = [view.key.instruction for view in views if not len(store.vectors.pending(view.view_id))]
        encoders = Encoders(
            (lambda: encoder) if encoder else partial(load, wanted.question),
            None
            if wanted.plain is None
            else (lambda: plain)
            if isinstance(plain, Encoder)
            else partial(load, wanted.plain),
        )
        change = _Change(path, store, encoders, progress, options)
        change.report.left = [view.key.instruction for view in views if view.key.instruction not in whole]
        return change.to(wanted, whole)


def roll_back(path: Path, *, load: Loader = load_described, progress: OnIndexing | None = None) -> Reembedding:
    """Go back to the encoders before; texts indexed since are embedded with them first.

    Args:
        path: the index folder.
        load: makes the encoder of a description; called only where something lacks a vector.
        progress: called with the growing report.

    Raises:
        UsageError: there are none, or they were forgotten.
        IndexLockedError: another process writes to the index.
    """
    with Store.open(path / DATABASE) as store, WriterLock(path / LOCK_NAME):
        previous = reader_descriptions(store, PREVIOUS, PREVIOUS_PLAIN)
        if previous is None:
            raise UsageError(
                f"{path} has no encoder to go back to.", hint="`retriever reembed --encoder NAME` makes one."
            )
        views = [view for view in store.views.all() if previous.make(view)]
        kept = [view.key.instruction for view in views if store.generations.active(view.view_id)]
        return _Change(path, store, made(previous, load), progress).to(previous, kept)


def forget(path: Path) -> Reembedding:
    """Remove all vectors of other encoders than the index's own; there is no way back then.

    `retriever repair` gives their space back.

    Raises:
        IndexLockedError: another process writes to the index.
    """
    with Store.open(path / DATABASE) as store, WriterLock(path / LOCK_NAME):
        current = _current(store)
        with store.transaction():
            dropped = _drop_others(store, current)
            store.settings.remove(PREVIOUS)
            store.settings.remove(PREVIOUS_PLAIN)
        clear_dropped(store, path)
        return Reembedding(str(current.question.get("name")), plain=_plain_name(current), dropped=dropped)


class _Change:
    """One change of encoder under way."""

    def __init__(
        self,
        path: Path,
        store: Store,
        encoders: Encoders,
        progress: OnIndexing | None,
        options: IndexingOptions | None = None,
    ) -> None:
        self._path = path
        self._options = options
        self._store = store
        self._encoders = encoders
        self._progress = progress
        self.report = Reembedding()

    def to(self, wanted: ReaderDescriptions, instructions: Sequence[str]) -> Reembedding:
        """Fill the views of some encoders, then make them the index's own."""
        with recorded(self._store, "reembed") as run_id:
            current, sources = _current(self._store), Sources(self._store, self._encoders, wanted)
            self._fill(wanted, sources, instructions, run_id)
            self._carry(current, sources, Making(self._store, run_id, self._progress))
            self._switch(wanted, current)
            self.report.instructions = list(instructions)
            self._store.runs.progress(run_id, self.report.to_json())
        clear_dropped(self._store, self._path)
        return self.report

    def _fill(self, wanted: ReaderDescriptions, sources: Sources, instructions: Sequence[str], run_id: int) -> None:
        """Embed what the views lack; where they lack nothing, no model is loaded."""
        views = [view for view in self._store.views.all() if wanted.make(view)]
        there = {view.key.instruction: view for view in views}
        matched = [there.get(instruction) for instruction in instructions]
        if all(view is not None and not len(self._store.vectors.pending(view.view_id)) for view in matched) and matched:
            filled = [view for view in matched if view is not None]
        else:
            read = [sources.read(instruction) for instruction in instructions]
            indexer = Indexer(self._store, sources, read, options=self._options, progress=self._progress)
            indexer.fill(run_id)
            self.report.embedded = sum(indexer.report.embedded.values())
            filled = indexer.views
        build_outgrown(self._store, filled, self._path)

    def _carry(self, current: ReaderDescriptions, sources: Sources, making: Making) -> None:
        """Make again under the wanted encoders what was taught or given; nobody is shown it before the switch."""
        before, placed = Sources(self._store, self._encoders, current), []
        for entry in before.listed():
            if entry.row is None or entry.hidden:
                continue
            try:
                source = before.open(entry).made_again(sources, making)
            except RetrieverError as error:
                self.report.untaught[entry.instruction] = error.message
                continue
            if source is not None:
                placed.append(place(self._store, sources, source))
        _make_up(self._store, sources)
        build_outgrown(self._store, placed, self._path)
        ids = {view.view_id for view in placed}
        known = [entry for entry in sources.listed() if entry.view.view_id in ids]
        lessons = {entry.instruction: sources.lessons(entry) for entry in known}
        self.report.retaught = {instruction: lesson for instruction, lesson in lessons.items() if lesson is not None}

    def _switch(self, wanted: ReaderDescriptions, current: ReaderDescriptions) -> None:
        with self._store.transaction():
            for names, readers in (((ENCODER, PLAIN), wanted), ((PREVIOUS, PREVIOUS_PLAIN), current)):
                for name, description in zip(names, (readers.question, readers.plain), strict=True):
                    if description is None:
                        self._store.settings.remove(name)
                    else:
                        self._store.settings.set(name, dict(description))
            self.report.dropped = _drop_others(self._store, wanted, current)
        self.report.encoder, self.report.previous = (str(readers.question.get("name")) for readers in (wanted, current))
        self.report.plain = _plain_name(wanted)


def _make_up(store: Store, sources: Sources) -> None:
    """Give made views of some encoders what they lack, from when these were not the index's."""
    for entry in sources.listed():
        with suppress(IndexDamagedError):  # `verify` names it
            source = sources.open(entry)
            contents = source.contents(sources.held) if entry.row is not None else None
            lacking = [] if contents is None else store.vectors.missing(entry.view.view_id, contents)
            for start in range(0, len(lacking), READ_AT_ONCE):
                chunk = lacking[start : start + READ_AT_ONCE]
                make = fill if source.reads else derive
                make(store, [source], sources, chunk)


def _drop_others(store: Store, *kept: ReaderDescriptions) -> list[int]:
    """Remove the views whose vectors come from none of some pairs of encoders; return their ids."""
    known = {entry.view.view_id for descriptions in kept for entry in listed(store, descriptions.make)}
    return store.views.drop(*(view.view_id for view in store.views.all() if view.view_id not in known))


def _current(store: Store) -> ReaderDescriptions:
    current = reader_descriptions(store)
    if current is None:
        raise UsageError(f"{store.path} holds no documents yet.", hint="Run `retriever index CORPUS` first.")
    return current


def _names(readers: ReaderDescriptions) -> str:
    names = [
        str(description["name"] or "an encoder without a name")
        for description in (readers.question, readers.plain)
        if description
    ]
    return " and ".join(names)


def _plain_name(readers: ReaderDescriptions) -> str | None:
    return None if readers.plain is None else str(readers.plain.get("name"))


def _same(description: Mapping[str, JSON] | None, other: Mapping[str, JSON] | None) -> bool:
    if description is None or other is None:
        return description is other
    return all(description.get(key) == other.get(key) for key in VIEW_SETTINGS)
