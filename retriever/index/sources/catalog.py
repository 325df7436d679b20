"""Which source serves an instruction: what is stored of the sources of an index, and those opened from it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from retriever.core.errors import IndexDamagedError
from retriever.core.protocols import Encoder
from retriever.core.results import Lessons
from retriever.core.text import normal_instruction
from retriever.core.types import Ids
from retriever.index.encoding import Loader, load_described
from retriever.index.sources.answers import Reader
from retriever.index.sources.asking import Permit, answering
from retriever.index.sources.encoders import Encoders, reader_descriptions
from retriever.index.sources.kinds import KINDS
from retriever.index.sources.read import Plain, Question
from retriever.index.sources.source import Source
from retriever.store.answers import AnswerTable
from retriever.store.connection import REPAIR
from retriever.store.database import Store
from retriever.store.sources import SourceRow
from retriever.store.vectors import StoredVectors
from retriever.store.views import View

SERVES = "serves"
"""The setting that holds the view that somebody chose for each instruction."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A view, and what its vectors come from, as it is stored: no encoder is loaded.

    Attributes:
        view: the view.
        needs: those whose vectors are taken for it.
        row: of its source; None where an encoder reads texts for it.
        chosen: whether somebody chose it to serve its instruction.
    """

    view: View
    needs: tuple["Listed", ...] = ()
    row: SourceRow | None = None
    chosen: bool = False

    @property
    def instruction(self) -> str:
        """What the view answers; empty for the base view."""
        return self.view.key.instruction

    @property
    def kind(self) -> str:
        """A name of `KINDS`."""
        return self.row.kind if self.row is not None else Question.kind if self.instruction else Plain.kind

    @property
    def hidden(self) -> bool:
        """Whether only other sources look at the view."""
        return self.row is not None and self.row.hidden

    @property
    def leads(self) -> int:
        """How many of a text's words are answers as somebody named them."""
        return KINDS[self.kind].leads

    @property
    def texts_of(self) -> "Listed | None":
        """The view of a question whose texts it has, where its vectors are made of those of one."""
        first = self.needs[0] if self.needs else None
        return first if first is not None and first.instruction else None

    @property
    def root(self) -> "Listed":
        """The view whose texts it has: its own, where it is made of no view of a question."""
        return self if self.texts_of is None else self.texts_of.root

    @property
    def costly(self) -> bool:
        """Whether each text costs money or seconds, so that none is read unasked."""
        return KINDS[self.kind].costly

    @property
    def leaves(self) -> frozenset[int]:
        """The views that encoders read for it."""
        if self.row is None:
            return frozenset([self.view.view_id])
        return frozenset(leaf for need in self.needs for leaf in need.leaves)


def listed(store: Store, read: Callable[[View], bool] = lambda view: True) -> list[Listed]:
    """Return the views that some encoders read texts for, and those made of them, oldest first.

    Hidden ones that nothing needs are left out.
    """
    rows = {row.view_id: row for row in store.sources.rows()}
    entries: dict[int, Listed] = {}
    chosen = set(_choices(store).values())
    for view in store.views.all():
        row = rows.get(view.view_id)
        if row is None and read(view):
            entries[view.view_id] = Listed(view, chosen=view.view_id in chosen)
        elif row is not None and row.kind in KINDS and all(need in entries for need in row.needs):
            needs = tuple(entries[need] for need in row.needs)
            entries[view.view_id] = Listed(view, needs, row, view.view_id in chosen)
    needed = {need.view.view_id for entry in entries.values() if not entry.hidden for need in entry.needs}
    return [entry for entry in entries.values() if not entry.hidden or entry.view.view_id in needed]


def current(store: Store) -> list[Listed]:
    """Return the views of the index's encoders, oldest first; those that `reembed` left of others are none of them."""
    return sources_of(store).listed()


def own_views(store: Store) -> list[View]:
    """Return the views of the index's encoders that are asked for: one of each question, and what was given for it."""
    return [entry.view for entry in current(store) if not entry.hidden and entry.root is entry]


def searched(store: Store) -> list[Listed]:
    """Return every view that is searched, whosever encoders made it, oldest first."""
    return [entry for entry in listed(store) if not entry.hidden]


def unmakeable(store: Store) -> list[int]:
    """Return the made views whose vectors nothing can make: of which what makes them is gone or cannot be read."""
    sources, rows = sources_of(store), {row.view_id: row for row in store.sources.rows()}
    views = store.views.all()
    known = {view.view_id for view in views}
    made = [view.view_id for view in views if view.key.fingerprint.partition(":")[0] in KINDS]
    view_ids = [view_id for view_id in made if view_id not in rows or not known.issuperset(rows[view_id].needs)]
    for entry in listed(store):
        try:
            sources.open(entry)
        except IndexDamagedError:
            view_ids.append(entry.view.view_id)
    return view_ids


def serving(among: Iterable[Listed], instruction: str) -> Listed | None:
    """Return what serves an instruction: what was chosen, else the last that was made for it, else what is read."""
    normal = normal_instruction(instruction)
    candidates = [entry for entry in among if not entry.hidden and entry.instruction == normal]
    return max(candidates, key=lambda entry: (entry.chosen, entry.row is not None, entry.view.view_id), default=None)


def choose(store: Store, view: View) -> None:
    """Let a view serve its instruction from now on."""
    store.settings.set(SERVES, {**_choices(store), view.key.instruction: view.view_id})


def _choices(store: Store) -> dict[str, int]:
    """Return the view that was chosen for each instruction."""
    stored = store.settings.get(SERVES)
    return (
        {instruction: view_id for instruction, view_id in stored.items() if isinstance(view_id, int)}
        if isinstance(stored, dict)
        else {}
    )


def family(among: Iterable[Listed], view: View) -> list[Listed]:
    """Return a view with those that have vectors of its texts: what is made of it first of all, hidden or not."""
    members: dict[int, Listed] = {}
    for entry in among:
        if entry.view.view_id == view.view_id or (entry.texts_of and entry.texts_of.view.view_id in members):
            members[entry.view.view_id] = entry
    return list(members.values())


class Sources:
    """The sources of an index; threads may share it."""

    def __init__(self, store: Store, encoders: Encoders, permit: Permit | None = None) -> None:
        self._store = store
        self._opened: dict[tuple[int, str], Source] = {}
        self._answering: dict[Reader, Encoder] = {}
        self._permit = permit
        self.encoders = encoders

    @property
    def answers(self) -> AnswerTable:
        """The answers of the index."""
        return self._store.answers

    def answering(self, by: Reader) -> Encoder:
        """Return what answers and embeds for a reader; one is made for all its questions."""
        if by not in self._answering:
            self._answering[by] = answering(self._store, self.encoders.base, by, self._permit)
        return self._answering[by]

    def listed(self) -> list[Listed]:
        """Return what is stored of them, oldest view first."""
        descriptions = self.encoders.descriptions
        return listed(self._store) if descriptions is None else listed(self._store, descriptions.make)

    def open(self, entry: Listed) -> Source:
        """Return a source as it is stored; it is read again only when it has changed.

        Raises:
            IndexDamagedError: it is not what was stored.
        """
        if entry.row is None:
            return (Question if entry.instruction else Plain)(entry.view.key, self.encoders)
        name = entry.view.view_id, entry.row.digest
        if name not in self._opened:
            stored = self._store.sources.get(entry.view.view_id)
            if stored is None:
                raise IndexDamagedError(f"What makes view {entry.view.view_id} is gone.", hint=REPAIR)
            try:
                needs = [self.open(need) for need in entry.needs]
                source = KINDS[entry.kind].opened(entry.view.key, needs, stored, self)
                if source.key != entry.view.key:
                    raise ValueError("it does not fit its vectors")
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                problem = f"What makes view {entry.view.view_id} cannot be read: {error}."
                raise IndexDamagedError(problem, hint=REPAIR) from error
            self._opened[name] = source
        return self._opened[name]

    def encoder_name(self, entry: Listed) -> str:
        """Return the name of what reads a view's texts; empty where it has none."""
        if entry.costly:
            return self.open(entry).reader_name
        descriptions = self.encoders.descriptions
        return "" if descriptions is None else str(descriptions.of(entry.view).get("name") or "")

    def lessons(self, entry: Listed) -> Lessons | None:
        """Read what examples taught of what a view answers; None where they taught nothing. Errors as `open`."""
        stored = None if entry.row is None else self._store.sources.get(entry.view.view_id)
        return None if stored is None else self.open(entry).lessons(entry.view.view_id, stored.created)

    def of(self, instruction: str) -> Source:
        """Return the source that serves an instruction: one that is stored, else what is read under it."""
        entry = serving(self.listed(), instruction)
        return self.read(instruction) if entry is None else self.open(entry)

    @property
    def base(self) -> Source:
        """The base view's source."""
        return self.of("")

    def read(self, instruction: str) -> Source:
        """Return the source of what the encoders alone read under an instruction."""
        normal = normal_instruction(instruction)
        for entry in self.listed():
            if entry.row is None and entry.instruction == normal:
                return self.open(entry)
        key = self.encoders.view_key(normal)
        return (Question if key.instruction else Plain)(key, self.encoders)

    def view(self, source: Source) -> View | None:
        """Return the view of a source; None where there is none yet."""
        return self._store.views.find(source.key)

    def together(self, sources: Iterable[Source]) -> list[Source]:
        """Return sources with what they need and what has vectors of the same texts, needed ones first."""
        ordered: dict[Source, None] = {}

        def add(source: Source) -> None:
            for need in source.needs:
                add(need)
            ordered[source] = None

        for source in sources:
            add(source)
        for entry in self.listed():
            if entry.texts_of and any(entry.texts_of.view.key == source.key for source in ordered):
                add(self.open(entry))
        return list(ordered)

    def stored(self, source: Source, ids: Ids) -> StoredVectors:
        """Return the vectors of a source's view that exist among some contents."""
        return self._store.vectors.get(self._view_id(source), ids)

    def held(self, source: Source) -> Ids:
        """Return the contents that a source's view has vectors of, ascending."""
        return self._store.vectors.held(self._view_id(source))

    def _view_id(self, source: Source) -> int:
        view = self.view(source)
        return 0 if view is None else view.view_id


def sources_of(store: Store, load: Loader = load_described) -> Sources:
    """Return the sources of an index by its database alone; no encoder is loaded before a text is read."""
    return Sources(store, Encoders(reader_descriptions(store), load))
