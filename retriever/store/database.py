"""The store: one SQLite file that holds everything an index cannot compute again."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

from retriever.core.contexts import Closing
from retriever.core.errors import IndexDamagedError, IndexNotFoundError, RetrieverError
from retriever.core.paths import make_folder, sync_directory
from retriever.store.answers import AnswerTable
from retriever.store.asking import ClaimTable, LanguageModelTable, ReplyTable, RerankedTable, SpendingTable
from retriever.store.checksums import Seals
from retriever.store.clusterings import ClusteringTable, EditTable
from retriever.store.connection import Connections, connect
from retriever.store.damage import Inspection, Mending
from retriever.store.documents import Documents
from retriever.store.generations import Generations
from retriever.store.parts import Parts
from retriever.store.runs import Runs
from retriever.store.schema import create_tables, lacks_tables
from retriever.store.settings import Settings
from retriever.store.sources import ServesTable, SourceTable
from retriever.store.vectors import Vectors
from retriever.store.views import SampleTable, SettledTable, SimilarityTable, VerdictTable, Views
from retriever.store.word_index import WordIndex

DATABASE = "corpus.sqlite3"
"""Name of the file in an index's folder."""

_FIRST_RUN = "SELECT run_id, started FROM runs ORDER BY run_id LIMIT 1"


class Store(Closing):
    """An index's database; a context manager.

    Several threads may use one store: each gets a connection of its own, reads run in parallel and see committed data
    only, and a transaction belongs to the thread that began it. Every writing method joins the caller's `transaction`
    or is one by itself; after an error inside a transaction, let it end. For `transaction`, `writing` and `snapshot`
    see `Connections`.
    """

    def __init__(self, connections: Connections) -> None:
        self._db = connections
        self.path = connections.path
        self.transaction, self.writing = connections.transaction, connections.writing
        self.snapshot = connections.snapshot
        self.documents = Documents(connections)
        self.parts = Parts(connections)
        self.words = WordIndex(connections)
        self.vectors = Vectors(connections)
        self.views = Views(connections)
        self.generations = Generations(connections)
        self.sources = SourceTable(connections)
        self.answers = AnswerTable(connections)
        self.samples = SampleTable(connections)
        self.serves = ServesTable(connections)
        self.claims = ClaimTable(connections)
        self.spending = SpendingTable(connections)
        self.language_models = LanguageModelTable(connections)
        self.replies = ReplyTable(connections)
        self.reranked = RerankedTable(connections)
        self.runs = Runs(connections)
        self.settings = Settings(connections)
        self.clusterings = ClusteringTable(connections)
        self.edits = EditTable(connections)
        self.similarities = SimilarityTable(connections)
        self.verdicts = VerdictTable(connections)
        self.settled = SettledTable(connections)
        self.seals = Seals(connections)
        self.inspection = Inspection(connections)
        self.mending = Mending(connections)
        connections.before_begin, connections.before_commit = self.seals.watch, self.seals.renew

    @classmethod
    def open(cls, path: Path, *, create: bool = False, check: bool = True) -> "Store":
        """Open the database file.

        Args:
            path: the database file itself, usually ``<index folder>/corpus.sqlite3``.
            create: make the file (readable by its owner only) and its folder when missing.
            check: refuse a damaged catalogue; only who looks for damage does without.

        Raises:
            IndexNotFoundError: there is no index here.
            SchemaError: another version of retriever wrote it. The file is untouched.
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
        empty = lacks_tables(path, create=create)
        connections = Connections(path)
        try:
            if empty:
                create_tables(connections)
            store = cls(connections)
            if check:
                store.seals.check()
        except BaseException:
            connections.close()
            raise
        return store

    def close(self) -> None:
        """Close the connections of all threads."""
        self._db.close()

    @property
    def reading(self) -> bool:
        """Whether this thread is in a snapshot, in which it may not write."""
        return self._db.reading

    def best_effort_write(self, write: Callable[[], None]) -> None:
        """Write bookkeeping that a later call can do as well: wait for nobody, and let it be where it fails."""
        with suppress(RetrieverError), self._db.no_wait(), self._db.writing(data=False):
            write()

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
        """Move the write-ahead log into the database file and empty it, as far as running searches allow."""
        self._db.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def vacuum(self) -> None:
        """Give the space of removed rows and words back to the disk; needs about the file's size free meanwhile."""
        self._db.write("INSERT INTO contents_fts (contents_fts) VALUES ('optimize')")
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
