"""What is handed over of an index: documents with the vectors of every complete view, in one order."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from retriever.core.types import Document, Embeddings
from retriever.index.status import own_views
from retriever.store.database import Store
from retriever.store.views import View

BASE = "base"
"""Name of the base view outside."""

_BATCH = 1000  # texts
_NAME = 48  # characters


@dataclass(frozen=True, slots=True)
class HandedView:
    """A view with the name it has outside: lower-case words of its instruction, or ``base``."""

    name: str
    view: View


@dataclass(frozen=True, slots=True)
class Rows:
    """Some documents; for each view by name, their vectors (n, dim), and the words of each."""

    documents: Sequence[Document]
    vectors: Mapping[str, Embeddings]
    words: Mapping[str, Sequence[Sequence[str]]]


class Contents:
    """The contents of an index, as they are handed over. Nobody may write to it meanwhile.

    Args:
        store: its database.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.views: list[HandedView] = []
        self.left: list[str] = []
        """Instructions of the views that lack texts, and stay behind."""
        for view in own_views(store):
            if len(store.vectors.pending(view.view_id)):
                self.left.append(view.key.instruction)
            else:
                self.views.append(HandedView(self._name(view), view))

    def rows(self, *, as_stored: bool = False) -> Iterator[Rows]:
        """Yield all documents, those with equal texts behind each other, a thousand texts at a time.

        Args:
            as_stored: give vectors as the database has them, not to the last bit of length 1.
        """
        contents = self._store.documents.live_contents()
        for start in range(0, len(contents), _BATCH):
            ids = contents[start : start + _BATCH]
            found = self._store.documents.expand(ids)
            documents = [one for content in ids.tolist() for one in found[content]]
            places = np.repeat(np.arange(len(ids)), [len(found[content]) for content in ids.tolist()])
            get = partial(self._store.vectors.get, as_stored=as_stored)
            stored = {one.name: get(one.view.view_id, ids) for one in self.views}
            yield Rows(
                documents,
                {name: one.embeddings[places] for name, one in stored.items()},
                {name: [one.words[place] for place in places] for name, one in stored.items()},
            )

    def _name(self, view: View) -> str:
        words = re.sub(r"[^a-z0-9]+", "-", view.key.instruction.lower())[:_NAME].strip("-")
        name = words or (f"view-{view.view_id}" if view.key.instruction else BASE)
        return f"{name}-{view.view_id}" if name in {one.name for one in self.views} else name
