"""The sources of an index: which there are, and which serves an instruction."""

from collections.abc import Callable, Iterable, Mapping

from retriever.core.door import Door
from retriever.core.errors import IndexDamagedError
from retriever.core.requests import SearchRequest
from retriever.core.text import normal_instruction
from retriever.core.types import Ids
from retriever.index.asking.door import door_of
from retriever.index.encoding import Loader, load_described
from retriever.index.sources.answers import Answers
from retriever.index.sources.encoders import Encoders, encoder_descriptions
from retriever.index.sources.read import Instructed, Plain, Question
from retriever.index.sources.source import Context, Source
from retriever.index.sources.taught import Taught, Tuned
from retriever.store.connection import REPAIR
from retriever.store.database import Store
from retriever.store.sources import SourceRow, StoredSource
from retriever.store.vectors import StoredVectors
from retriever.store.views import View

KINDS: Mapping[str, type[Source]] = {source.kind: source for source in (Plain, Question, Answers, Tuned, Taught)}
"""The kinds of source, by name; a new kind is a file of this room and a row here."""


class Sources:
    """The sources of an index, whose texts some encoders read; threads may share it.

    Args:
        store: the index's database.
        encoders: of the index.
        door: by which texts leave for those that are elsewhere; None for one of its own.
    """

    def __init__(self, store: Store, encoders: Encoders, door: Door | None = None) -> None:
        self._store = store
        self._opened: dict[tuple[int, str], Source] = {}  # by view and what it was stored with
        self.encoders = encoders.through(door_of(store)) if door is None else encoders.through(door)
        self.context = Context(store, self.encoders)

    def all(self, made_by: Callable[[View], bool] | None = None) -> list[Source]:
        """Return the sources of the views of the index's encoders, oldest first; no encoder is loaded.

        Hidden ones that nothing needs are left out. ``made_by`` tells whether encoders read the texts of a view, where
        others than the index's are meant.
        """
        descriptions = self.encoders.descriptions
        reads = made_by or (lambda view: descriptions is None or descriptions.make(view))
        rows = {row.view_id: row for row in self._store.sources.rows()}
        known: dict[int, Source] = {}
        for view in self._store.views.all():
            row = rows.get(view.view_id)
            if row is None and reads(view):
                known[view.view_id] = (Question if view.key.instruction else Plain)(self.context, view.key, view=view)
            elif row is not None and row.kind in KINDS and all(need in known for need in row.needs):
                known[view.view_id] = self._open(view, row, [known[need] for need in row.needs])
        needed = {need for source in known.values() if not source.hidden for need in source.needs}
        return [source for source in known.values() if not source.hidden or source in needed]

    def visible(self, made_by: Callable[[View], bool] | None = None) -> list[Source]:
        """Return the sources of views that are searched; as `all`."""
        return [source for source in self.all(made_by) if not source.hidden]

    def candidates(self, instruction: str) -> list[Source]:
        """Return the sources that can serve an instruction, the one that does first: what was chosen last.

        Where nothing was chosen it is what an encoder reads under it, if that has a view.
        """
        normal, choices = normal_instruction(instruction), self._store.serves.choices()
        found = [source for source in self.visible() if source.instruction == normal]
        return sorted(found, key=lambda source: (-choices.get(source.view_id, 0), not source.reads, -source.view_id))

    def active(self, instruction: str) -> Source | None:
        """Return the source that serves an instruction; None where it has no view yet."""
        return next(iter(self.candidates(instruction)), None)

    def of(self, instruction: str) -> Source:
        """Return the source that serves an instruction: one that is stored, else what is read under it."""
        return self.active(instruction) or self.read(instruction)

    def searched(self, request: SearchRequest) -> Source:
        """Return the source that a search goes by: what serves its instruction.

        An encoder that follows instructions in queries has read the texts already, in the base view. Documents like one
        (``like``) are compared as the instruction has them read.
        """
        source = self.of(request.instruction or "")
        if self.encoders.separate or not isinstance(source, Question) or request.like is not None:
            return source
        return Instructed(self.base, source.instruction) if source.encoder.spec.prompts.instructed else source

    @property
    def base(self) -> Source:
        """The base view's source."""
        return self.of("")

    def read(self, instruction: str) -> Source:
        """Return the source of what the encoders alone read under an instruction."""
        normal = normal_instruction(instruction)
        for source in self.visible():
            if source.reads and source.instruction == normal:
                return source
        key = self.encoders.view_key(normal)
        return (Question if key.instruction else Plain)(self.context, key)

    def choose(self, source: Source) -> None:
        """Let a source serve its instruction from now on; it is stored if it was not."""
        with self._store.writing():
            view = self.view(source) or self.store(source)
            self._store.serves.choose(source.instruction, view.view_id)

    def store(self, source: Source) -> View:
        """Store a source, in the caller's transaction; nothing is filled."""
        view = self._store.views.ensure(source.key, lazy=source.in_words or isinstance(source, Plain))
        if not isinstance(source, Plain):
            needs = [self._store.views.ensure(need.key, lazy=True).view_id for need in source.needs]
            state = source.state()
            self._store.sources.put(
                view.view_id, source.kind, needs, state.document, state.arrays, hidden=source.hidden
            )
        return view

    def view(self, source: Source) -> View | None:
        """Return the view of a source as it is now; None where there is none yet."""
        return self._store.views.find(source.key)

    def with_dependents(self, sources: Iterable[Source]) -> list[Source]:
        """Return sources with what they need and what has vectors of the same texts, needed ones first."""
        ordered: dict[Source, None] = {}

        def add(source: Source) -> None:
            for need in source.needs:
                add(need)
            ordered[source] = None

        for source in sources:
            add(source)
        for source in self.all():
            if source.root != source and source.needs[0] in ordered:
                add(source)
        return list(ordered)

    def family(self, source: Source) -> list[Source]:
        """Return the source of a question's view with those that have its texts, itself first, hidden ones too."""
        return [other for other in self.with_dependents([source]) if other.root == source]

    def stored(self, source: Source, ids: Ids) -> StoredVectors:
        """Return the vectors of a source's view that exist among some contents."""
        return self._store.vectors.get(self._view_id(source), ids)

    def held(self, source: Source) -> Ids:
        """Return the contents that a source's view has vectors of, ascending."""
        return self._store.vectors.held(self._view_id(source))

    def unmakeable(self) -> list[int]:
        """Return the made views whose vectors nothing can make: of which what makes them is gone or cannot be read."""
        rows, views = {row.view_id: row for row in self._store.sources.rows()}, self._store.views.all()
        known = {view.view_id for view in views}
        made = [view.view_id for view in views if view.key.fingerprint.partition(":")[0] in KINDS]
        lost = [view_id for view_id in made if view_id not in rows or not known.issuperset(rows[view_id].needs)]
        for source in self.all(lambda view: True):
            try:
                source.check()
            except IndexDamagedError:
                lost.append(source.view_id)
        return lost

    def _open(self, view: View, row: SourceRow, needs: list[Source]) -> Source:
        """Return a made source; what was stored of it is read when it is asked for, and again where it has changed."""
        name = view.view_id, row.digest
        known = self._opened.get(name)
        if known is None or known.needs != tuple(needs):

            def load() -> StoredSource:
                stored = self._store.sources.get(view.view_id)
                if stored is None:
                    raise IndexDamagedError(f"What makes view {view.view_id} is gone.", hint=REPAIR)
                return stored

            known = KINDS[row.kind](self.context, view.key, needs, view, load)
            self._opened[name] = known
        known.view = view  # another note of its use
        return known

    def _view_id(self, source: Source) -> int:
        view = self.view(source)
        return 0 if view is None else view.view_id


def sources_of(store: Store, load: Loader = load_described) -> Sources:
    """Return the sources of an index by its database alone; no encoder is loaded before a text is read."""
    return Sources(store, Encoders(encoder_descriptions(store), load))


def own_views(store: Store) -> list[View]:
    """Return the views of the index's encoders that are asked for: one of each question, and what was given for it."""
    return [source.view for source in sources_of(store).visible() if source.root is source and source.view]
