"""Clusterings under a name: what a person has read once and wants to find again, unmoved by what is indexed later."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from retriever.core.errors import IndexDamagedError, InputError, UsageError
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


class Clusterings:
    """The index's saved clusterings."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def save(self, name: str, fingerprint: str, document: Mapping[str, Any], centroids: Embeddings) -> None:
        """Store a clustering under a new name.

        Raises:
            UsageError: the name is empty or taken.
        """
        if not name.strip():
            raise UsageError("A clustering needs a name.")
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        blob = np.ascontiguousarray(centroids, dtype=_STORED).tobytes()
        with self._db.writing(data=False):
            if self._db.row("SELECT 1 FROM clusterings WHERE name = ?", (name,)):
                raise UsageError(f"There is a clustering {name!r} already.", hint="Choose another name.")
            self._db.write(
                "INSERT INTO clusterings VALUES (?, ?, ?, ?, ?, ?)",
                (name, fingerprint, text, blob, _checksum(text, blob), utc_now()),
            )

    def get(self, name: str) -> StoredClustering:
        """Return the clustering of a name.

        Raises:
            InputError: there is none; the names there are stand in the message.
            IndexDamagedError: what is stored is not what was saved.
        """
        row = self._db.row(
            "SELECT fingerprint, document, centroids, sha256, created FROM clusterings WHERE name = ?", (name,)
        )
        if row is None:
            known = ", ".join(map(str, self.names())) or "none"
            raise InputError(f"There is no saved clustering {name!r}.", hint=f"Saved: {known}.")
        fingerprint, text, blob, digest, created = row
        if _checksum(text, blob) != digest:
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
        with self._db.lenient():
            rows = self._db.rows("SELECT rowid, name, document, centroids, sha256 FROM clusterings ORDER BY name")
        return {rowid: name for rowid, name, text, blob, digest in rows if _checksum(text, blob) != digest}

    def remove(self, rowids: Iterable[int]) -> None:
        """Remove clusterings."""
        self._db.write_many("DELETE FROM clusterings WHERE rowid = ?", [(one,) for one in rowids])


def _checksum(text: str, blob: bytes) -> str:
    return hashlib.sha256(text.encode() + b"\0" + blob).hexdigest()
