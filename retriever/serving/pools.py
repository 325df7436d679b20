"""Encoders and open indexes that all clients of a process share, and the folder of the indexes that are served."""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from retriever import load_encoder
from retriever.core.errors import IndexNotFoundError, UsageError
from retriever.core.paths import plain_name
from retriever.core.protocols import Encoder
from retriever.core.types import JSON
from retriever.index import encoding
from retriever.index.model_names import DEFAULT, default_identity
from retriever.index.opened import DatabaseIdentity, database_identity, is_index, opened
from retriever.index.sources.encoders import load_base
from retriever.serving.lines import Line
from retriever.workspace import Index

_K = TypeVar("_K")
_V = TypeVar("_V")


class _Recent(OrderedDict[_K, _V]):
    """The ``most`` values that were asked for last, by key."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: _K, value: _V) -> _V:
        """Return a value asked for now; the one asked for longest ago is no longer kept beside ``most``."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
        return value


MOST_LOADED = 4
"""Encoders that stay loaded: both encoders of two kinds of index."""


class EncoderPool:
    """Loaded encoders by their description, each loaded once, by the first thread that asks; safe in all threads.

    Who asks for an encoder that is being loaded waits for it; who asks for another one does not. The ``most`` asked for
    last stay loaded; one beyond them is let go when the last who holds it lets go of it, so none is loaded twice. One
    that cannot be loaded is tried anew at the next call.

    Args:
        load: gives the encoder of an index's description.
        wrap: what is kept and given instead of an encoder that was loaded.
        most: encoders that stay loaded though nobody holds them.
    """

    def __init__(
        self,
        load: encoding.Loader = encoding.load_described,
        *,
        wrap: Callable[[Encoder], Encoder] = lambda encoder: encoder,
        most: int = MOST_LOADED,
    ) -> None:
        self._load = load
        self._wrap = wrap
        self._lock = threading.Lock()
        self._loading: dict[str, Future[Encoder]] = {}
        self._held: WeakValueDictionary[str, Encoder] = WeakValueDictionary()
        self._recent: _Recent[int, Encoder] = _Recent(most)

    def described(self, description: Mapping[str, JSON]) -> Encoder:
        """Return the encoder that an index was made with.

        Raises:
            EncoderError: it cannot be loaded, or is another one by now.
        """
        return self._once(_name(description), lambda: self._wrap(self._load(description)))

    def default(self) -> Encoder:
        """Return the encoder of new indexes; after another model was made the default, that one.

        Raises:
            EncoderError: it cannot be loaded.
        """
        return self._once(f"default: {default_identity()}", lambda: self._same(load_encoder()))

    def named(self, name: str) -> Encoder:
        """Return an encoder by its name; ``default`` is that of new indexes.

        Raises:
            EncoderError: it cannot be loaded.
        """
        if name == DEFAULT:
            return self.default()
        return self._once(f"named: {name}", lambda: self._same(load_encoder(name)))

    def plain(self) -> Encoder:
        """Return the base encoder of new indexes.

        Raises:
            EncoderError: it cannot be loaded.
        """
        return self._once("plain", lambda: self._same(load_base()))

    def _same(self, encoder: Encoder) -> Encoder:
        """Return the object that indexes made by this encoder get too."""
        return self._once(_name(encoding.describe(encoder)), lambda: self._wrap(encoder))

    def _once(self, name: str, load: Callable[[], Encoder]) -> Encoder:
        with self._lock:
            if (held := self._held.get(name)) is not None:
                return self._recent.keep(id(held), held)
            mine = name not in self._loading
            loading = self._loading.setdefault(name, Future())
        if mine:
            try:
                encoder = load()
            except BaseException as error:
                with self._lock:
                    del self._loading[name]
                loading.set_exception(error)
            else:
                with self._lock:
                    del self._loading[name]
                    self._held[name] = self._recent.keep(id(encoder), encoder)
                loading.set_result(encoder)
        return loading.result()


def _name(description: Mapping[str, JSON]) -> str:
    return json.dumps(description, sort_keys=True)


MOST_OPEN = 16


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """A folder of indexes, known by the names of their own folders; no name leads out of it.

    New ones are made there. With ``only`` the one index of that name is served.
    """

    folder: Path
    only: str | None = None

    def names(self) -> list[str]:
        """Return the names of the indexes that are there now; what begins with a dot is a draft of one."""
        if not self.folder.is_dir():
            return []
        names = sorted(path.name for path in self.folder.glob("*") if is_index(path))
        if self.only is not None:
            return [name for name in names if name == self.only]
        return [name for name in names if not name.startswith(".")]

    def find(self, name: str) -> Path:
        """Return the folder of an index.

        Raises:
            IndexNotFoundError: there is none of that name.
        """
        if name not in self.names():
            raise IndexNotFoundError(
                f"There is no index {name!r} here any more.", hint="Choose another one, or open a file of reviews."
            )
        return self.folder / name

    def new(self, name: str) -> Path:
        """Return the folder for an index of that name, which may exist.

        Raises:
            UsageError: the name is no plain folder name, or the app was started for another index alone.
        """
        wanted = plain_name(name, "an index")
        if self.only not in (None, wanted):
            raise UsageError(
                f"Only the index {self.only!r} is served here.",
                hint="Start with a folder of indexes, not with one of them, to make others.",
            )
        return self.folder / wanted


def index_folder(path: Path) -> IndexFolder:
    """Resolve a path to one index, which is then served alone, or to a folder of indexes."""
    return IndexFolder(path.parent, path.name) if is_index(path) else IndexFolder(path)


class IndexPool:
    """Open indexes by name; safe in all threads, and so are the indexes.

    All who ask for a name at a time get the same object. The ``most`` asked for last stay open; one beyond them is
    closed when the last who holds it lets go of it, so nobody loses an index while working with it. Jobs that write to
    one index go one after the other.
    """

    def __init__(self, folder: IndexFolder, encoders: EncoderPool, *, most: int = MOST_OPEN) -> None:
        self.folder = folder
        self._encoders = encoders
        self._lock = threading.Lock()
        self._held: WeakValueDictionary[tuple[str, DatabaseIdentity], Index] = WeakValueDictionary()
        self._recent: _Recent[str, Index] = _Recent(most)
        self._lines: WeakValueDictionary[str, Line] = WeakValueDictionary()

    def get(self, name: str) -> Index:
        """Return an index; another object once another database has taken the place of the one that was open.

        Nothing is read yet: a damaged index shows at its first use.

        Raises:
            IndexNotFoundError: there is none of that name, or no longer.
        """
        try:
            path = self.folder.find(name)
            identity = database_identity(path)
        except IndexNotFoundError:
            with self._lock:
                self._recent.pop(name, None)
            raise
        line = self.line(name)
        with self._lock:
            index = self._held.get((name, identity))
            if index is None:
                index = self._held[name, identity] = Index(path, load=self._encoders.described)
                opened(index).holding = line.holding
            return self._recent.keep(name, index)

    def line(self, name: str) -> Line:
        """Return the line of the jobs that write to an index of that name, which need not be there."""
        with self._lock:
            return self._lines.setdefault(name, Line())
