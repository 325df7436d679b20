"""Generations: which vector index serves a view, and which nobody needs any more. Touches no index itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from retriever.core.errors import IndexDamagedError
from retriever.core.types import JSON
from retriever.store.columns import stored_json
from retriever.store.connection import REPAIR, Table, utc_now

_COLUMNS = "backend, handle, size, watermark, recall, details, generation_id, view_id, created, active"


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """A vector index as it was built.

    Attributes:
        backend: name of what made it and opens it.
        handle: by which that finds it again.
        size: vectors in it.
        watermark: the largest vector id it covers; later vectors are the view's tail.
        recall: measured recall@10 against exact search, or None where it was not measured.
        details: what the backend tells of it.
    """

    backend: str
    handle: Mapping[str, JSON]
    size: int
    watermark: int
    recall: float | None = None
    details: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def factory(self) -> str | None:
        """The FAISS factory string, where it is of FAISS."""
        factory = self.details.get("factory")
        return factory if isinstance(factory, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation(StoredIndex):
    """A recorded vector index; at most one of a view is active."""

    generation_id: int
    view_id: int
    created: str
    active: bool

    @property
    def name(self) -> str:
        """Name for messages: its file, where it has one."""
        return str(self.handle.get("path") or f"{self.backend} index of view {self.view_id}")


class Generations(Table):
    """The vector indexes of the views."""

    def active(self, view_id: int) -> Generation | None:
        """Return the index that serves the view, or None while there is none."""
        row = self._db.row(f"SELECT {_COLUMNS} FROM generations NOT INDEXED WHERE view_id = ? AND active", (view_id,))
        return None if row is None else _generation(row)

    def activate(self, view_id: int, built: StoredIndex) -> Generation:
        """Record a finished index and let it serve the view; the one before becomes obsolete in the same commit."""
        with self._db.writing():
            self.retire(view_id)
            handle, details = (json.dumps(dict(value), allow_nan=False) for value in (built.handle, built.details))
            values = (built.backend, handle, built.size, built.watermark, built.recall, details)
            rows = self._db.rows(
                "INSERT INTO generations (view_id, backend, handle, size, watermark, recall, details, created, active) "
                f"VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1) RETURNING {_COLUMNS}",
                (view_id, *values, utc_now()),
            )
        return _generation(rows[0])

    def retire(self, view_id: int) -> None:
        """Let no index serve the view any longer; its vectors are all gone."""
        with self._db.writing():
            self._db.write("UPDATE generations SET active = 0 WHERE view_id = ? AND active", (view_id,))

    def obsolete(self) -> list[Generation]:
        """Return the indexes that serve no view, oldest first."""
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM generations WHERE NOT active ORDER BY generation_id")
        return [_generation(row) for row in rows]

    def forget(self, generation_id: int) -> None:
        """Drop the record of an obsolete index; an active one stays."""
        self._db.record("DELETE FROM generations WHERE generation_id = ? AND NOT active", (generation_id,))


def _generation(row: tuple[Any, ...]) -> Generation:
    backend, handle, size, watermark, recall, details, number, view_id, created, active = row
    built = (backend, _object(handle), size, watermark, recall, _object(details))
    return Generation(*built, generation_id=number, view_id=view_id, created=created, active=bool(active))


def _object(text: str) -> Mapping[str, JSON]:
    value = stored_json(text)
    if not isinstance(value, dict):
        raise IndexDamagedError("The record of a vector index is no JSON object.", hint=REPAIR)
    return value
