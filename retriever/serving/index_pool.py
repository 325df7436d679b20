"""Open indexes that all clients of a process share."""

import threading
from collections import OrderedDict
from weakref import WeakValueDictionary

from retriever.core.errors import IndexNotFoundError
from retriever.index.open_index import DatabaseIdentity, database_identity
from retriever.serving.encoder_pool import EncoderPool
from retriever.serving.index_folder import IndexFolder
from retriever.workspace import Index

MOST_OPEN = 16


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
