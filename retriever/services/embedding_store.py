"""Vectors kept between evaluations, in one SQLite file.

The file is a cache and nothing more: it is bounded, it may be deleted at any time, and it is never trusted. A row that
differs from its checksum, or a file that SQLite cannot read, condemns the whole file, which is moved aside.
"""

import sqlite3
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from retriever.core.closing import Closing
from retriever.core.errors import IndexDamagedError
from retriever.store.connection import BUSY_SECONDS, explain, utc_now
from retriever.store.views import ViewKey

FILE = "embeddings.sqlite3"
MAX_BYTES = 8 * 2**30
"""Bytes of vectors that are kept; beyond them the encoder that was not used for longest goes first."""

_BATCH = 500  # digests are bound one by one
_VERSION = 1
_SCHEMA = """
CREATE TABLE views (
    view_id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL, instruction TEXT NOT NULL, pooling TEXT NOT NULL,
    steps INTEGER, look_ahead INTEGER, dtype TEXT NOT NULL, dim INTEGER NOT NULL,
    bytes INTEGER NOT NULL DEFAULT 0, last_used TEXT NOT NULL
);
CREATE INDEX views_by_instruction ON views (fingerprint, instruction);
CREATE TABLE vectors (
    view_id INTEGER NOT NULL, digest BLOB NOT NULL, vector BLOB NOT NULL, checksum INTEGER NOT NULL,
    UNIQUE (view_id, digest)
);
"""

_Result = TypeVar("_Result")


class EmbeddingCache(Closing):
    """Vectors by view and text, exact to the last bit. A context manager; several processes may share the file.

    Args:
        path: the file; made with its folder where there is none.
        max_bytes: bytes of vectors to keep.

    Attributes:
        notes: what the user should know, such as that a damaged file was moved aside.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self.notes: list[str] = []
        self._max_bytes = max_bytes
        self._view_ids: dict[ViewKey, int] = {}
        self._connection: sqlite3.Connection | None = None

    def get(self, key: ViewKey, digests: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """Return the vectors (dim,) that are kept, by the SHA-256 of their text."""
        return self._safely(lambda: self._get(key, digests))

    def put(self, vectors: Mapping[ViewKey, Mapping[bytes, NDArray[np.float32]]]) -> None:
        """Keep vectors (dim,) by view and text, in one transaction; make room where they exceed the bound."""
        self._safely(lambda: self._put(vectors))

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._view_ids.clear()

    @property
    def _database(self) -> sqlite3.Connection:
        """The connection, opened at first use."""
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Autocommit, and any thread: the search path may embed from another one than it was made in.
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._prepare(self._connection)
        return self._connection

    def _prepare(self, database: sqlite3.Connection) -> None:
        database.execute("PRAGMA page_size = 16384")  # several vectors a page
        database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        with _Transaction(database):
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version == 0:
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {_VERSION}")
            elif version != _VERSION:
                raise _DamagedError(f"it is of format {version}, not {_VERSION}")

    def _get(self, key: ViewKey, digests: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        view_id = self._view_id(key)
        if view_id is None:
            return {}
        found = {}
        for start in range(0, len(digests), _BATCH):
            asked = digests[start : start + _BATCH]
            rows = self._database.execute(
                "SELECT digest, vector, checksum FROM vectors WHERE view_id = ? AND digest IN "
                f"({', '.join('?' * len(asked))})",
                (view_id, *asked),
            )
            for digest, vector, checksum in rows:
                if len(vector) != 4 * key.dim or _checksum(view_id, digest, vector) != checksum:
                    raise _DamagedError("a vector differs from its checksum")
                found[digest] = np.frombuffer(vector, dtype="<f4").astype(np.float32)
        return found

    def _put(self, vectors: Mapping[ViewKey, Mapping[bytes, NDArray[np.float32]]]) -> None:
        with _Transaction(self._database) as database:
            kept = []
            for key, by_digest in vectors.items():
                view_id = self._make_view(key)
                kept.append(view_id)
                blobs = {digest: vector.astype("<f4").tobytes() for digest, vector in by_digest.items()}
                database.executemany(
                    "INSERT OR IGNORE INTO vectors VALUES (?, ?, ?, ?)",
                    ((view_id, digest, blob, _checksum(view_id, digest, blob)) for digest, blob in blobs.items()),
                )
                database.execute(
                    "UPDATE views SET bytes = bytes + ?, last_used = ? WHERE view_id = ?",
                    (sum(map(len, blobs.values())), utc_now(), view_id),
                )
            self._make_room(database, kept)

    def _view_id(self, key: ViewKey) -> int | None:
        """Return the id of a view that is kept, noting its use once a run."""
        if key not in self._view_ids:
            row = self._database.execute(
                "SELECT view_id FROM views WHERE fingerprint = ? AND instruction = ? AND pooling = ? AND steps IS ? "
                "AND look_ahead IS ? AND dtype = ? AND dim = ?",
                astuple(key),
            ).fetchone()
            if row is None:
                return None
            self._database.execute("UPDATE views SET last_used = ? WHERE view_id = ?", (utc_now(), row[0]))
            self._view_ids[key] = row[0]
        return self._view_ids[key]

    def _make_view(self, key: ViewKey) -> int:
        """Return the id of a view, made now where there is none."""
        self._view_ids.pop(key, None)  # another process may have made room by dropping it
        view_id = self._view_id(key)
        if view_id is None:
            cursor = self._database.execute(
                "INSERT INTO views (fingerprint, instruction, pooling, steps, look_ahead, dtype, dim, last_used) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*astuple(key), utc_now()),
            )
            view_id = int(cursor.lastrowid or 0)
        return view_id

    def _make_room(self, database: sqlite3.Connection, kept: Iterable[int]) -> None:
        """Drop views until the rest fits: those of the least recently used fingerprint first, ``kept`` never."""
        (held,) = database.execute("SELECT COALESCE(SUM(bytes), 0) FROM views").fetchone()
        if held <= self._max_bytes:
            return
        spared = set(kept)
        oldest_first = database.execute(
            "SELECT view_id, bytes FROM views JOIN (SELECT fingerprint, MAX(last_used) AS used FROM views "
            "GROUP BY fingerprint) USING (fingerprint) ORDER BY used, last_used, view_id"
        ).fetchall()
        for view_id, size in oldest_first:
            if held <= self._max_bytes:
                break
            if view_id not in spared:
                database.execute("DELETE FROM vectors WHERE view_id = ?", (view_id,))
                database.execute("DELETE FROM views WHERE view_id = ?", (view_id,))
                held -= size
        self._view_ids.clear()
        database.execute("PRAGMA incremental_vacuum").fetchall()

    def _safely(self, action: Callable[[], _Result]) -> _Result:
        """Run an action on the file; where the file is damaged, move it aside and run the action on a new one."""
        try:
            return action()
        except _DamagedError as error:
            self._set_aside(str(error))
        except sqlite3.Error as error:
            explained = explain(error, self.path)
            if not isinstance(explained, IndexDamagedError):
                raise explained from error
            self._set_aside(str(error))
        return action()

    def _set_aside(self, reason: str) -> None:
        self.close()
        aside = f"{self.path.name}.damaged"
        for ending in ("", "-wal", "-shm"):
            part = self.path.with_name(f"{self.path.name}{ending}")
            if part.exists():
                part.replace(part.with_name(f"{aside}{ending}"))
        self.notes.append(f"The embedding cache was set aside as {self.path.with_name(aside)}: {reason}.")


class _Transaction:
    """BEGIN IMMEDIATE to COMMIT, or nothing."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> sqlite3.Connection:
        self._database.execute("BEGIN IMMEDIATE")
        return self._database

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._database.in_transaction:
            self._database.execute("COMMIT" if kind is None else "ROLLBACK")


class _DamagedError(Exception):
    """The file holds what it should not."""


def _checksum(view_id: int, digest: bytes, vector: bytes) -> int:
    """Return the CRC-32 of a row."""
    return zlib.crc32(vector, zlib.crc32(digest, view_id & 0xFFFFFFFF))
