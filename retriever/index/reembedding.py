"""`retriever reembed`: the same documents under another encoder.

New views are filled beside the old ones, which go on serving. One transaction then makes the new encoder the index's
own and remembers the one before; until it is forgotten, the way back is one transaction too. An interrupted run has
changed nothing but the new views, and the same command goes on from there. Questions that examples had taught are
taught anew by these.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from retriever.core.door import Door
from retriever.core.errors import EncoderMismatchError, IndexDamagedError, RetrieverError, UsageError
from retriever.core.lessons import Lessons
from retriever.core.protocols import Encoder
from retriever.core.results import SCHEMA_VERSION, OnIndexing
from retriever.core.types import JSON
from retriever.index.asking.door import door_of
from retriever.index.encoding import VIEW_SETTINGS, Loader, describe, load_described
from retriever.index.generations import build_outgrown
from retriever.index.indexing import Indexer, IndexingOptions
from retriever.index.languages import base_note
from retriever.index.run_record import recorded
from retriever.index.sources.answers import Answers
from retriever.index.sources.catalog import Sources
from retriever.index.sources.encoders import (
    BaseEncoder,
    EncoderDescriptions,
    Encoders,
    encoder_descriptions,
)
from retriever.index.sources.filling import catch_up
from retriever.index.sources.source import Source
from retriever.index.sources.taught import Taught
from retriever.index.teaching.teacher import TeachingRun, install, taught_again
from retriever.index.view_upkeep import clear_dropped
from retriever.store.database import DATABASE, Store
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.store.views import View

PREVIOUS = "previous_encoder"
PREVIOUS_PLAIN = "previous_base_encoder"


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
        notes: statements for the user.
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
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def reembed(
    path: Path,
    encoder: Encoder | None = None,
    *,
    plain: BaseEncoder | None = None,
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
        current, door = _current(store), door_of(store)
        before = encoder_descriptions(store, PREVIOUS, PREVIOUS_PLAIN)
        known = [each for two in (current, before) if two is not None for each in (two.question, two.plain) if each]
        encoder = encoder and _recognised(encoder.through(door), known, door)
        plain = _recognised(plain.through(door), known, door) if isinstance(plain, Encoder) else plain
        wanted = EncoderDescriptions.of_two(
            current.question if encoder is None else describe(encoder),
            current.plain if plain is None else None if plain == "none" else describe(plain),
        )
        if _settings(wanted) == _settings(current) and wanted.names == current.names:
            named = filter(None, (wanted.question, wanted.plain))
            names = " and ".join(str(description["name"] or "an encoder without a name") for description in named)
            raise UsageError(f"{path} is embedded with {names} already.")
        views = [view for view in store.views.all() if current.make(view)]
        whole = [view.key.instruction for view in views if not len(store.vectors.pending(view.view_id))]
        left = [view.key.instruction for view in views if view.key.instruction not in whole]
        encoders = Encoders(wanted, load, encoder, plain if isinstance(plain, Encoder) else None)
        report = Reembedding(instructions=whole, left=left)
        return _change(path, store, wanted, Sources(store, encoders), report, progress, options)


def _recognised(encoder: Encoder, known: Sequence[Mapping[str, JSON]], door: Door) -> Encoder:
    """Return an encoder that is elsewhere as the index describes it already, wherever it was; else as it is."""
    for description in known if encoder.memory() is not None else ():
        with suppress(EncoderMismatchError):
            same = encoder.known_as({**description, "name": encoder.spec.name})
            if same is not encoder:
                same.through(door).encode(["."])
                return same
    return encoder


def roll_back(path: Path, *, load: Loader = load_described, progress: OnIndexing | None = None) -> Reembedding:
    """Go back to the encoders before; texts indexed since are embedded with them first.

    No encoder is loaded where nothing lacks a vector.

    Raises:
        UsageError: there are none, or they were forgotten.
        IndexLockedError: another process writes to the index.
    """
    with Store.open(path / DATABASE) as store, WriterLock(path / LOCK_NAME):
        previous = encoder_descriptions(store, PREVIOUS, PREVIOUS_PLAIN)
        if previous is None:
            raise UsageError(
                f"{path} has no encoder to go back to.", hint="`retriever reembed --encoder NAME` makes one."
            )
        views = [view for view in store.views.all() if previous.make(view)]
        kept = [view.key.instruction for view in views if store.generations.active(view.view_id)]
        sources = Sources(store, Encoders(previous, load))
        return _change(path, store, previous, sources, Reembedding(instructions=kept), progress)


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
        return Reembedding(*current.names, dropped=dropped)


def _change(
    path: Path,
    store: Store,
    wanted: EncoderDescriptions,
    sources: Sources,
    report: Reembedding,
    progress: OnIndexing | None,
    options: IndexingOptions | None = None,
) -> Reembedding:
    """Fill the views of some encoders under the report's instructions, then make these encoders the index's own."""
    with recorded(store, "reembed") as run_id:
        current = _current(store)
        (report.encoder, report.plain), (report.previous, _) = wanted.names, current.names
        report.notes += base_note(report.plain, store.words.language)
        read = [sources.read(instruction) for instruction in report.instructions]
        lacking = [source for source in read if _lacks(store, sources.view(source))]
        indexer = Indexer(store, sources, lacking, options=options, progress=progress)
        indexer.fill(run_id)
        report.embedded = sum(indexer.report.embedded.values())
        build_outgrown(store, [*indexer.views, *filter(None, map(sources.view, read))], path)
        serving = _carry(path, Sources(store, Encoders(current)), TeachingRun(sources, run_id, progress), report)
        with store.transaction():
            for source in serving:
                sources.choose(source)
            wanted.keep(store)
            current.keep(store, PREVIOUS, PREVIOUS_PLAIN)
            report.dropped = _drop_others(store, wanted, current)
        store.runs.progress(run_id, report.to_json())
    clear_dropped(store, path)
    return report


def _lacks(store: Store, view: View | None) -> bool:
    return view is None or len(store.vectors.pending(view.view_id)) > 0


def _carry(path: Path, before: Sources, run: TeachingRun, report: Reembedding) -> list[Source]:
    """Make again under the wanted encoders what was taught or answered; it is not shown before these are the index's.

    Returns:
        The sources that serve then in the place of those that were chosen before, in the order of these choices.
    """
    choices, serving, placed = run.store.serves.choices(), list[Source](), list[View]()
    before_ids = {view.view_id for view in run.store.views.all()}
    for source in sorted(before.visible(), key=lambda source: choices.get(source.view_id, 0)):
        if not source.instruction or (source.reads and source.view_id not in choices):
            continue
        try:
            again = _again(source, run)
        except RetrieverError as error:
            report.untaught[source.instruction] = error.message
            continue
        view = run.sources.view(again)
        if view is not None and view.view_id not in before_ids and not again.reads:
            placed.append(view)
        if source.view_id in choices:
            serving.append(again)
    for source in run.sources.all():  # made views lack what came while these encoders were not the index's
        with suppress(IndexDamagedError):  # `verify` names it
            catch_up(run.sources, source)
    build_outgrown(run.store, placed, path)
    placed_ids = {view.view_id for view in placed}
    for source in run.sources.visible():
        if source.view_id in placed_ids and isinstance(source, Taught):
            report.retaught[source.instruction] = source.lessons()
    return serving


def _again(source: Source, run: TeachingRun) -> Source:
    """Return the source that does for an instruction under the wanted encoders the same as one under others, stored.

    Nobody is asked: answers that are stored are embedded anew.

    Raises:
        RetrieverError: it cannot be made, and why.
    """
    if isinstance(source, Taught):
        taught = taught_again(source, run)
        if run.sources.view(taught) is None:
            install(run.sources, taught)
        return taught
    if not isinstance(source, Answers):
        return run.sources.read(source.instruction)
    answers = Answers.given_by(run.sources.base, source.instruction, source.by)
    with run.store.transaction():
        run.sources.store(answers)
    return answers


def _drop_others(store: Store, *kept: EncoderDescriptions) -> list[int]:
    """Remove the views whose vectors come from none of some pairs of encoders; return their ids."""
    known = {source.view_id for descriptions in kept for source in Sources(store, Encoders(descriptions)).all()}
    return store.views.drop(*(view.view_id for view in store.views.all() if view.view_id not in known))


def _current(store: Store) -> EncoderDescriptions:
    current = encoder_descriptions(store)
    if current is None:
        raise UsageError(f"{store.path} holds no documents yet.", hint="Run `retriever index CORPUS` first.")
    return current


def _settings(described: EncoderDescriptions) -> list[list[JSON] | None]:
    """Return what tells the vectors of two encoders from those of others."""
    both = (described.question, described.plain)
    return [None if each is None else [each.get(key) for key in VIEW_SETTINGS] for each in both]
