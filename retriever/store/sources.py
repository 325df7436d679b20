"""Views that no encoder fills by reading the texts of the corpus: what makes their vectors, and of which views."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retriever.core.errors import IndexDamagedError
from retriever.store.columns import stored_json
from retriever.store.connection import Table, utc_now


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A made view in the list of all.

    Attributes:
        view_id: the view whose vectors it makes.
        kind: a name of `retriever.index.sources.catalog.KINDS`.
        needs: views whose vectors it takes.
        hidden: whether only other sources look at the view.
        digest: SHA-256 over what it was stored with, in hex: another after every change.
    """

    view_id: int
    kind: str
    needs: tuple[int, ...]
    hidden: bool
    digest: str


@dataclass(frozen=True, slots=True)
class StoredSource:
    """The origin of the vectors of a view.

    Attributes:
        state: JSON that describes it.
        arrays: its numbers, as whoever made it wrote them.
        created: ISO 8601 in UTC.
    """

    state: Mapping[str, Any]
    arrays: bytes
    created: str


class SourceTable(Table):
    """The sources of made views, at most one of each."""

    def put(
        self,
        view_id: int,
        kind: str,
        needs: Sequence[int],
        state: Mapping[str, Any],
        arrays: bytes = b"",
        *,
        hidden: bool = False,
    ) -> None:
        """Store what makes the vectors of a view, in the place of what did; see `SourceRow` and `StoredSource`."""
        text, places = json.dumps(state, ensure_ascii=False, allow_nan=False), json.dumps(list(needs))
        with self._db.writing():
            self._db.write(
                "INSERT OR REPLACE INTO sources (view_id, kind, needs, hidden, state, arrays, sha256, created) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (view_id, kind, places, hidden, text, arrays, _digest(arrays, text), utc_now()),
            )

    def get(self, view_id: int) -> StoredSource | None:
        """Return what makes the vectors of a view; None where an encoder reads texts for it.

        Raises:
            IndexDamagedError: it is not what was stored.
        """
        row = self._db.row("SELECT state, arrays, sha256, created FROM sources WHERE view_id = ?", (view_id,))
        if row is None:
            return None
        text, arrays, digest, created = row
        if digest != _digest(arrays, text):
            raise IndexDamagedError(
                f"{self._db.path} is damaged: what makes view {view_id} is not what was stored.",
                hint="Run `retriever repair`, then teach the question again.",
            )
        return StoredSource(stored_json(text), arrays, created)

    def makes(self, view_id: int) -> bool:
        """Whether a view has a source of its own, other than an encoder that reads texts under its instruction."""
        return self._db.row("SELECT 1 FROM sources WHERE view_id = ?", (view_id,)) is not None

    def rows(self) -> list[SourceRow]:
        """Return all of them, oldest view first, without what they were stored with."""
        rows = self._db.rows("SELECT view_id, kind, needs, hidden, sha256 FROM sources ORDER BY view_id")
        return [
            SourceRow(view_id, kind, tuple(stored_json(needs)), bool(hidden), digest)
            for view_id, kind, needs, hidden, digest in rows
        ]

    def damaged(self) -> list[int]:
        """Return the views of which what makes them is not what was stored, ascending."""
        with self._db.escaped_text():
            rows = self._db.rows("SELECT view_id, arrays, state, sha256 FROM sources ORDER BY view_id")
        return [view_id for view_id, arrays, text, digest in rows if digest != _digest(arrays, text)]


class ServesTable(Table):
    """The views that somebody chose to serve instructions."""

    def choose(self, instruction: str, view_id: int) -> None:
        """Let a view serve its instruction from now on; the views before it serve again where it is dropped."""
        with self._db.writing():
            self._db.write("DELETE FROM serves WHERE view_id = ?", (view_id,))
            self._db.write("INSERT INTO serves (instruction, view_id) VALUES (?, ?)", (instruction, view_id))

    def choices(self) -> dict[int, int]:
        """Return the choices by view id: of two views of an instruction, the one with the larger number serves."""
        return dict(self._db.rows("SELECT view_id, choice FROM serves ORDER BY choice"))


def with_dependents(rows: Sequence[SourceRow], view_ids: Sequence[int]) -> list[int]:
    """Return some views with all that is made of them, and with the hidden ones that nothing then needs."""
    gone = set(view_ids)
    while more := {row.view_id for row in rows if not gone.isdisjoint(row.needs)} - gone:
        gone |= more
    left = [row for row in rows if row.view_id not in gone]
    while unneeded := {row.view_id for row in left if row.hidden} - {need for row in left for need in row.needs}:
        gone |= unneeded
        left = [row for row in left if row.view_id not in gone]
    return sorted(gone)


def _digest(arrays: bytes, text: str) -> str:
    return hashlib.sha256(
        b"\0".join([hashlib.sha256(arrays).digest(), text.encode("utf-8", "surrogatepass")])
    ).hexdigest()
