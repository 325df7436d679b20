"""Takes out of the database what is not what was stored, and makes anew what follows from other rows."""

from collections.abc import Iterable, Iterator, Sequence

from retriever.core.types import Document
from retriever.store.checking import metadata_fields
from retriever.store.checksums import BrokenSeal, Seals
from retriever.store.clusterings import EditTable
from retriever.store.connection import Connections
from retriever.store.inspection import RowDamage
from retriever.store.parts import Parts
from retriever.store.stored_json import stored_json
from retriever.store.views import Views

_AGAIN = {
    "view": "complete its question again",
    "setting": "set it again",
    "edit": "look over the clustering that it and those after it were made in",
}
"""What to do about a row of the catalogue that is gone, by kind; those of the other kinds are made anew."""

_REFERRING = ("vectors", "similarities", "verdicts", "sources", "answers", "edits", "quarantine")


class Mending:
    """The changes that `retriever repair` makes to the tables. Every method joins the caller's transaction."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def reindex(self) -> None:
        """Make SQLite's own indexes anew from the tables."""
        self._db.write("REINDEX")

    def remove(self, damage: RowDamage, orphans: dict[str, list[int]]) -> list[str]:
        """Take damaged rows out, and rows that refer to missing ones.

        Returns:
            What nothing in the index can replace, each with what to do about it.
        """
        with self._db.writing(documents=True):
            lost = [f"document {id!r}: index it again" for id in damage.documents.values()]
            self._delete("documents", damage.documents)
            Parts(self._db).remove(damage.divided)
            self._delete("documents", orphans.get("documents", ()))
            self._db.write_many(
                "DELETE FROM contents WHERE content_id = ?", [(content_id,) for content_id in damage.texts]
            )
            self._db.write_many(
                "DELETE FROM vectors WHERE vector_id = ?", [(vector_id,) for vector_id in damage.vectors]
            )
            for table in _REFERRING:
                self._delete(table, orphans.get(table, ()))
            if quarantined := len(orphans.get("quarantine", ())):
                lost.append(f"{quarantined} rows in quarantine: their run is unknown")
            self._delete("clusterings", damage.clusterings)
            lost += [f"clustering {name!r}: cluster again and save it" for name in damage.clusterings.values()]
            self._delete("answers", damage.answers)
            lost += [f"an answer to {question!r}: read it again" for question in damage.answers.values()]
            lost += [line for seal in damage.seals for line in self._remove_sealed(seal)]
            if any(seal.kind == "field" for seal in damage.seals):
                self._rebuild_fields()
            self._db.write("UPDATE generations SET active = 0 WHERE view_id NOT IN (SELECT view_id FROM views)")
            self._db.write("UPDATE views SET removals = removals + 1")
        return lost

    def remove_views(self, view_ids: Sequence[int]) -> list[str]:
        """Take out views whose vectors can no longer be made, with all that is made of them, and hidden ones unneeded.

        Returns:
            As `remove`.
        """
        views = {view.view_id: view.key.instruction for view in Views(self._db).all()}
        gone = Views(self._db).drop(*view_ids)
        instructions = dict.fromkeys(views[view_id] for view_id in gone if views[view_id])
        return [f"what {instruction!r} was taught: teach it again" for instruction in instructions]

    def _remove_sealed(self, seal: BrokenSeal) -> Iterator[str]:
        """Take out a row of the catalogue and yield what is lost with it."""
        if seal.kind == "edit":
            EditTable(self._db).remove_from([int(seal.key)])
        elif seal.kind != "field":
            Seals(self._db).remove(seal)
        if seal.kind in _AGAIN:
            yield f"{seal.kind} {seal.key}: {_AGAIN[seal.kind]}"

    def _rebuild_fields(self) -> None:
        """Make the list of metadata fields anew from the documents."""
        self._db.write("DELETE FROM fields")
        for (text,) in self._db.rows("SELECT metadata FROM documents WHERE parent IS NULL"):
            fields = metadata_fields(Document("", "", stored_json(text)))
            self._db.write_many("INSERT INTO fields VALUES (?, ?) ON CONFLICT DO NOTHING", fields)

    def _delete(self, table: str, rowids: Iterable[int]) -> None:
        self._db.write_many(f"DELETE FROM {table} WHERE rowid = ?", [(rowid,) for rowid in rowids])
