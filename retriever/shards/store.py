"""The store of a corpus in shards: what searches read of it, and changes that are written to all shards as one."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np

from retriever.core.errors import RetrieverError
from retriever.core.types import JSON, BadRow, Embeddings, Ids
from retriever.shards.absent import Inspected, Undivided, Untaught
from retriever.shards.fleet import Fleet
from retriever.shards.manifest import NAME
from retriever.shards.messages import Change, NewVectors, ShardState
from retriever.shards.reading import (
    ShardedDocuments,
    ShardedSimilarities,
    ShardedVectors,
    ShardedViewTable,
    ViewIds,
)
from retriever.store import metadata
from retriever.store.checking import CheckedDocument
from retriever.store.documents import Upserted
from retriever.store.runs import Run
from retriever.store.views import View, ViewKey


@dataclass(slots=True)
class _Pending:
    """A transaction under way.

    Attributes:
        states: of the shards when it began.
        changes: by shard.
        home: shards of contents that are put in it.
        moved: documents that leave a shard for another, by the one they leave.
        next_content: the next content id to give.
        next_vector: the next vector id to give.
    """

    states: dict[int, ShardState]
    changes: dict[int, Change] = field(default_factory=dict)
    home: dict[int, int] = field(default_factory=dict)
    moved: dict[int, list[str]] = field(default_factory=dict)
    next_content: int = 0
    next_vector: int = 0

    def of(self, part: int) -> Change:
        """Return the change of a shard."""
        return self.changes.setdefault(part, Change())


class ShardedStore:
    """The databases of all shards as one; answers what searches and indexing ask of a `Store`.

    Args:
        fleet: the shards.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.path = fleet.folder / NAME
        self.ids = ViewIds()
        self.documents = WrittenDocuments(self)
        self.vectors = WrittenVectors(self)
        self.views = WrittenViews(self)
        self.similarities = ShardedSimilarities(fleet, self.ids)
        self.runs = ShardedRuns(self)
        self.inspection = Inspected()
        self.units = Undivided()
        self.heads = Untaught()
        self._local = threading.local()

    @property
    def pending(self) -> "_Pending | None":
        """The transaction of this thread, if it is in one."""
        found: _Pending | None = getattr(self._local, "pending", None)
        return found

    def data_version(self) -> int:
        """Return a number that grows with every committed change of data."""
        return self.fleet.version()

    def documents_revision(self) -> int:
        """Return a number that grows with every committed change of documents."""
        return sum(state.documents_revision for state in self.fleet.states.values())

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let the block read one state of all shards."""
        with self.fleet.reading():
            yield

    def best_effort_write(self, write: Callable[[], None]) -> None:
        """Write bookkeeping that a later call can do as well, and let it be where it fails."""
        with suppress(RetrieverError, OSError):
            write()

    @contextmanager
    def transaction(self, *, all_parts: bool = True) -> Iterator[None]:
        """Write what the block puts: to every shard in one transaction, to all of them as one change.

        Args:
            all_parts: whether every shard has to be there.
        """
        with self.fleet.changing(all_parts=all_parts) as states:
            if all_parts:
                self.fleet.told(self.fleet.there(), "require_free")
            pending = _Pending(
                states,
                next_content=max(state.last_content for state in states.values()) + 1,
                next_vector=max(state.last_vector for state in states.values()) + 1,
            )
            self._local.pending = pending
            try:
                yield
            finally:
                self._local.pending = None
            if pending.changes or pending.moved:
                self._write(pending)

    def _write(self, pending: _Pending) -> None:
        """Write a change to all shards; documents are put before they leave where they were."""
        batch = max(state.batch for state in pending.states.values()) + 1
        self.fleet.write(pending.changes, batch, {part: ids for part, ids in pending.moved.items() if ids})

    def put_vectors(
        self,
        view_id: int,
        content_ids: Sequence[int] | Ids,
        embeddings: Embeddings,
        words: Sequence[Sequence[str]] | None = None,
    ) -> None:
        """Store one vector per content in the shard that has it, inside a transaction."""
        pending = self.pending
        if pending is None:
            raise RuntimeError("vectors are put inside a transaction")
        ids, key = np.asarray(content_ids, dtype=np.int64), self.ids.key(view_id)
        unknown = np.array([one for one in ids.tolist() if one not in pending.home], dtype=np.int64)
        if len(unknown):
            for part, owned in self.fleet.told(self.fleet.there(), "owned", (unknown,)).items():
                pending.home.update(dict.fromkeys(owned.tolist(), part))
        homes = np.array([pending.home.get(one, -1) for one in ids.tolist()], dtype=np.int64)
        for part in np.unique(homes[homes >= 0]).tolist():
            rows = np.flatnonzero(homes == part)
            pending.of(part).vectors.append(
                NewVectors(
                    key,
                    ids[rows].tolist(),
                    (pending.next_vector + rows).tolist(),
                    embeddings[rows],
                    None if words is None else [list(words[row]) for row in rows.tolist()],
                )
            )
        pending.next_vector += len(ids)


class WrittenDocuments(ShardedDocuments):
    """The documents of all shards, also to be written."""

    def __init__(self, store: ShardedStore) -> None:
        super().__init__(store.fleet)
        self._store = store

    def by_hash(self, hashes: Iterable[bytes]) -> dict[bytes, int]:
        """Return the content id of every hash whose text is stored already."""
        return {digest: one for digest, (_, one) in self._homes(list(hashes)).items()}

    def put(self, documents: Sequence[CheckedDocument]) -> Upserted:
        """Insert or replace checked documents, in the transaction at hand; see `store.documents.Documents.put`.

        A text that a shard has goes there, a new one to the shard with the fewest documents. A document whose text
        changed may change its shard.
        """
        pending = self._store.pending
        if pending is None:
            raise RuntimeError("documents are put inside a transaction")
        if not documents:
            return Upserted(0, 0, 0, [], {})
        contents = self._homes([one.hash for one in documents])
        emptiest = min(pending.states, key=lambda part: (pending.states[part].documents, part))
        before = self._stored([one.document.id for one in documents])
        added = updated = 0
        content_ids = []
        for one in documents:
            if one.hash not in contents:
                contents[one.hash] = (emptiest, pending.next_content)
                pending.of(emptiest).new_ids[one.hash] = pending.next_content
                pending.next_content += 1
            part, content_id = contents[one.hash]
            pending.home[content_id] = part
            content_ids.append(content_id)
            known = before.get(one.document.id)
            if known is not None and known[1] == content_id and metadata.same(known[2], one.metadata):
                continue
            added, updated = (added + 1, updated) if known is None else (added, updated + 1)
            if known is not None and known[0] != part:
                pending.moved.setdefault(known[0], []).append(one.document.id)
            if one.document.id in pending.moved.get(part, ()):  # it comes back
                pending.moved[part].remove(one.document.id)
            before[one.document.id] = (part, content_id, one.metadata)
            pending.of(part).documents.append(one)
        texts = (one.document.text for one in documents)
        embedded = dict(zip(texts, content_ids, strict=True))
        return Upserted(added, updated, len(documents) - added - updated, content_ids, embedded)

    def delete(self, ids: Sequence[str]) -> list[str]:
        """Delete documents, in a transaction of their own, and return the ids that were there."""
        wanted = list(dict.fromkeys(ids))
        with self._store.transaction():
            pending = self._store.pending
            found = self._stored(wanted)
            for id, (part, *_) in found.items():
                if pending is not None:
                    pending.of(part).deletes.append(id)
        return [id for id in wanted if id in found]

    def delete_absent(self, keep: set[str]) -> int:
        """Delete every document whose id is not in ``keep``, in the transaction at hand, and return how many."""
        pending = self._store.pending
        if pending is None:
            raise RuntimeError("documents are deleted inside a transaction")
        there = self._store.fleet.told(self._store.fleet.there(), "count_absent", (frozenset(keep),))
        for part, count in there.items():
            if count:
                pending.of(part).keep = frozenset(keep)
        return sum(there.values())

    def _homes(self, hashes: Sequence[bytes]) -> dict[bytes, tuple[int, int]]:
        """Return shard and content id of the texts that are stored already, by hash."""
        fleet = self._store.fleet
        found: dict[bytes, tuple[int, int]] = {}
        for part, known in fleet.told(fleet.there(), "by_hash", (list(dict.fromkeys(hashes)),)).items():
            found.update({digest: (part, one) for digest, one in known.items()})
        return found

    def _stored(self, ids: Sequence[str]) -> dict[str, tuple[int, int, str]]:
        """Return shard, content id and metadata of the documents that exist, by id."""
        fleet = self._store.fleet
        found: dict[str, tuple[int, int, str]] = {}
        for part, known in fleet.told(fleet.there(), "stored", (list(dict.fromkeys(ids)),)).items():
            found.update({id: (part, *rest) for id, rest in known.items()})
        return found


class WrittenVectors(ShardedVectors):
    """The vectors of all shards, also to be written."""

    def __init__(self, store: ShardedStore) -> None:
        super().__init__(store.fleet, store.ids)
        self.put = store.put_vectors

    def missing(self, view_id: int, content_ids: Sequence[int] | Ids) -> list[int]:
        """Return those of the contents that have no vector in the view, in the order given, each once."""
        ids = list(dict.fromkeys(np.asarray(content_ids, dtype=np.int64).tolist()))
        if not ids:
            return []
        answers = self._fleet.told(self._fleet.there(), "missing", (self._ids.key(view_id), ids)).values()
        lacking = set(ids).intersection(*answers)
        return [one for one in ids if one in lacking]

    def pending(self, view_id: int) -> Ids:
        """Return the contents that have a document but no vector in the view, ascending."""
        answers = self._fleet.told(self._fleet.there(), "pending", (self._ids.key(view_id),)).values()
        return np.sort(np.concatenate([np.empty(0, np.int64), *answers]))


class WrittenViews(ShardedViewTable):
    """The views of all shards, also to be made; see `store.views.Views`."""

    def __init__(self, store: ShardedStore) -> None:
        super().__init__(store.fleet, store.ids)
        self._store = store

    def ensure(self, key: ViewKey, *, lazy: bool = False) -> View:
        """Return the view of this key, made now in every shard that is there."""
        if self._store.pending is not None:
            return self._made(key, lazy)
        known = self.find(key)
        if known is not None and (lazy or not known.lazy):
            return known
        with self._fleet.changing(all_parts=False):
            return self._made(key, lazy)

    def _made(self, key: ViewKey, lazy: bool) -> View:
        made: dict[int, View] = self._fleet.told(self._fleet.there(), "ensure", (key, lazy))
        self._fleet.forget_states()
        self._ids.used(key)
        return self._ids.view(key, [view for _, view in sorted(made.items())])


class ShardedRuns:
    """The record of what commands did: it is in the first shard."""

    def __init__(self, store: ShardedStore) -> None:
        self._store = store

    def start(self, command: str, versions: Mapping[str, JSON]) -> int:
        """Record that a command begins and return its run id."""
        run: int = self._store.fleet.told([0], "start_run", (command, dict(versions)))[0]
        return run

    def finish(self, run_id: int, failed: str = "") -> None:
        """Record how the run ended."""
        self._store.fleet.told([0], "finish_run", (run_id, failed))

    def progress(self, run_id: int, statistics: Mapping[str, JSON]) -> None:
        """Replace the run's statistics."""
        self._put(Change(run=run_id, progress=dict(statistics)))

    def quarantine(self, run_id: int, rows: Sequence[BadRow]) -> None:
        """Keep rows that were left out."""
        if rows:
            self._put(Change(run=run_id, quarantine=list(rows)))

    def last(self, count: int) -> list[Run]:
        """Return the last runs, newest first."""
        found: list[Run] = self._store.fleet.told([0], "last_runs", (count,))[0]
        return found

    def quarantined(self, run_id: int) -> list[BadRow]:
        """Return the rows a run left out."""
        found: list[BadRow] = self._store.fleet.told([0], "quarantined", (run_id,))[0]
        return found

    def _put(self, wanted: Change) -> None:
        pending = self._store.pending
        if pending is None:
            with self._store.transaction():
                self._put(wanted)
            return
        change = pending.of(0)
        change.run = wanted.run
        change.quarantine += wanted.quarantine
        change.progress = wanted.progress or change.progress
