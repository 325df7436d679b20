"""SQLite connections, transactions and sqlite3's errors told in our words. Knows no table but `revision`."""

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from retriever.core.errors import IndexDamagedError, IndexLockedError, RetrieverError
from retriever.store.filter_tree import FILTER_FUNCTIONS

BUSY_SECONDS = 10.0
"""How long a statement waits for another process's transaction before it gives up."""

REPAIR = "Run `retriever verify`, then `retriever repair`."

Rows = list[tuple[Any, ...]]


class _Owned:
    """A thread's connection, closed when the thread's last reference to it goes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __del__(self) -> None:
        self.connection.close()


class Connections:
    """One SQLite connection per thread to one database file.

    Threads therefore never see each other's uncommitted changes, and searches run in parallel. A connection is closed
    when its thread ends; `close` ends them all. Every statement goes through this class, which turns sqlite3's errors
    into `RetrieverError`.

    Args:
        path: the database file; it must exist.

    Attributes:
        before_begin: called before every transaction.
        before_commit: called inside every transaction when its block has ended well.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._lock = threading.Lock()
        self._made: weakref.WeakSet[_Owned] = weakref.WeakSet()
        self._closed = False
        self.before_begin: Callable[[], None] = lambda: None
        self.before_commit: Callable[[], None] = lambda: None

    def close(self) -> None:
        """Close the connections of all threads; calling it twice is harmless."""
        with self._lock:
            self._closed = True
            for owned in list(self._made):
                owned.connection.close()

    @property
    def raw(self) -> sqlite3.Connection:
        """This thread's connection, opened at first use."""
        owned: _Owned | None = getattr(self._local, "owned", None)
        if owned is None or self._closed:
            with self._lock:
                if self._closed:
                    raise RuntimeError("this store is closed")
                with _translated(self.path):
                    owned = self._local.owned = _Owned(self._connect())
                self._made.add(owned)
        return owned.connection

    def _connect(self) -> sqlite3.Connection:
        connection = connect(self.path, "rw")
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            for name, function in FILTER_FUNCTIONS.items():
                connection.create_function(name, 2, function, deterministic=True)
        except BaseException:
            connection.close()
            raise
        return connection

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Return all rows of one statement."""
        connection = self.raw
        with _translated(self.path), closing(connection.execute(sql, parameters)) as cursor:
            return cursor.fetchall()

    def rows_of(self, batches: Iterable[str], sql: str, *parameters: object) -> Rows:
        """Return all rows of one statement for every batch of ids (`retriever.store.columns`), its first parameter."""
        return [row for batch in batches for row in self.rows(sql, (batch, *parameters))]

    def row(self, sql: str, parameters: Sequence[object] = ()) -> tuple[Any, ...] | None:
        """Return the first row of one statement, or None."""
        return next(iter(self.rows(sql, parameters)), None)

    def number(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """Return the single integer a statement yields; no row and NULL count as 0."""
        row = self.row(sql, parameters)
        return 0 if row is None else int(row[0] or 0)

    def write(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """Run one changing statement and return the number of rows it changed."""
        self._require_no_snapshot()
        connection = self.raw
        with _translated(self.path), closing(connection.execute(sql, parameters)) as cursor:
            return cursor.rowcount

    def record(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Run one changing statement of mere bookkeeping, as `writing` runs a block."""
        with self.writing(data=False):
            self.write(sql, parameters)

    def write_of(self, batches: Iterable[str], sql: str, *parameters: object) -> None:
        """Run one changing statement for every batch of ids, its first parameter."""
        for batch in batches:
            self.write(sql, (batch, *parameters))

    def write_many(self, sql: str, rows: Iterable[Sequence[object]]) -> int:
        """Run one changing statement per row and return the number of rows changed in all."""
        self._require_no_snapshot()
        connection = self.raw
        with _translated(self.path), closing(connection.executemany(sql, rows)) as cursor:
            return cursor.rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything the block writes on this thread, or nothing of it.

        Raises:
            RuntimeError: this thread is in a transaction or snapshot already.
        """
        self._require_no_snapshot()
        connection = self.raw
        if connection.in_transaction:
            raise RuntimeError("transactions do not nest")
        self.before_begin()
        self.write("BEGIN IMMEDIATE")
        try:
            self._local.changed = self._local.documents = False
            yield
            if self._local.changed:
                documents = int(self._local.documents)
                self.write("UPDATE revision SET number = number + 1, documents = documents + ?", (documents,))
            self.before_commit()
            self.write("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite rolls back by itself when, say, the disk is full
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let the block read one state of the database, whatever others commit meanwhile.

        Writing in the block is a RuntimeError, since it would not last; a snapshot within a transaction is a part of
        that, and may write.
        """
        if self.raw.in_transaction:
            yield
            return
        self.rows("BEGIN")
        self._local.reading = True
        try:
            yield
        finally:
            self._local.reading = False
            self.rows("ROLLBACK")

    @property
    def reading(self) -> bool:
        """Whether this thread is in a snapshot."""
        return bool(getattr(self._local, "reading", False))

    @property
    def has_changed_documents(self) -> bool:
        """Whether this thread is in a transaction that has changed documents or texts."""
        return self.raw.in_transaction and not self.reading and self._local.documents

    def _require_no_snapshot(self) -> None:
        if self.reading:
            raise RuntimeError("a snapshot only reads: what is written in it would not last")

    @contextmanager
    def no_wait(self) -> Iterator[None]:
        """Let the block's statements wait for nobody's transaction."""
        self.rows("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            self.rows(f"PRAGMA busy_timeout = {round(1000 * BUSY_SECONDS)}")

    @contextmanager
    def escaped_text(self) -> Iterator[None]:
        """Let the block read texts that damage has made no UTF-8, with escapes in place of the bad bytes."""
        connection = self.raw
        connection.text_factory = _escaped
        try:
            yield
        finally:
            connection.text_factory = str

    def damaged(self, what: str) -> IndexDamagedError:
        """Return the error of damage to what the file holds."""
        return IndexDamagedError(f"{self.path} is damaged: {what}.", hint=REPAIR)

    @contextmanager
    def writing(self, *, data: bool = True, documents: bool = False) -> Iterator[None]:
        """Run the block in the transaction this thread is in, or else in one of its own.

        Args:
            data: whether the block changes what a search can find; mere bookkeeping leaves the revision alone.
            documents: whether it changes documents or texts, and so their own revision as well.

        Raises:
            RuntimeError: this thread is in a snapshot.
        """
        self._require_no_snapshot()
        if self.raw.in_transaction:
            self._local.changed |= data
            self._local.documents |= documents
            yield
        else:
            with self.transaction():
                self._local.changed, self._local.documents = data, documents
                yield


class Table:
    """A table of the index's database, or several that belong together."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open the file in one of SQLite's modes, ``ro`` or ``rw``, with transactions left to the caller."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    if mode == "ro" and not (os.access(path.parent, os.W_OK) or path.with_name(f"{path.name}-wal").exists()):
        uri += "&immutable=1"  # SQLite would need to make its shared-memory file in a folder that forbids it
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, path) from error


def explain(error: sqlite3.Error, path: Path) -> Exception:
    """Translate an error of SQLite's into one that the user should read; a programming mistake comes back as it is."""
    extended = getattr(error, "sqlite_errorcode", None)
    undecodable = extended is None and str(error).startswith("Could not decode to UTF-8")
    if undecodable or "invalid fts5 file format" in str(error):  # the word index no longer says what it is
        return IndexDamagedError(f"{path} is damaged: {error}.", hint=REPAIR)
    if extended is None:
        return error
    code = extended & 0xFF
    other_schema = str(error).startswith(("no such column", "no such table"))  # a name in it is no longer ours
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT) or other_schema:
        return IndexDamagedError(
            f"{path} is damaged or no SQLite database: {error}.",
            hint="Restore it from a copy, or index the corpus again into another folder.",
        )
    if code == sqlite3.SQLITE_FULL:
        return RetrieverError(
            f"The disk is full: {path} cannot grow.",
            hint="Nothing already stored is lost; free some space and run the same command again.",
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return IndexLockedError(
            f"Another process has been writing to {path} for more than {BUSY_SECONDS:.0f} seconds.",
            hint="Run the command again when it has finished.",
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return RetrieverError(
            f"{path} cannot be opened or written: {error}.",
            hint="Check the permissions of the file and of its folder.",
        )
    if code == sqlite3.SQLITE_IOERR:
        return RetrieverError(
            f"Reading or writing {path} failed: {error}.", hint="Check the disk; what was committed before is kept."
        )
    if code == sqlite3.SQLITE_CONSTRAINT:
        return RetrieverError(
            f"{path} refused a row: {error}.", hint="It refers to a document or view that is gone; run it again."
        )
    return RetrieverError(f"{path}: {error}.", hint="`retriever status` shows the index; run the command again.")


def utc_now() -> str:
    """Return the time now, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _escaped(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
