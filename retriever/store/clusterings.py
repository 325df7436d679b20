"""Clusterings under a name: what a person has read once and wants to find again, unmoved by what is indexed later."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from retriever.core.errors import IndexDamagedError, InputError, UsageError
from retriever.core.text import require_text
from retriever.core.types import Embeddings
from retriever.store.connection import Connections, utc_now
from retriever.store.stored_json import stored_json

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


class ClusteringTable:
    """The index's saved clusterings."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

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
        blob = np.ascontiguousarray(centroids, dtype=_STORED).tobytes()
        with self._db.writing(data=False):
            self.check_name(name)
            self._db.write(
                "INSERT INTO clusterings VALUES (?, ?, ?, ?, ?, ?)",
                (name, fingerprint, text, blob, _checksum(text, blob, name, fingerprint), utc_now()),
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
        if not _intact(name, fingerprint, text, blob, digest):
            raise IndexDamagedError(
                f"The saved clustering {name!r} in {self._db.path} is damaged.",
                hint="Cluster again under the same instruction and save it under another name.",
            )
        document = stored_json(text)
        centroids = np.frombuffer(blob, dtype=_STORED).reshape(len(document["clusters"]), -1)
        return StoredClustering(name, fingerprint, document, centroids.astype(np.float32), created)

    def names(self) -> list[str]:
        """Return the names there are, ascending."""
        return [row[0] for row in self._db.rows("SELECT name FROM clusterings ORDER BY name")]

    def damaged(self) -> dict[int, str]:
        """Return the clusterings that are not what was saved: what stands in the place of the name, by rowid."""
        with self._db.escaped_text():
            rows = self._db.rows(
                "SELECT rowid, name, fingerprint, document, centroids, sha256 FROM clusterings ORDER BY name"
            )
        return {rowid: name for rowid, name, *rest in rows if not _intact(name, *rest)}

    def remove(self, rowids: Iterable[int]) -> None:
        """Remove clusterings."""
        self._db.write_many("DELETE FROM clusterings WHERE rowid = ?", [(one,) for one in rowids])


def _intact(name: str, fingerprint: str, text: str, blob: bytes, digest: str) -> bool:
    """Return whether a row is what was saved; the checksums of older versions leave out name and fingerprint."""
    return digest in (_checksum(text, blob, name, fingerprint), _checksum(text, blob))


def _checksum(text: str, blob: bytes, *names: str) -> str:
    return hashlib.sha256(b"\0".join([*(str(one).encode() for one in (*names, text)), blob])).hexdigest()
