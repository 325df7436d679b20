"""The documents that are parts of others: whether there are any, how they divide their parents, and what is wrong."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from retriever.core.types import Span
from retriever.store.batches import id_batches
from retriever.store.connection import Connections

_HASH_BATCH = 500  # hashes are bound one by one
_AT_ONCE = 2000  # documents looked at
_DIVIDED = "documents INDEXED BY documents_divided WHERE parts > 0"


class _Place(NamedTuple):
    number: int
    start: int
    end: int
    text: str | None


class Parts:
    """The parts that an index's documents are divided into; false where there are none."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def __bool__(self) -> bool:
        return self._db.row(f"SELECT 1 FROM {_DIVIDED} LIMIT 1") is not None

    def reach(self, documents: int) -> int:
        """Return how many embedded texts are of at least so many texts of documents, if there are as many.

        The first of a ranking could all be parts of the documents that have most.
        """
        others = max(0, min(documents - 1, 1 << 62))
        parts, divided = self._db.row(
            f"SELECT COALESCE(SUM(most), 0), COUNT(*) FROM (SELECT MAX(parts) AS most FROM {_DIVIDED} "
            "GROUP BY content_id ORDER BY most DESC LIMIT ?)",
            (others,),
        ) or (0, 0)
        return 1 + int(parts) + others - int(divided)

    def known(self, hashes: Iterable[bytes]) -> dict[bytes, list[Span]]:
        """Return how a document with the text of a hash is divided, for every hash of such a text.

        A document of whose parts some are gone is not looked at.
        """
        wanted, divisions = list(hashes), dict[bytes, list[Span]]()
        for first in range(0, len(wanted), _HASH_BATCH):
            batch = wanted[first : first + _HASH_BATCH]
            marks = ",".join("?" * len(batch))
            rows = self._db.rows(
                "SELECT hash, start, stop FROM (SELECT hash, MIN(id) AS first FROM contents "
                f"JOIN documents USING (content_id) WHERE hash IN ({marks}) AND parts > 0 AND parts = "
                "(SELECT COUNT(*) FROM documents AS part WHERE part.parent = documents.id) GROUP BY hash) "
                "CROSS JOIN documents ON parent = first ORDER BY hash, number",
                batch,
            )
            for digest, start, stop in rows:
                divisions.setdefault(digest, []).append(Span(start, stop))
        return divisions

    def lacking(self) -> list[str]:
        """Return the ids of divided documents of whose parts some are gone, ascending."""
        rows = self._db.rows(
            f"SELECT id FROM {_DIVIDED} AND id IS NOT NULL AND parts != "
            "(SELECT COUNT(*) FROM documents AS part WHERE part.parent = documents.id) ORDER BY id"
        )
        return [row[0] for row in rows]

    def misfits(self) -> Iterator[str]:
        """Yield the ids of documents whose parts are not what they were divided into.

        Parts in order hold all of a text but the white space between them, so that none can be lost unseen.
        """
        yield from (
            row[0]
            for row in self._db.rows(
                "SELECT DISTINCT parent FROM documents WHERE parent IS NOT NULL AND NOT EXISTS "
                "(SELECT 1 FROM documents AS whole WHERE whole.id = documents.parent AND whole.parts > 0)"
            )
        )
        after = -1
        while wholes := self._db.rows(
            "SELECT documents.rowid, id, parts, text FROM documents JOIN contents USING (content_id) "
            "WHERE parts > 0 AND id IS NOT NULL AND documents.rowid > ? ORDER BY documents.rowid LIMIT ?",
            (after, _AT_ONCE),
        ):
            after, held = wholes[-1][0], self._of([row[1] for row in wholes])
            yield from (id for _, id, parts, text in wholes if not _tile(text, parts, held.get(id, ())))

    def _of(self, parents: Sequence[str]) -> dict[str, list[_Place]]:
        """Return where the parts of documents stand, in order, by the documents' ids."""
        places: dict[str, list[_Place]] = {}
        for wanted in id_batches(parents):
            for parent, *place in self._db.rows(
                "SELECT documents.parent, number, start, stop, text FROM json_each(?) AS wanted "
                "CROSS JOIN documents ON documents.parent = wanted.value LEFT JOIN contents USING (content_id) "
                "ORDER BY documents.parent, number",
                (wanted,),
            ):
                places.setdefault(parent, []).append(_Place(*place))
        return places

    def remove(self, parents: Iterable[str]) -> None:
        """Remove the parts of documents; the texts stay."""
        with self._db.writing(documents=True):
            for wanted in id_batches(list(parents)):
                self._db.write("DELETE FROM documents WHERE parent IN (SELECT value FROM json_each(?))", (wanted,))


def _tile(text: str, count: int, parts: Sequence[_Place]) -> bool:
    """Return whether so many parts, in order, hold all of a text but white space between them."""
    at = 0
    for number, part in enumerate(parts, start=1):
        if part.number != number or not at <= part.start < part.end or text[at : part.start].strip():
            return False
        if text[part.start : part.end] != part.text:
            return False
        at = part.end
    return len(parts) == count and not text[at:].strip()
