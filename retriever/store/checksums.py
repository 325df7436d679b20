"""Checksums inside the database, since SQLite itself notices damaged pages but not a flipped bit in a value.

Texts carry their SHA-256. Documents, units and vectors carry a CRC-32 of their row, checked whenever a row is read. The
few rows that say what everything else means (views, vector indexes, settings, metadata fields, random cosines,
verdicts, what views were taught) or what people said (edits of clusterings, marks on hits) have theirs in one table,
the seals, renewed with every transaction and checked when an index is opened.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retriever.core.errors import IndexDamagedError
from retriever.store.connection import Connections

REPAIR = "Run `retriever verify`, then `retriever repair`."

_SEALED = {
    "view": "SELECT view_id, fingerprint, instruction, pooling, steps, look_ahead, dtype, dim, lazy FROM views",
    "generation": "SELECT generation_id, view_id, backend, handle, size, watermark, recall, details, active "
    "FROM generations",
    "setting": "SELECT key, value FROM settings",
    "field": "SELECT name, path FROM fields",
    "similarity": "SELECT view_id, vectors, quantiles FROM similarities",
    "head": "SELECT view_id, source_id, plain_id, sha256, created FROM heads",
    "edit": "SELECT edit_id, clustering, change, author, made, undone FROM edits",
    "mark": "SELECT mark_id, query, instruction, document_id, liked, made FROM marks",
    "verdict": "SELECT view_id, document FROM verdicts",
}


def document_checksum(id: str, content_id: int, metadata: str) -> int:
    """Return the CRC-32 of a document's row."""
    return zlib.crc32(f"{content_id} {id}\0{metadata}".encode())


def vector_checksum(view_id: int, content_id: int, vector: bytes, words: str | None) -> int:
    """Return the CRC-32 of a vector's row."""
    return zlib.crc32(vector, zlib.crc32(f"{view_id} {content_id} {words or ''}".encode()))


def unit_checksum(whole_id: int, number: int, start: int, stop: int, content_id: int) -> int:
    """Return the CRC-32 of a unit's row."""
    return zlib.crc32(f"{whole_id} {number} {start} {stop} {content_id}".encode())


def row_checksum(row: Sequence[object]) -> int:
    """Return the CRC-32 of a row of the catalogue, its seal."""
    return zlib.crc32(repr(tuple(row)).encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class BrokenSeal:
    """A row that differs from its seal.

    Attributes:
        kind: view, generation, setting, field, similarity, verdict, head, edit or mark.
        key: the row's key, as text.
        gone: whether the row is missing.
    """

    kind: str
    key: str
    gone: bool

    def __str__(self) -> str:
        return f"The {self.kind} {self.key} is {'missing' if self.gone else 'not what was stored'}."


class Seals:
    """The checksums of the rows that say what the others mean."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def renew(self) -> None:
        """Bring the seals up to date with what the transaction at hand has written."""
        stored, actual = self._stored(), dict(self._actual())
        changed = [(kind, key, value) for (kind, key), value in actual.items() if stored.get((kind, key)) != value]
        if changed:
            self._db.write_many("INSERT OR REPLACE INTO seals VALUES (?, ?, ?)", changed)
        if gone := stored.keys() - actual.keys():
            self._db.write_many("DELETE FROM seals WHERE kind = ? AND key = ?", gone)

    def broken(self) -> list[BrokenSeal]:
        """Return the rows that differ from their seal, or have none."""
        with self._db.snapshot(), self._db.escaped_text():
            stored, actual = self._stored(), dict(self._actual())
        names = sorted(name for name in stored.keys() | actual.keys() if stored.get(name) != actual.get(name))
        return [BrokenSeal(kind, key, (kind, key) not in actual) for kind, key in names]

    def check(self) -> None:
        """Refuse an index whose catalogue is damaged.

        Raises:
            IndexDamagedError: a row differs from its seal; the first is named.
        """
        if found := self.broken():
            raise IndexDamagedError(f"{self._db.path} is damaged: {found[0]}", hint=REPAIR)

    def _stored(self) -> dict[tuple[str, str], int]:
        return {(kind, key): value for kind, key, value in self._db.rows("SELECT kind, key, checksum FROM seals")}

    def _actual(self) -> Iterator[tuple[tuple[str, str], int]]:
        for kind, sql in _SEALED.items():
            for row in self._db.rows(sql):
                yield (kind, str(row[0])), row_checksum(row)
