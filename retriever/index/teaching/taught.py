"""Taught views: a view's vectors as a head maps them, stored beside it and kept up to date with it.

A taught view is a view of its own: its fingerprint is a hash over the encoder's and the head's, so that vectors of the
two never mix. It holds the texts that the view it is made of holds. Texts are only ever read into that one; whoever
stores vectors there calls `TaughtViews.derive` in the same transaction.

Where a plain reader was fine-tuned for the question, the head takes its vectors in the place of the base view's. They
stand in a view besides, the tuned view, which nobody searches. Who reads texts into the view of the question calls
`TaughtViews.read_tuned` before, and needs the encoder for it.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from hashlib import sha256

from retriever.core.encoder import TUNED, Encoder, Tuning
from retriever.core.errors import IndexDamagedError
from retriever.core.types import JSON, Ids
from retriever.index.encoding import view_key
from retriever.index.readers import Readers
from retriever.index.teaching.head import Head, from_stored
from retriever.store.database import Store
from retriever.store.heads import StoredHead
from retriever.store.vectors import StoredVectors
from retriever.store.views import TAUGHT, View, ViewKey

READ_AT_ONCE = 250
"""Texts that a tuned reader reads before they are stored."""

_BATCH = 4096  # texts


@dataclass(frozen=True, slots=True)
class Taught:
    """A taught view and what makes it.

    Attributes:
        view: the taught view.
        stored: its head as it is stored.
        head: the head.
        plain: the view that it takes vectors from besides: the base view, or a tuned one.
        tuning: what tuned the plain reader; None where the base view serves.
    """

    view: View
    stored: StoredHead
    head: Head
    plain: View
    tuning: Tuning | None = None

    def reader(self, readers: Readers) -> Encoder:
        """Return the plain reader whose vectors the head takes."""
        return readers.tuned_base(self.tuning)


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

    def read_tuned(self, source: View, content_ids: Sequence[int] | Ids, readers: Readers) -> None:
        """Let the plain reader that was tuned for a view, if any, read what its view lacks of some texts, and store it.

        Errors as those of the encoder, which is loaded only where something is lacking.
        """
        found = self.of(source)
        if found is not None and found.tuning is not None:
            lacking = self._store.vectors.missing(found.plain.view_id, content_ids)
            for start in range(0, len(lacking), READ_AT_ONCE):
                read_into(self._store, found.plain, found.reader(readers), lacking[start : start + READ_AT_ONCE])

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
    tuning = _stored_tuning(stored)
    arrays = stored.arrays if tuning is None else stored.arrays[: -len(tuning.arrays)]
    view, plain, head = views[stored.view_id], views[stored.plain_id], from_stored(arrays, stored.document.get("head"))
    dims = [one.key.dim for one in (view, source, plain)]
    if dims != [head.dim, len(head.mean), len(head.plain_mean)] or plain.tuned is (tuning is None):
        raise IndexDamagedError(
            f"What view {source.view_id} was taught does not fit its vectors.",
            hint="Run `retriever repair`, then teach it again.",
        )
    return Taught(view, stored, head, plain, tuning)


def unreadable(store: Store) -> list[int]:
    """Return the taught views whose head cannot be read, or does not fit what it is made of."""
    found, views = [], {one.view_id: one for one in store.views.all()}
    for view_id, source_id in store.heads.sources().items():
        if view_id in views and source_id in views and views[view_id].taught:
            try:
                taught_of(store, views[source_id])
            except IndexDamagedError:
                found.append(view_id)
    return found


def described_tuning(tuning: Tuning) -> dict[str, JSON]:
    """Return JSON that tells where in a head's record a fine-tuning stands: behind the head, to the end."""
    return {"bytes": len(tuning.arrays), "description": dict(tuning.description)}


def _stored_tuning(stored: StoredHead) -> Tuning | None:
    found = stored.document.get("tuning")
    if found is None:
        return None
    try:
        size, description = int(found["bytes"]), dict(found["description"])
        if not 0 < size < len(stored.arrays):
            raise ValueError("it is not as long as it says")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise IndexDamagedError(
            f"What a plain reader was taught cannot be read: {error}.",
            hint="Run `retriever repair`, then teach the question again.",
        ) from error
    return Tuning(stored.arrays[-size:], description)


def read_into(store: Store, view: View, encoder: Encoder, content_ids: Sequence[int] | Ids) -> None:
    """Read texts into a tuned view, and store them, in a transaction of their own or in the caller's."""
    texts = store.documents.texts(content_ids)
    read = encoder.encode_views(list(texts.values()), [""])[0]
    store.vectors.put(view.view_id, list(texts), read.embeddings, read.words)


def taught_key(source: ViewKey, plain: ViewKey, head: Head) -> ViewKey:
    """Return the identity of a taught view.

    Args:
        source: of the view it is made of.
        plain: of the base view, or of the tuned one in its place.
        head: the head.
    """
    parts = [source.fingerprint, plain.fingerprint, head.digest()]
    return replace(source, fingerprint=TAUGHT + sha256("\0".join(parts).encode()).hexdigest(), dim=head.dim)


def tuned_key(source: ViewKey, readers: Readers, tuning: Tuning) -> ViewKey:
    """Return the identity of a tuned view: of one view of the question alone, with which it goes.

    Args:
        source: of the view of the question.
        readers: the encoders.
        tuning: what tunes the plain reader.
    """
    encoder = readers.tuned_base(tuning)
    own = sha256("\0".join([encoder.fingerprint, *map(str, astuple(source))]).encode()).hexdigest()
    fingerprint = f"{TUNED}{own}:{readers.base.fingerprint}"
    return replace(view_key(encoder, source.instruction, base=False), fingerprint=fingerprint)


def mapped(store: Store, found: Taught, content_ids: Sequence[int] | Ids) -> StoredVectors:
    """Return the taught vectors of some texts, made of those stored; texts that lack one of these are left out.

    Of a text's words the first is the answer that is likeliest by what was taught.
    """
    own = store.vectors.get(found.stored.source_id, content_ids)
    plain = store.vectors.get(found.stored.plain_id, own.content_ids)
    if len(plain.content_ids) < len(own.content_ids):  # a damaged index; `verify` says what the base view lacks
        own = store.vectors.get(found.stored.source_id, plain.content_ids)
    probable = found.head.probabilities(own.embeddings, plain.embeddings)
    taught = [found.head.answers[number] for number in probable.argmax(axis=1).tolist()]
    words = [[answer, *(one for one in said if one != answer)] for answer, said in zip(taught, own.words, strict=True)]
    return StoredVectors(own.content_ids, found.head.map(own.embeddings, plain.embeddings), words)
