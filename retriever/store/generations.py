"""Generations: which FAISS file serves a view, and which files nobody needs any more. Touches no file itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from retriever.core.types import JSON
from retriever.store.connection import Connections, utc_now
from retriever.store.stored_json import stored_json

_COLUMNS = "view_id, path, sha256, factory, size, watermark, recall, details, generation_id, created, active"


@dataclass(frozen=True, slots=True)
class GenerationFile:
    """A FAISS file as it was built.

    Attributes:
        path: relative to the index's folder.
        sha256: hex digest of the file.
        factory: the FAISS factory string.
        size: vectors in the file.
        watermark: the largest vector id it covers; later vectors are the view's tail.
        recall: measured recall@10 against exact search, or None for an exact index.
        details: search parameters and anything else the index layer keeps.
    """

    path: str
    sha256: str
    factory: str
    size: int
    watermark: int
    recall: float | None = None
    details: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation(GenerationFile):
    """A recorded FAISS file; at most one of a view is active."""

    generation_id: int
    view_id: int
    created: str
    active: bool


class Generations:
    """The FAISS files of the index."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def active(self, view_id: int) -> Generation | None:
        """Return the file that serves the view, or None while there is none."""
        row = self._db.row(f"SELECT {_COLUMNS} FROM generations NOT INDEXED WHERE view_id = ? AND active", (view_id,))
        return None if row is None else _generation(row)

    def activate(self, view_id: int, file: GenerationFile) -> Generation:
        """Record a finished file and let it serve the view; the one before it becomes obsolete in the same commit."""
        with self._db.writing():
            self.retire(view_id)
            details = json.dumps(dict(file.details), allow_nan=False)
            values = (file.path, file.sha256, file.factory, file.size, file.watermark, file.recall, details)
            rows = self._db.rows(
                "INSERT INTO generations (view_id, path, sha256, factory, size, watermark, recall, details, created, "
                f"active) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1) RETURNING {_COLUMNS}",
                (view_id, *values, utc_now()),
            )
        return _generation(rows[0])

    def retire(self, view_id: int) -> None:
        """Let no file serve the view any longer; its vectors are all gone."""
        with self._db.writing():
            self._db.write("UPDATE generations SET active = 0 WHERE view_id = ? AND active", (view_id,))

    def obsolete(self) -> list[Generation]:
        """Return the files that serve no view, oldest first."""
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM generations WHERE NOT active ORDER BY generation_id")
        return [_generation(row) for row in rows]

    def forget(self, generation_id: int) -> None:
        """Drop the record of an obsolete file, once the file is gone; an active one stays."""
        with self._db.writing(data=False):
            self._db.write("DELETE FROM generations WHERE generation_id = ? AND NOT active", (generation_id,))


def _generation(row: tuple[Any, ...]) -> Generation:
    view_id, path, sha256, factory, size, watermark, recall, details, generation_id, created, active = row
    return Generation(
        path=path,
        sha256=sha256,
        factory=factory,
        size=size,
        watermark=watermark,
        recall=recall,
        details=stored_json(details),
        generation_id=generation_id,
        view_id=view_id,
        created=created,
        active=bool(active),
    )
