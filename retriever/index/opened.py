"""The opened state of an index, which its parts share: folder, database, encoders, views and writer's lock."""

import copy
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from retriever.core.contexts import Closing
from retriever.core.errors import EncoderMismatchError, IndexNotFoundError, RetrieverError, UsageError
from retriever.core.protocols import Encoder
from retriever.core.requests import SearchOptions
from retriever.core.types import JSON
from retriever.index import encoding
from retriever.index.asking.asker import Asker
from retriever.index.asking.door import TextDoor
from retriever.index.asking.limits import Budget, ReadingLimits
from retriever.index.open_views import OpenViews
from retriever.index.run_record import recorded
from retriever.index.sources.catalog import Sources, sources_of
from retriever.index.sources.encoders import (
    ENCODER,
    BaseEncoder,
    EncoderDescriptions,
    Encoders,
    encoder_descriptions,
    load_base,
    paired,
)
from retriever.store.database import DATABASE, Store, identity_of
from retriever.store.lock import LOCK_NAME, WriterLock

DatabaseIdentity = tuple[int, int, str]
"""Tells an index's database from another one that takes its place, also in the same file.

The numbers of its file's device and inode, and when the index's first run began; empty before that.
"""


def is_index(path: Path) -> bool:
    """Whether a folder holds an index; it may be damaged."""
    return (path / DATABASE).is_file()


def database_identity(path: Path) -> DatabaseIdentity:
    """Identify the database in an index's folder, to tell it from others; it is not opened as an index.

    Raises:
        IndexNotFoundError: there is none.
    """
    try:
        stat = (path / DATABASE).stat()
    except FileNotFoundError as error:
        raise IndexNotFoundError(f"There is no index at {path}.", hint="Make one with `retriever index`.") from error
    return stat.st_dev, stat.st_ino, identity_of(path / DATABASE)


@dataclass(frozen=True, slots=True)
class _State:
    """The parts of an index while its database is open."""

    store: Store
    views: OpenViews
    asker: Asker
    budget: Budget


class Opened(Closing):
    """The opened state of one index, each of its parts there from its first use. A context manager.

    Its files are open from the first use until `close`, or until nobody holds the object any more. Arguments and errors
    as for `retriever.workspace.Index`.

    Attributes:
        door: by which texts leave for encoders that are elsewhere.
        holding: gives what holds the writer's lock while it is entered: the lock itself, which refuses a second writer,
            unless who serves several writers has put them in a line.

    Raises:
        UsageError: what was given is no `Encoder`.
    """

    def __init__(
        self,
        path: Path,
        *,
        encoder: Encoder | None = None,
        plain: BaseEncoder | None = None,
        device: str = "auto",
        load: encoding.Loader | None = None,
        search_options: SearchOptions | None = None,
        limits: ReadingLimits | None = None,
    ) -> None:
        for given in (encoder, None if plain == "none" else plain):
            if given is not None and not isinstance(given, Encoder):
                raise UsageError(
                    f"{type(given).__name__} is no encoder: an index asks for `spec` and `encode_views`.",
                    hint="Subclass retriever.core.protocols.Encoder; docs/add-an-encoder.md shows it.",
                )
        self.path = path
        self.device = device
        self.search_options = search_options or SearchOptions()
        self.door = TextDoor()
        self._limits = limits or ReadingLimits()
        self._given = encoder and encoder.through(self.door)
        self._given_plain = plain.through(self.door) if isinstance(plain, Encoder) else plain
        self._load = load or (lambda description: encoding.load_described(description, device=device))
        self._sources: Sources | None = None
        self._opening = threading.RLock()  # threads that come first together open it once
        self._state: _State | None = None
        self._closing: weakref.finalize[[], Opened] | None = None  # closes the store, once
        self._lent: Opened | None = None  # of which this has the files; it closes them
        self._through: tuple[Sources, Sources] | None = None  # the lent sources, and what they are through its own door
        self.holding: Callable[[WriterLock], AbstractContextManager[object]] = lambda lock: lock

    @property
    def store(self) -> Store:
        """The index's database.

        Raises:
            IndexNotFoundError: nothing was indexed here yet; so with `views`, `asker` and `budget`.
        """
        return self._ready(create=False).store

    @property
    def views(self) -> OpenViews:
        """The index's views, opened for searches."""
        return self._ready(create=False).views

    @property
    def asker(self) -> Asker:
        """The one object that asks language models, for as long as the index is open."""
        return self._ready(create=False).asker

    @property
    def budget(self) -> Budget:
        """The limits of what language models are asked through this object, and what was spent."""
        return self._ready(create=False).budget

    @property
    def known_sources(self) -> Sources:
        """The sources that serve instructions, by the database alone: no encoder is checked, none is loaded."""
        return sources_of(self.store, self.load)

    @property
    def sources(self) -> Sources:
        """The sources that serve instructions; each encoder is loaded on first use.

        Raises:
            UsageError: nothing was indexed here yet.
            EncoderMismatchError: a given one is not what the index was made with, or a base encoder is given and the
                index has none, or the other way round.
        """
        if self._lent is not None:
            lent = self._lent.sources
            if not lent.encoders.elsewhere:
                return lent
            if self._through is None or self._through[0] is not lent:
                self._through = lent, Sources(self.store, lent.encoders, self.door)
            return self._through[1]
        known = encoder_descriptions(self.store)
        with self._opening:
            if self._sources is None or known != self._sources.encoders.descriptions:
                if known is None:
                    raise UsageError("The index holds no documents yet.", hint="Run `retriever index CORPUS` first.")
                self._require_plain(known)
                given = self._given_plain if isinstance(self._given_plain, Encoder) else None
                question = self._given or (given if known.plain is None else None)
                question = question and encoding.checked(question, known.question)
                given = given and (given if known.plain is None else encoding.checked(given, known.plain))
                encoders = Encoders(known, self._load, question, given)  # holds no bound method: no cycle
                self._sources = Sources(self.store, encoders, self.door)
            return self._sources

    def load(self, description: Mapping[str, JSON]) -> Encoder:
        """Return the encoder of a description: one that was given, or else one that is loaded; a `Loader`.

        Raises:
            EncoderMismatchError: the given one has other settings.
            EncoderError: it cannot be loaded.
        """
        for given in (self._given, self._given_plain):
            if isinstance(given, Encoder) and encoding.makes(given, description):
                return encoding.checked(given, description)
        return self._load(description)

    def _require_plain(self, known: EncoderDescriptions) -> None:
        """Refuse an index that has a base encoder where none is asked for, or the other way round."""
        given = self._given_plain
        if isinstance(given, Encoder) and encoding.makes(given, known.question):
            given = "none"
        if given is not None and (given == "none") is not (known.plain is None):
            has = "no base encoder" if known.plain is None else f"the base encoder {known.plain.get('name')}"
            raise EncoderMismatchError(
                f"{self.path} has {has}.",
                hint="`retriever reembed --base NAME` gives it another one, `--base none` takes it away.",
            )

    def limited(self, limits: ReadingLimits) -> "Opened":
        """Return the same opened index, which stays open meanwhile, with limits of its own for what is read next."""
        state = self._ready(create=False)
        other = copy.copy(self)
        budget = Budget(state.store, limits)
        other._limits, other._state = limits, replace(state, budget=budget)
        other.door = TextDoor(state.asker.consent, lambda: budget)
        other._closing, other._lent = None, self
        return other

    def allowed(self) -> list[str]:
        """Return the hosts that may get texts; an index need not be there yet."""
        if is_index(self.path):
            self._ready(create=False)
        return self.door.hosts()

    def allow(self, host: str) -> None:
        """Allow texts to be sent to a host from now on; kept at once, or with the first run of a new index."""
        if host not in self.allowed():
            self.door.allow(host)

    def close(self) -> None:
        """Close the database."""
        if self._closing is not None:
            with suppress(RetrieverError):
                self.budget.save()
            self._closing()
            self.door.consent = self.door.budget = None
        self._closing = self._state = self._sources = None

    def _ready(self, *, create: bool) -> _State:
        with self._opening:
            if self._state is None:
                store = Store.open(self.path / DATABASE, create=create)
                self._closing = weakref.finalize(self, store.close)
                self._closing.atexit = False  # a thread may still be at work on it then
                views = OpenViews(store, self.path, device=self.device)
                budget = Budget(store, self._limits)
                self._state = _State(store, views, Asker(store), budget)
                self.door.consent, self.door.budget = self._state.asker.consent, lambda: budget
            return self._state

    @contextmanager
    def writing(self, command: str) -> Iterator[int]:
        """Hold the writer's lock over a recorded run; a new index gets its database and encoder first."""
        if command != "index" and not (self.path / DATABASE).exists():
            raise IndexNotFoundError(f"There is no index at {self.path}.", hint="Make one with `retriever index`.")
        with self.holding(WriterLock(self.path / LOCK_NAME)):
            new = command == "index" and not (
                is_index(self.path) and self._ready(create=True).store.settings.get(ENCODER) is not None
            )
            adopted = self._adopted() if new else None  # before anything is made: it may be refused
            self._ready(create=command == "index")
            if adopted is not None:
                with self.store.transaction():
                    adopted.keep(self.store)
            with recorded(self.store, command) as run_id:
                self.door.keep()
                yield run_id

    def _adopted(self) -> EncoderDescriptions:
        """Return the encoders at hand as the index's own are described."""
        self._given, self._given_plain = paired(self._given, self._given_plain)
        if self._given is None:
            from retriever.encoders import catalog

            self._given = catalog.load_encoder(device=self.device)
            if self._given_plain is None:
                self._given_plain = load_base(device=self.device)
        plain = encoding.describe(self._given_plain) if isinstance(self._given_plain, Encoder) else None
        return EncoderDescriptions.of_two(encoding.describe(self._given), plain)


class HasOpened(Protocol):
    """An object around an opened index: `retriever.workspace.Index`."""

    _opened: Opened


def opened(index: HasOpened) -> Opened:
    """Return the opened state of an index, for use cases that read its database."""
    return index._opened
