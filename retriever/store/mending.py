"""Takes damaged rows out of the database, and makes anew what follows from other rows."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from retriever.core.encoder import TUNED
from retriever.core.types import BadRow, Document
from retriever.store import metadata
from retriever.store.connection import Connections
from retriever.store.inspection import DamagedVector
from retriever.store.stored_json import stored_json
from retriever.store.views import TAUGHT

_DAMAGED = "The stored row was damaged, and `retriever repair` took it out. Index the document again."

_VIEWS = "SELECT view_id FROM views WHERE substr(fingerprint, 1, ?) = ?"  # whose fingerprints begin with something


class Mending:
    """The changes that `retriever repair` makes to the tables. Every method joins the caller's transaction."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def reindex(self) -> None:
        """Make SQLite's own indexes anew from the tables."""
        self._db.write("REINDEX")

    @contextmanager
    def indexes_lost(self) -> Iterator[None]:
        """Let the block remove rows that SQLite's indexes do not list; `reindex` afterwards."""
        # A row that its index lacks is otherwise refused as damage. Nothing here writes to the schema.
        self._db.write("PRAGMA writable_schema = ON")
        try:
            yield
        finally:
            self._db.write("PRAGMA writable_schema = OFF")

    def remove_texts(self, content_ids: Sequence[int]) -> list[BadRow]:
        """Take texts out, with their documents, units and vectors; return those documents as bad rows.

        The word index has to be rebuilt afterwards.
        """
        removed: list[BadRow] = []
        for content_id in content_ids:
            rows = self._db.rows("SELECT rowid FROM documents WHERE content_id = ?", (content_id,))
            removed += self.remove_documents([row[0] for row in rows])
            with self._db.writing(documents=True):
                self._db.write("DELETE FROM contents WHERE content_id = ?", (content_id,))
        return removed

    def remove_documents(self, rowids: Iterable[int]) -> list[BadRow]:
        """Take documents out and return them as bad rows, with what is left of their text."""
        removed = []
        for rowid in rowids:
            with self._db.escaped_text():
                row = self._db.row(
                    "SELECT id, text FROM documents LEFT JOIN contents USING (content_id) WHERE documents.rowid = ?",
                    (rowid,),
                )
            if row is not None:
                removed.append(BadRow("", 0, row[0], _DAMAGED, row[1] or ""))
                with self._db.writing(documents=True):
                    self._db.write("DELETE FROM documents WHERE rowid = ?", (rowid,))
        return removed

    def remove_vectors(self, vectors: Iterable[DamagedVector]) -> None:
        """Take vectors out; their texts stay."""
        with self._db.writing():
            removed = list(vectors)
            self._db.write_many("DELETE FROM vectors WHERE vector_id = ?", [(one.vector_id,) for one in removed])
            views = {one.view_id for one in removed}
            self._db.write_many("UPDATE views SET removals = removals + 1 WHERE view_id = ?", [(one,) for one in views])

    def remove_quarantined(self, rowids: Iterable[int]) -> None:
        """Take rows out of quarantine."""
        self._db.write_many("DELETE FROM quarantine WHERE rowid = ?", [(one,) for one in rowids])

    def rebuild_fields(self) -> None:
        """Make the list of metadata fields anew from the documents."""
        self._db.write("DELETE FROM fields")
        for (text,) in self._db.rows("SELECT metadata FROM documents"):
            found = metadata.fields(Document("", "", stored_json(text)))
            self._db.write_many("INSERT INTO fields VALUES (?, ?) ON CONFLICT DO NOTHING", found)

    def remove_view(self, view_id: int) -> None:
        """Take a view out with its vectors and the records of its files."""
        self._db.write("DELETE FROM generations WHERE view_id = ?", (view_id,))
        self._db.write("DELETE FROM vectors WHERE view_id = ?", (view_id,))
        self._db.write("DELETE FROM views WHERE view_id = ?", (view_id,))

    def remove_untaught(self) -> None:
        """Take out heads of views that are not there or not taught, and taught and tuned views that no head names."""
        self._db.write(f"DELETE FROM heads WHERE view_id NOT IN ({_VIEWS})", (len(TAUGHT), TAUGHT))
        for prefix, column in ((TAUGHT, "view_id"), (TUNED, "plain_id")):
            lost = f"{_VIEWS} AND view_id NOT IN (SELECT {column} FROM heads)"
            for (view_id,) in self._db.rows(lost, (len(prefix), prefix)):
                self.remove_view(view_id)

    def remove_similarity(self, view_id: int) -> None:
        """Forget how alike a view's vectors are at random; it is drawn again when it is asked for."""
        self._db.write("DELETE FROM similarities WHERE view_id = ?", (view_id,))

    def remove_verdict(self, view_id: int) -> None:
        """Forget whether a view's question is followed; it is found again when it is asked for."""
        self._db.write("DELETE FROM verdicts WHERE view_id = ?", (view_id,))

    def remove_generation(self, generation_id: int) -> None:
        """Forget a vector index."""
        self._db.write("DELETE FROM generations WHERE generation_id = ?", (generation_id,))
