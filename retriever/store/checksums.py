"""Checksums inside the database, since SQLite itself notices damaged pages but not a flipped bit in a value.

Texts carry their SHA-256. Documents and vectors carry a CRC-32 of their row, checked whenever a row is read. The
few rows that say what everything else means (views, vector indexes, settings, metadata fields, random cosines,
verdicts, what makes views) or what people said (edits of clusterings) have theirs in one table,
the seals: every transaction renews those of the rows that it changed, and all are checked when an index is opened.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from retriever.core.errors import IndexDamagedError
from retriever.store.connection import REPAIR, Table

_SEALED = {
    "view": ("views", "view_id, fingerprint, instruction, pooling, steps, look_ahead, dtype, dim, lazy"),
    "generation": (
        "generations",
        "generation_id, view_id, backend, handle, size, watermark, recall, details, active",
    ),
    "setting": ("settings", "key, value"),
    "field": ("fields", "name, path"),
    "similarity": ("similarities", "view_id, vectors, quantiles"),
    "source": ("sources", "view_id, kind, needs, hidden, sha256, created"),
    "choice": ("serves", "choice, instruction, view_id"),
    "edit": ("edits", "edit_id, clustering, change, author, made, undone"),
    "verdict": ("verdicts", "view_id, document"),
}
"""By kind, the table and the columns that are sealed, the key first."""

_CHANGED = "changed_rows"
"""The connection's temporary table of the rows that a transaction changed; temporary triggers fill it."""


def document_checksum(row: Sequence[Any]) -> int:
    """Return the CRC-32 of a document's row: id, parent, number, start, stop, parts, content id and metadata."""
    id, parent, number, start, stop, parts, content_id, metadata = row
    return zlib.crc32(f"{content_id} {number} {start} {stop} {parts} {id}\0{parent}\0{metadata}".encode())


def vector_checksum(view_id: int, content_id: int, vector: bytes, words: str | None, windows: str | None = None) -> int:
    """Return the CRC-32 of a vector's row."""
    return zlib.crc32(vector, zlib.crc32(f"{view_id} {content_id} {words or ''}{windows or ''}".encode()))


def row_checksum(row: Sequence[object]) -> int:
    """Return the CRC-32 of a row of the catalogue, its seal."""
    return zlib.crc32(repr(tuple(row)).encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class BrokenSeal:
    """A row that differs from its seal.

    Attributes:
        kind: view, generation, setting, field, similarity, verdict, source, choice or edit.
        key: the row's key, as text.
        gone: whether the row is missing.
    """

    kind: str
    key: str
    gone: bool

    def __str__(self) -> str:
        return f"The {self.kind} {self.key} is {'missing' if self.gone else 'not what was stored'}."


class Seals(Table):
    """The checksums of the rows that say what the others mean."""

    def watch(self) -> None:
        """Have this thread's connection note the rows that a transaction changes; calling it again does nothing."""
        if self._db.row("SELECT 1 FROM temp.sqlite_master WHERE name = ?", (_CHANGED,)):
            return
        for kind, (table, columns) in _SEALED.items():
            key = _key(columns)
            for event, rows in (("INSERT", ["NEW"]), ("UPDATE", ["OLD", "NEW"]), ("DELETE", ["OLD"])):
                noted = ", ".join(f"('{kind}', {row}.{key})" for row in rows)
                self._db.write(
                    f"CREATE TEMP TRIGGER IF NOT EXISTS seal_{table}_{event} AFTER {event} ON main.{table} "
                    f"BEGIN INSERT INTO {_CHANGED} VALUES {noted}; END"
                )
        self._db.write(f"CREATE TEMP TABLE {_CHANGED} (kind, key)")

    def renew(self) -> None:
        """Bring the seals up to date with what the transaction at hand has written since `watch`."""
        for kind, key in self._db.rows(f"SELECT DISTINCT kind, key FROM {_CHANGED}"):
            table, columns = _SEALED[kind]
            row = self._db.row(f"SELECT {columns} FROM {table} WHERE {_key(columns)} = ?", (key,))
            seal = self._db.row("SELECT checksum FROM seals WHERE kind = ? AND key = ?", (kind, str(key)))
            if row is None:
                self._db.write("DELETE FROM seals WHERE kind = ? AND key = ?", (kind, str(key)))
            elif seal != (row_checksum(row),):  # most changes are of columns that are not sealed
                self._db.write("INSERT OR REPLACE INTO seals VALUES (?, ?, ?)", (kind, str(key), row_checksum(row)))
        self._db.write(f"DELETE FROM {_CHANGED}")

    def renew_all(self) -> None:
        """Seal every row as it is now, right or not."""
        self._db.write("DELETE FROM seals")
        self._db.write_many("INSERT INTO seals VALUES (?, ?, ?)", [(*name, value) for name, value in self._actual()])

    def remove(self, seal: BrokenSeal) -> None:
        """Take out the row that differs from a seal, if it is there."""
        table, columns = _SEALED[seal.kind]
        self._db.write(f"DELETE FROM {table} WHERE {_key(columns)} = ?", (seal.key,))

    def broken(self) -> list[BrokenSeal]:
        """Return the rows that differ from their seal, or have none."""
        with self._db.snapshot(), self._db.escaped_text():
            seals = self._db.rows("SELECT kind, key, checksum FROM seals")
            actual = dict(self._actual())
        stored = {(kind, key): value for kind, key, value in seals}
        names = sorted(name for name in stored.keys() | actual.keys() if stored.get(name) != actual.get(name))
        return [BrokenSeal(kind, key, (kind, key) not in actual) for kind, key in names]

    def check(self) -> None:
        """Refuse an index whose catalogue is damaged.

        Raises:
            IndexDamagedError: a row differs from its seal; the first is named.
        """
        if broken := self.broken():
            raise IndexDamagedError(f"{self._db.path} is damaged: {broken[0]}", hint=REPAIR)

    def _actual(self) -> Iterator[tuple[tuple[str, str], int]]:
        for kind, (table, columns) in _SEALED.items():
            for row in self._db.rows(f"SELECT {columns} FROM {table}"):
                yield (kind, str(row[0])), row_checksum(row)


def _key(columns: str) -> str:
    return columns.partition(",")[0]
