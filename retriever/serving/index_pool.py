"""The folder of indexes that is served, all of them or one alone, and the open ones that all clients share."""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from retriever.core.errors import IndexNotFoundError, UsageError
from retriever.core.paths import plain_name
from retriever.index.opened import DatabaseIdentity, database_identity, is_index
from retriever.serving.encoder_pool import EncoderPool
from retriever.workspace import Index

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
        found = sorted(path.name for path in self.folder.glob("*") if is_index(path))
        if self.only is not None:
            return [name for name in found if name == self.only]
        return [name for name in found if not name.startswith(".")]

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
    closed when the last who holds it lets go of it, so nobody loses an index while working with it.
    """

    def __init__(self, folder: IndexFolder, encoders: EncoderPool, *, most: int = MOST_OPEN) -> None:
        self.folder = folder
        self._encoders = encoders
        self._most = most
        self._lock = threading.Lock()
        self._held: WeakValueDictionary[tuple[str, DatabaseIdentity], Index] = WeakValueDictionary()
        self._recent: OrderedDict[str, Index] = OrderedDict()

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
            self.forget(name)
            raise
        with self._lock:
            index = self._held.get((name, identity))
            if index is None:
                index = self._held[name, identity] = Index(path, load=self._encoders.described)
            self._recent[name] = index
            self._recent.move_to_end(name)
            if len(self._recent) > self._most:
                self._recent.popitem(last=False)
            return index

    def forget(self, name: str) -> None:
        """Keep an index open no longer than somebody holds it."""
        with self._lock:
            self._recent.pop(name, None)
