"""Taught views: a view's vectors as a head maps them, stored beside it and kept up to date with it.

A taught view is a view of its own: its fingerprint is a hash over the encoder's and the head's, so that vectors of the
two never mix. It holds the texts that the view it is made of holds. Texts are only ever read into that one; whoever
stores vectors there calls `TaughtViews.derive` in the same transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from retriever.core.errors import IndexDamagedError
from retriever.core.types import Ids
from retriever.index.teaching.head import Head, from_stored
from retriever.store.database import Store
from retriever.store.heads import StoredHead
from retriever.store.vectors import StoredVectors
from retriever.store.views import TAUGHT, View, ViewKey

_BATCH = 4096  # texts


@dataclass(frozen=True, slots=True)
class Taught:
    """A taught view and what makes it.

    Attributes:
        view: the taught view.
        stored: its head as it is stored.
        head: the head.
    """

    view: View
    stored: StoredHead
    head: Head


class TaughtViews:
    """The taught views of an index; a head is read again only when it has changed.

    Args:
        store: the index's database.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, Taught] = {}  # by the view that they are made of

    def of(self, source: View | None) -> Taught | None:
        """Return what a view was taught, or None.

        Raises:
            IndexDamagedError: the head is not what was stored.
        """
        identity = None if source is None else self._store.heads.identity(source.view_id)
        if source is None or identity is None:
            return None
        known = self._known.get(source.view_id)
        if known is None or known.stored.identity != identity:
            known = taught_of(self._store, source)
            if known is not None:
                self._known[source.view_id] = known
        return known

    def shown(self, source: View) -> View:
        """Return the view that is searched and clustered for a question: the taught one where there is one."""
        found = self.of(source)
        return source if found is None else found.view

    def derive(self, source: View, content_ids: Sequence[int] | Ids) -> None:
        """Give the taught view of a view, if any, what it lacks of some texts, in the caller's transaction."""
        found = self.of(source)
        lacking = [] if found is None else self._store.vectors.missing(found.view.view_id, content_ids)
        for start in range(0, len(lacking), _BATCH):
            if found is not None:
                made = mapped(self._store, found, lacking[start : start + _BATCH])
                self._store.vectors.put(found.view.view_id, made.content_ids, made.embeddings, made.words)

    def derive_all(self, source: View) -> None:
        """Give the taught view of a view, if any, all that it lacks, in the caller's transaction."""
        vectors = self._store.vectors
        self.derive(source, vectors.content_ids(source.view_id, through=vectors.last_id(source.view_id)))


def taught_of(store: Store, source: View) -> Taught | None:
    """Return what a view was taught, or None; errors as `TaughtViews.of`."""
    stored = store.heads.of(source.view_id)
    if stored is None:
        return None
    views = {one.view_id: one for one in store.views.all()}
    view, head = views[stored.view_id], from_stored(stored.arrays, stored.document.get("head"))
    dims = [one.key.dim for one in (view, source, views[stored.plain_id])]
    if dims != [head.dim, len(head.mean), len(head.plain_mean)]:
        raise IndexDamagedError(
            f"What view {source.view_id} was taught does not fit its vectors.",
            hint="Run `retriever repair`, then teach it again.",
        )
    return Taught(view, stored, head)


def taught_key(source: ViewKey, plain: ViewKey, head: Head) -> ViewKey:
    """Return the identity of a taught view.

    Args:
        source: of the view it is made of.
        plain: of the base view.
        head: the head.
    """
    parts = [source.fingerprint, plain.fingerprint, head.digest()]
    return replace(source, fingerprint=TAUGHT + sha256("\0".join(parts).encode()).hexdigest(), dim=head.dim)


def mapped(store: Store, found: Taught, content_ids: Sequence[int] | Ids) -> StoredVectors:
    """Return the taught vectors of some texts, made of those stored; texts that lack one of these are left out."""
    own = store.vectors.get(found.stored.source_id, content_ids)
    plain = store.vectors.get(found.stored.plain_id, own.content_ids)
    if len(plain.content_ids) < len(own.content_ids):  # a damaged index; `verify` says what the base view lacks
        own = store.vectors.get(found.stored.source_id, plain.content_ids)
    return StoredVectors(own.content_ids, found.head.map(own.embeddings, plain.embeddings), own.words)
