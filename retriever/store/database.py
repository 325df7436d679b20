"""The store: one SQLite file that holds everything an index cannot compute again."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path

from retriever.core.closing import Closing
from retriever.core.errors import IndexDamagedError, IndexNotFoundError, RetrieverError, SchemaError
from retriever.core.paths import make_folder, sync_directory
from retriever.store.checksums import Seals
from retriever.store.clusterings import ClusteringTable
from retriever.store.connection import Connections, connect, explain
from retriever.store.documents import Documents
from retriever.store.edits import EditTable
from retriever.store.generations import Generations
from retriever.store.heads import HeadTable
from retriever.store.inspection import Inspection
from retriever.store.marks import MarkTable
from retriever.store.mending import Mending
from retriever.store.migrations import MIGRATIONS
from retriever.store.parts import Parts
from retriever.store.runs import Runs
from retriever.store.settings import Settings
from retriever.store.similarities import SimilarityTable
from retriever.store.units import Units
from retriever.store.vectors import Vectors
from retriever.store.verdicts import VerdictTable
from retriever.store.views import Views
from retriever.store.words import Words

DATABASE = "corpus.sqlite3"
"""Name of the file in an index's folder."""

_FIRST_RUN = "SELECT run_id, started FROM runs ORDER BY run_id LIMIT 1"


class Store(Closing):
    """An index's database; a context manager.

    Several threads may use one store: each gets a connection of its own, reads run in parallel and see committed data
    only, and a transaction belongs to the thread that began it. Every writing method joins the caller's `transaction`
    or is one by itself; after an error inside a transaction, let it end.
    """

    def __init__(self, connections: Connections) -> None:
        self._db = connections
        self.path = connections.path
        self.documents = Documents(connections)
        self.units = Units(connections)
        self.vectors = Vectors(connections)
        self.views = Views(connections)
        self.generations = Generations(connections)
        self.heads = HeadTable(connections)
        self.runs = Runs(connections)
        self.settings = Settings(connections)
        self.clusterings = ClusteringTable(connections)
        self.edits = EditTable(connections)
        self.marks = MarkTable(connections)
        self.similarities = SimilarityTable(connections)
        self.verdicts = VerdictTable(connections)
        self.seals = Seals(connections)
        self.inspection = Inspection(connections)
        self.mending = Mending(connections)
        self.words = Words(connections)
        self.parts = Parts(connections)
        connections.before_commit = self.seals.renew

    @classmethod
    def open(cls, path: Path, *, create: bool = False, read_only: bool = False, check: bool = True) -> "Store":
        """Open the database file, bringing an older schema up to date.

        Args:
            path: the database file itself, usually ``<index folder>/corpus.sqlite3``.
            create: make the file (readable by its owner only) and its folder when missing.
            read_only: refuse writes; the schema must be up to date.
            check: refuse a damaged catalogue; only who looks for damage does without.

        Raises:
            IndexNotFoundError: there is no index here.
            SchemaError: a newer retriever wrote it, or an older one and ``read_only`` forbids the update. The file is
                untouched.
            IndexDamagedError: the file is a link or no SQLite database, is malformed, or a row of its catalogue
                changed.
        """
        if path.is_symlink():
            raise IndexDamagedError(
                f"{path} is a link, which is not followed.",
                hint="Put the file itself in its place, or name the folder it lies in.",
            )
        if create:
            _make_private(path)
        elif not path.is_file():
            raise IndexNotFoundError(f"There is no index at {path}.", hint="Make one with `retriever index`.")
        pending = _pending(path, empty_is_new=create)
        if pending and read_only:
            raise SchemaError(
                f"{path} was written by an older version of retriever.", hint="Any command that writes updates it."
            )
        store = cls(Connections(path, read_only=read_only))
        try:
            if pending:
                store._migrate(path)
            if check:
                store.seals.check()
        except BaseException:
            store.close()
            raise
        return store

    def _migrate(self, path: Path) -> None:
        """Apply the steps that are lacking; where there are seals already, these steps renew those they have to."""
        try:
            if self._db.row("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'seals'"):
                self._db.before_commit = lambda: None
            with self.transaction():
                MIGRATIONS.apply(self._db.raw)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR:
                raise explain(error, path) from error
            raise IndexDamagedError(
                f"{path} is damaged: what it says of its schema is not what it holds ({error}).",
                hint="Restore it from a copy or an export, or index the corpus again.",
            ) from error
        finally:
            self._db.before_commit = self.seals.renew

    def close(self) -> None:
        """Close the connections of all threads."""
        self._db.close()

    def best_effort_write(self, write: Callable[[], None]) -> None:
        """Write bookkeeping that a later call can do as well: wait for nobody, and let it be where it fails."""
        with suppress(RetrieverError), self._db.no_wait(), self._db.writing(data=False):
            write()

    def transaction(self) -> AbstractContextManager[None]:
        """Commit everything the block writes, or nothing of it; transactions do not nest."""
        return self._db.transaction()

    def snapshot(self) -> AbstractContextManager[None]:
        """Let the block read one state of the database, whatever others commit meanwhile; it must not write."""
        return self._db.snapshot()

    def data_version(self) -> int:
        """Return a number that grows with every committed change of documents, vectors, views or generations.

        It is the same for every thread and process, so it can key caches. Bookkeeping (runs, settings, last use) does
        not move it.
        """
        return self._db.number("SELECT number FROM revision")

    def documents_revision(self) -> int:
        """Return a number that grows with every committed change of documents or texts, and with nothing else."""
        return self._db.number("SELECT documents FROM revision")

    def identity(self) -> str:
        """Identify this index, to tell it from another one that takes its place: by the start of its first run.

        It stays the same as long as the index lives; a copy of the files has it too.
        """
        return _told(self._db.row(_FIRST_RUN))

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database file and empty it, as far as running readers allow."""
        self._db.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def vacuum(self) -> None:
        """Give the space of removed rows and words back to the disk; needs about the file's size free meanwhile."""
        self._db.write("INSERT INTO contents_words (contents_words) VALUES ('optimize')")
        self._db.write("VACUUM")
        self.checkpoint()

    def copy_to(self, path: Path) -> None:
        """Write the present state as a database file of its own, without free pages; it must not exist."""
        _make_private(path)
        self._db.write("VACUUM INTO ?", (str(path),))

    def leave_log(self) -> None:
        """Move everything into the one file, which then needs no log; nobody else may have it open."""
        self.checkpoint()
        self._db.rows("PRAGMA journal_mode = DELETE")

    def steps(self) -> list[str]:
        """Return the names of the schema's steps, in order."""
        return MIGRATIONS.applied(self._db.raw)

    @property
    def size_bytes(self) -> int:
        """Bytes on disk, the write-ahead log included."""
        total = 0
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                total += self.path.with_name(self.path.name + suffix).stat().st_size
        return total


def identity_of(path: Path) -> str:
    """Return the `Store.identity` of a database file without opening it as an index; empty where it cannot be read."""
    with suppress(sqlite3.Error), closing(connect(path, "ro")) as connection:
        return _told(connection.execute(_FIRST_RUN).fetchone())
    return ""


def _told(first_run: Sequence[object] | None) -> str:
    return " ".join(map(str, first_run or ()))


def _make_private(path: Path) -> None:
    """Create an empty file for its owner's eyes only; SQLite gives its own files beside it the same mode."""
    try:
        make_folder(path.parent, private=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            sync_directory(path.parent)
    except OSError as error:
        raise RetrieverError(
            f"{path} cannot be made: {error.strerror or error}.", hint="Check the disk and the folder's permissions."
        ) from error


def _pending(path: Path, *, empty_is_new: bool) -> bool:
    """Return whether migrations are pending, having looked without touching the file."""
    # A process that was killed while it made the file leaves a journal, which only a writer may roll back.
    interrupted = path.with_name(f"{path.name}-journal").exists()
    try:
        with closing(connect(path, "rw" if interrupted else "ro")) as connection:
            tables = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
            applied, newer = MIGRATIONS.applied(connection), MIGRATIONS.newer(connection)
    except sqlite3.Error as error:
        raise explain(error, path) from error
    if newer:
        raise SchemaError(
            f"{path} was written by a newer version of retriever (it has {', '.join(sorted(newer))}).",
            hint="Update retriever from where it was installed.",
        )
    if not applied and (tables or not empty_is_new):
        raise IndexNotFoundError(
            f"{path} is not a retriever index.", hint="Name another folder, or make one with `retriever index`."
        )
    return not set(MIGRATIONS.names) <= set(applied)
