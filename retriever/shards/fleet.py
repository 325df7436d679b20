"""The shards as a router sees them: which answer, in which state, and what is asked of all of them at once.

What is read together is read in one `Session`: every question in it names the version of each shard that the session
began with. A shard that has moved on sends the reader back to the start; one that does not answer in time is left out
of the session, which then tells what share of the documents it saw.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from retriever.core.errors import IndexDamagedError, IndexLockedError, RetrieverError
from retriever.shards.gate import Gate
from retriever.shards.manifest import Manifest
from retriever.shards.messages import Change, Gone, Moved, Refusal, ShardState
from retriever.shards.moves import Moves
from retriever.shards.session import Scope, Session
from retriever.shards.transport import Transport
from retriever.store.lock import WriterLock

GRACE = 0.1
"""Seconds that an answer waits for a shard that was gone or late the last time."""

PATIENCE = 30.0
"""Seconds that who writes waits for a shard."""

_KEPT = 1000
_TRIES = 8  # to find all shards at the same change; a writer of another process needs milliseconds
CHANGES_LOCK = "changes.lock"


class ShardsMovedError(IndexDamagedError):
    """The shards are in another state than the one that was being read; it is asked for anew."""


class Fleet:
    """The shards of one corpus; safe in several threads.

    Args:
        transport: reaches them.
        folder: that of the shards.
        manifest: their manifest.
        deadline: seconds until an answer goes without late shards; None to wait for all.
    """

    def __init__(self, transport: Transport, folder: Path, manifest: Manifest, deadline: float | None) -> None:
        self.transport = transport
        self.folder = folder
        self.manifest = manifest
        self.deadline = deadline
        self._gate = Gate()
        self._moves = Moves(folder)
        self._changes = threading.Lock()  # one change at a time
        self._lock = threading.RLock()  # of what is known
        self._known: dict[int, ShardState] = {}
        self._stale = set(range(transport.parts))
        self._missing: set[int] = set()
        self._reason = "none came in time"  # why a shard did not answer the last time
        self._pings: dict[int, object] = {}
        self._local = threading.local()
        self.remembered: dict[object, Any] = {}
        """What was worked out from states of the shards, each with the states it holds of."""

    @property
    def parts(self) -> range:
        """The numbers of the shards."""
        return range(self.transport.parts)

    @property
    def states(self) -> dict[int, ShardState]:
        """The states of the session at hand, or the last ones that are known."""
        session: Session | None = getattr(self._local, "session", None)
        if session is not None:
            return session.states
        with self.reading() as fresh:
            return fresh.states

    def version(self) -> int:
        """Return a number that grows with every change of a shard."""
        with self._lock:
            if self._stale - self._missing:
                self._refresh(Scope(self.deadline))
            return sum(state.version for state in self._known.values())

    @contextmanager
    def answering(self, scope: Scope) -> Iterator[None]:
        """Let the block's sessions belong to an answer."""
        before = getattr(self._local, "scope", None)
        self._local.scope = scope
        try:
            yield
        finally:
            self._local.scope = before

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Give the session at hand, or begin one.

        Raises:
            RetrieverError: no shard answers.
        """
        session: Session | None = getattr(self._local, "session", None)
        if session is not None:
            yield session
            return
        scope: Scope = getattr(self._local, "scope", None) or Scope(self.deadline)
        with self._gate.reading():
            session = self._local.session = self._begun(scope)
            try:
                yield session
            finally:
                self._local.session = None
                scope.left_out |= session.left_out

    def ask(self, question: str, *arguments: object) -> dict[int, Any]:
        """Ask all shards the same; return the answers of those that answer, by shard."""
        with self.reading() as session:
            return self.ask_each(question, dict.fromkeys(session.states, arguments))

    def ask_each(self, question: str, arguments: Mapping[int, Sequence[object]]) -> dict[int, Any]:
        """Ask some shards, each with its own arguments.

        Raises:
            ShardsMovedError: one is in another state than the session's.
            RetrieverError: what a shard met, or none answers.
        """
        with self.reading() as session:
            asked = [part for part in arguments if part in session.states and part not in session.left_out]
            sent = {
                part: self.transport.send(part, question, session.states[part].version, arguments[part])
                for part in asked
            }
            answers = session.scope.gather(self.transport, sent)
            for part in asked:
                answer = answers.get(part)
                if isinstance(answer, Moved):
                    with self._lock:
                        self._stale.add(part)
                    raise ShardsMovedError(f"Shard {part} has changed meanwhile.", hint="Ask again.")
                if isinstance(answer, Refusal):
                    raise answer.error
                if part not in answers or isinstance(answer, Gone):
                    session.left_out.add(part)
                    with self._lock:
                        self._missing.add(part)
            self._require_some(session)
            return {part: answers[part] for part in asked if part not in session.left_out}

    def seen(self, scope: Scope) -> float:
        """Return the share of the documents that an answer has seen."""
        documents = {part: one.documents for part, one in enumerate(self.manifest.parts)}
        with self._lock:
            documents |= {part: state.documents for part, state in self._known.items()}
        total = sum(documents.values())
        unseen = sum(documents[part] for part in scope.left_out)
        if not scope.left_out or not total:
            return 1.0
        return min(1 - unseen / total, 0.9999)  # a shard without documents was not seen either

    # Writing.

    @contextmanager
    def changing(self, *, all_parts: bool) -> Iterator["dict[int, ShardState]"]:
        """Let the block work out and write changes, one writer at a time; gives the shards' states.

        Args:
            all_parts: whether every shard has to be there.

        Raises:
            RetrieverError: a shard does not answer.
            IndexLockedError: another process writes to the shards.
        """
        with self._changes, WriterLock(self.folder / CHANGES_LOCK):
            with self._lock:
                self._stale.update(self.parts)
                self._refresh(Scope(PATIENCE if all_parts else GRACE))
                missing = sorted(self._missing)
                states = dict(self._known)
            if missing and all_parts:
                raise RetrieverError(
                    f"Shard {missing[0]} of {self.folder} does not answer; nothing was written.",
                    hint="Run the same command again when it is back.",
                )
            self._finish_moves()
            yield states

    def write(self, changes: Mapping[int, Change], batch: int, leaving: Mapping[int, Sequence[str]]) -> None:
        """Write a change to every shard that is there. The caller is in `changing`.

        Args:
            changes: by shard; those that have nothing to change take the number of the batch alone.
            batch: the change's number; until all have it, whoever reads waits.
            leaving: documents to delete in each shard, once all others are put.

        Raises:
            RetrieverError: a shard has not taken its change.
        """
        there = self.there()
        last = set(leaving) if len(leaving) < len(there) else set(leaving) - {min(leaving)}
        first = {part: (changes.get(part, Change()), batch - (part in last)) for part in there}
        with self._gate.writing():
            try:
                if leaving:
                    self._moves.write(leaving)
                self.told(there, "change", first)
                if leaving:
                    deletes = {part: (Change(deletes=list(ids)), batch) for part, ids in leaving.items()}
                    self.told(list(leaving), "change", deletes)
                    self._moves.forget()
            finally:
                self.forget_states()

    def there(self) -> list[int]:
        """Return the shards that are not known to be missing."""
        return [part for part in self.parts if part not in self._missing]

    def told(
        self, parts: Sequence[int], question: str, arguments: "Mapping[int, Sequence[object]] | Sequence[object]" = ()
    ) -> dict[int, Any]:
        """Ask shards outside of any session, wait for all, and insist on their answers.

        Raises:
            RetrieverError: one is gone, or what it met.
        """
        own = arguments if isinstance(arguments, Mapping) else dict.fromkeys(parts, arguments)
        sent = {part: self.transport.send(part, question, None, own[part]) for part in parts}
        answers = self.transport.gather(sent, None)
        for part in parts:
            answer = answers.get(part)
            if isinstance(answer, Refusal):
                raise answer.error
            if part not in answers or isinstance(answer, Gone):
                with self._lock:
                    self._missing.add(part)
                why = answer.reason if isinstance(answer, Gone) else "it did not answer"
                raise RetrieverError(
                    f"Shard {part} of {self.folder} was lost while it was asked: {why}.",
                    hint="What other shards have stored stays; run the same command again when it is back.",
                )
        return answers

    def forget_states(self) -> None:
        """Ask every shard for its state before anything else is read."""
        with self._lock:
            self._stale.update(self.parts)

    def keep(self, key: object, value: object) -> None:
        """Keep something under a key of `remembered`; the last thousand are."""
        with self._lock:
            self.remembered.pop(key, None)
            self.remembered[key] = value
            while len(self.remembered) > _KEPT:
                self.remembered.pop(next(iter(self.remembered)))

    def _begun(self, scope: Scope) -> Session:
        """Begin a session on states that are all of the same change."""
        for attempt in range(_TRIES):
            with self._lock:
                if self._stale or self._missing:
                    self._refresh(scope)
                missing = self._missing | scope.left_out
                session = Session(dict(self._known), missing | set(self.parts) - set(self._known), scope)
            self._require_some(session)
            if len({state.batch for part, state in session.states.items() if part not in session.left_out}) == 1:
                return session
            with self._lock:  # another process is at it, or was killed at it
                self._stale.update(self.parts)
            time.sleep(0.002 * 2**attempt)
            if attempt == _TRIES // 2:
                self._level()
        raise RetrieverError(
            f"The shards of {self.folder} are not at the same change.", hint="Another process is writing; try again."
        )

    def _level(self) -> None:
        """Bring all shards to the same change after a writer that was killed; nothing where one is at work."""
        if not self._changes.acquire(blocking=False):
            return
        try:
            with suppress(IndexLockedError), WriterLock(self.folder / CHANGES_LOCK):
                self._finish_moves()
                there = self.there()
                states = self.told(there, "state")
                batch = max(state.batch for state in states.values()) + 1
                self.told(there, "change", (Change(), batch))
                self.forget_states()
        finally:
            self._changes.release()

    def _finish_moves(self) -> None:
        """Delete where they were the documents that a writer who was killed has put elsewhere."""
        left = {part: ids for part, ids in self._moves.read().items() if part in self.parts}
        if not left or self._missing:
            return
        for part, ids in left.items():
            elsewhere = self.told([other for other in self.parts if other != part], "stored", (ids,))
            twice = [id for id in ids if any(id in found for found in elsewhere.values())]
            state: ShardState = self.told([part], "state")[part]
            self.told([part], "change", (Change(deletes=twice), state.batch))
        self._moves.forget()
        self.forget_states()

    def _refresh(self, scope: Scope) -> None:
        """Ask shards whose state is not known, or that were missing, for it; the caller holds the lock."""
        asked = (self._stale | self._missing) - scope.left_out
        waited = {part: self._pings.pop(part) for part in asked if part in self._pings}  # they had their time
        fresh = {part: self.transport.send(part, "state", None, ()) for part in asked.difference(waited)}
        back = {part: one for part, one in fresh.items() if part in self._missing}
        answers = self.transport.gather(waited, 0.0)
        answers |= scope.gather(self.transport, {part: one for part, one in fresh.items() if part not in back})
        if answers or len(self._missing) < self.transport.parts:
            answers |= Scope(GRACE if scope.left is None else min(GRACE, scope.left)).gather(self.transport, back)
        else:  # without them there is no answer at all
            answers |= scope.gather(self.transport, {**waited, **back})
        for part, token in {**waited, **fresh}.items():
            answer = answers.get(part)
            if isinstance(answer, ShardState):
                self._known[part] = answer
                self._missing.discard(part)
                self._stale.discard(part)
            elif isinstance(answer, Refusal):
                raise answer.error
            else:
                self._missing.add(part)
                if isinstance(answer, Gone):
                    self._reason = answer.reason
                else:
                    self._pings[part] = token  # it may answer yet

    def _require_some(self, session: Session) -> None:
        if len(session.left_out) == self.transport.parts:
            raise RetrieverError(
                f"No shard of {self.folder} answers: {self._reason.rstrip('.')}.",
                hint="`retriever verify` looks at a shard's folder.",
            )
