"""Clusterings under a name, and what people changed in them: found again unmoved by what is indexed later."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from retriever.core.errors import IndexDamagedError, InputError, UsageError
from retriever.core.text import require_text
from retriever.core.types import Embeddings
from retriever.store.columns import stored_json
from retriever.store.connection import Table, utc_now

LATER = "later"
"""Key of a document under which the clusters of texts stand that came after it was saved."""

_STORED = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class StoredClustering:
    """A clustering as it is stored.

    Attributes:
        name: what it was saved under.
        fingerprint: of the encoder its centroids belong to.
        document: JSON that describes it.
        centroids: (k, dim).
        created: ISO 8601 in UTC.
    """

    name: str
    fingerprint: str
    document: Mapping[str, Any]
    centroids: Embeddings
    created: str


class ClusteringTable(Table):
    """The index's saved clusterings."""

    def check_name(self, name: str) -> None:
        """Refuse a name that a clustering cannot be saved under.

        Raises:
            UsageError: it is empty, no text, or taken.
        """
        if not name.strip():
            raise UsageError("A clustering needs a name.")
        require_text(name)
        if self._db.row("SELECT 1 FROM clusterings WHERE name = ?", (name,)):
            raise UsageError(f"There is a clustering {name!r} already.", hint="Choose another name.")

    def save(self, name: str, fingerprint: str, document: Mapping[str, Any], centroids: Embeddings) -> None:
        """Store a clustering under a new name.

        Raises:
            UsageError: the name is empty or taken.
        """
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        blob = _blob(centroids)
        with self._db.writing(data=False):
            self.check_name(name)
            self._db.write(
                "INSERT INTO clusterings VALUES (?, ?, ?, ?, ?, ?)",
                (name, fingerprint, text, blob, _checksum(name, fingerprint, text, blob), utc_now()),
            )

    def get(self, name: str) -> StoredClustering:
        """Return the clustering of a name.

        Raises:
            UsageError: the name is no text.
            InputError: there is none; the names there are stand in the message.
            IndexDamagedError: what is stored is not what was saved.
        """
        require_text(name)
        row = self._db.row(
            "SELECT fingerprint, document, centroids, sha256, created FROM clusterings WHERE name = ?", (name,)
        )
        if row is None:
            known = ", ".join(map(str, self.names())) or "none"
            raise InputError(f"There is no saved clustering {name!r}.", hint=f"Saved: {known}.")
        fingerprint, text, blob, digest, created = row
        if digest != _checksum(name, fingerprint, text, blob):
            raise IndexDamagedError(
                f"The saved clustering {name!r} in {self._db.path} is damaged.",
                hint="Cluster again under the same instruction and save it under another name.",
            )
        document = stored_json(text)
        centroids = np.frombuffer(blob, dtype=_STORED).reshape(len(document["clusters"]), -1)
        return StoredClustering(name, fingerprint, document, centroids.astype(np.float32), created)

    def place_later(self, name: str, places: Mapping[str, Sequence[int]]) -> None:
        """Add to a clustering where documents went that came after it, by what tells their texts; the first stays.

        Raises:
            InputError: there is no such clustering.
            IndexDamagedError: what is stored is not what was saved.
        """
        with self._db.writing(data=False):
            stored = self.get(name)
            later = {**{key: list(clusters) for key, clusters in places.items()}, **stored.document.get(LATER, {})}
            text = json.dumps({**stored.document, LATER: later}, ensure_ascii=False, allow_nan=False)
            blob = _blob(stored.centroids)
            self._db.write(
                "UPDATE clusterings SET document = ?, sha256 = ? WHERE name = ?",
                (text, _checksum(name, stored.fingerprint, text, blob), name),
            )

    def names(self) -> list[str]:
        """Return the names there are, ascending."""
        return [row[0] for row in self._db.rows("SELECT name FROM clusterings ORDER BY name")]

    def damaged(self) -> dict[int, str]:
        """Return the clusterings that are not what was saved: what stands in the place of the name, by rowid."""
        with self._db.escaped_text():
            rows = self._db.rows(
                "SELECT rowid, name, fingerprint, document, centroids, sha256 FROM clusterings ORDER BY name"
            )
        return {rowid: str(row[0]) for rowid, *row, digest in rows if digest != _checksum(*row)}


@dataclass(frozen=True, slots=True)
class StoredEdit:
    """One change of a saved clustering, as it is stored.

    Attributes:
        number: grows with every edit of the index.
        change: what was done, as JSON.
        author: who did it.
        made: when, ISO 8601 in UTC.
        undone: when it was taken back; None while it holds.
    """

    number: int
    change: Mapping[str, Any]
    author: str
    made: str
    undone: str | None


class EditTable(Table):
    """The edits of the index's saved clusterings."""

    def add(self, clustering: str, changes: Sequence[Mapping[str, Any]], author: str) -> None:
        """Store changes of a clustering in the order given, all of them or none.

        Raises:
            UsageError: the author is no text.
        """
        require_text(author)
        now = utc_now()
        rows = [
            (clustering, json.dumps(change, ensure_ascii=False, allow_nan=False), author, now) for change in changes
        ]
        with self._db.writing(data=False):
            self._db.write_many("INSERT INTO edits (clustering, change, author, made) VALUES (?, ?, ?, ?)", rows)

    def all(self, clustering: str) -> list[StoredEdit]:
        """Return the edits of a clustering in the order they were made, those taken back too."""
        rows = self._db.rows(
            "SELECT edit_id, change, author, made, undone FROM edits WHERE clustering = ? ORDER BY edit_id",
            (clustering,),
        )
        return [StoredEdit(number, stored_json(change), *rest) for number, change, *rest in rows]

    def undo(self, clustering: str) -> StoredEdit | None:
        """Take back the last edit that holds and return it; None where there is none."""
        with self._db.writing(data=False):
            holding = [edit for edit in self.all(clustering) if edit.undone is None]
            if not holding:
                return None
            self._db.write("UPDATE edits SET undone = ? WHERE edit_id = ?", (utc_now(), holding[-1].number))
        return holding[-1]

    def remove_from(self, numbers: Iterable[int]) -> None:
        """Remove edits, and of the same clustering all later ones, which rest on them."""
        self._db.write_many(
            "DELETE FROM edits WHERE edit_id >= ? AND clustering = (SELECT clustering FROM edits WHERE edit_id = ?)",
            [(number, number) for number in sorted(numbers, reverse=True)],
        )


def _blob(centroids: Embeddings) -> bytes:
    return np.ascontiguousarray(centroids, dtype=_STORED).tobytes()


def _checksum(name: str, fingerprint: str, text: str, blob: bytes) -> str:
    return hashlib.sha256(b"\0".join([*(str(part).encode() for part in (name, fingerprint, text)), blob])).hexdigest()
