"""The texts of an index that have a document, read once for every revision of the documents."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from retriever.core.types import Ids
from retriever.index.search import centering
from retriever.store.database import Store


@dataclass(frozen=True, eq=False)
class LiveContents:
    """The texts that have a document, at one revision of the documents.

    Attributes:
        revision: which.
        ids: (n,) content ids, ascending.
        reach: returns how deep a ranking has to go that is to hold so many documents, if there are as many.
    """

    revision: int
    ids: Ids
    reach: Callable[[int], int]

    @cached_property
    def sample(self) -> Ids:
        """The contents whose mean a view is centred by, in the order they are wanted; none of few texts."""
        few = len(self.ids) < centering.FEW
        return self.ids[:0] if few else centering.sample(self.ids, centering.SAMPLE)


class ContentReader:
    """Reads the live contents of an index anew when its documents have changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: LiveContents | None = None

    def current(self) -> LiveContents:
        """Return the live contents of the state that this thread reads."""
        revision = self._store.documents_revision()
        read = self._read
        if read is None or read.revision != revision:
            reach = cache(self._store.parts.reach)
            read = self._read = LiveContents(revision, self._store.documents.live_contents(), reach)
        return read


def among(ids: Ids, ascending: Ids) -> NDArray[np.bool_]:
    """Return which of some ids (n,) are among others, which ascend (m,), in n log m steps."""
    if not len(ascending):
        return np.zeros(len(ids), dtype=bool)
    places = np.minimum(np.searchsorted(ascending, ids), len(ascending) - 1)
    return np.asarray(ascending[places] == ids)
