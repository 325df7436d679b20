"""What views were taught by examples: how the vectors of a view become those of its taught view."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from retriever.core.encoder import TUNED
from retriever.core.errors import IndexDamagedError
from retriever.store.connection import Connections, utc_now
from retriever.store.stored_json import stored_json


@dataclass(frozen=True, slots=True)
class StoredHead:
    """A head as it is stored.

    Attributes:
        view_id: the taught view, whose vectors it gives.
        source_id: the view of the same question whose vectors it takes.
        plain_id: the base view, whose vectors it takes besides, or the view of a plain reader tuned for the question.
        arrays: its numbers, as whoever made it wrote them.
        document: JSON that describes it and what it was learned from.
        digest: SHA-256 over all these, in hex.
        created: ISO 8601 in UTC.
    """

    view_id: int
    source_id: int
    plain_id: int
    arrays: bytes
    document: Mapping[str, Any]
    digest: str
    created: str

    @property
    def identity(self) -> str:
        """Value that tells it from the heads before and after it."""
        return f"{self.view_id} {self.digest}"


class HeadTable:
    """The heads of the index's views, at most one of each."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def put(self, view_id: int, source_id: int, plain_id: int, arrays: bytes, document: Mapping[str, Any]) -> None:
        """Store the head of a view that has none.

        Args:
            view_id: the taught view, made for it.
            source_id: whose vectors it takes.
            plain_id: whose vectors it takes besides.
            arrays: its numbers.
            document: JSON that describes it.
        """
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        with self._db.writing():
            self._db.write(
                "INSERT INTO heads VALUES (?, ?, ?, ?, ?, ?, ?)",
                (view_id, source_id, plain_id, arrays, text, _digest(arrays, text), utc_now()),
            )

    def of(self, source_id: int) -> StoredHead | None:
        """Return the head that takes the vectors of a view, or None.

        Raises:
            IndexDamagedError: it is not what was stored.
        """
        row = self._db.row(
            "SELECT view_id, source_id, plain_id, arrays, document, sha256, created FROM heads NOT INDEXED "
            "WHERE source_id = ?",
            (source_id,),
        )
        if row is None:
            return None
        view_id, source, plain_id, arrays, text, digest, created = row
        if digest != _digest(arrays, text):
            raise IndexDamagedError(
                f"{self._db.path} is damaged: what view {source_id} was taught is not what was stored.",
                hint="Run `retriever repair`, then teach it again.",
            )
        return StoredHead(view_id, source, plain_id, arrays, stored_json(text), digest, created)

    def identity(self, source_id: int) -> str | None:
        """Return `StoredHead.identity` of the head that takes the vectors of a view, or None, without reading it."""
        row = self._db.row("SELECT view_id, sha256 FROM heads NOT INDEXED WHERE source_id = ?", (source_id,))
        return None if row is None else f"{row[0]} {row[1]}"

    def sources(self) -> dict[int, int]:
        """Return for every taught view the view whose vectors it is made of, and for every tuned one that beside it."""
        return dict(
            self._db.rows(
                "SELECT view_id, source_id FROM heads NOT INDEXED UNION "
                "SELECT plain_id, source_id FROM heads NOT INDEXED JOIN views ON views.view_id = plain_id "
                "WHERE substr(fingerprint, 1, ?) = ? ORDER BY 1",
                (len(TUNED), TUNED),
            )
        )

    def made_of(self, plain_id: int) -> list[int]:
        """Return the taught views that a base view's vectors are in, or those of its reader tuned, ascending."""
        rows = self._db.rows(
            "SELECT heads.view_id FROM heads NOT INDEXED JOIN views AS used ON used.view_id = plain_id "
            "JOIN views AS base ON base.view_id = ? "
            "WHERE plain_id = base.view_id OR substr(used.fingerprint, 1, ?) = ? "
            "AND substr(used.fingerprint, -length(base.fingerprint)) = base.fingerprint ORDER BY 1",
            (plain_id, len(TUNED), TUNED),
        )
        return [row[0] for row in rows]

    def damaged(self) -> list[int]:
        """Return the taught views whose head is not what was stored, ascending."""
        with self._db.escaped_text():
            rows = self._db.rows("SELECT view_id, arrays, document, sha256 FROM heads NOT INDEXED ORDER BY view_id")
        return [view_id for view_id, arrays, text, digest in rows if digest != _digest(arrays, text)]

    def remove(self, rowids: Iterable[int]) -> None:
        """Remove heads by the ids of their taught views; the views stay."""
        self._db.write_many("DELETE FROM heads WHERE view_id = ?", [(one,) for one in rowids])


def _digest(arrays: bytes, text: str) -> str:
    return hashlib.sha256(
        b"\0".join([hashlib.sha256(arrays).digest(), text.encode("utf-8", "surrogatepass")])
    ).hexdigest()
