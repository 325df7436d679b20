"""What of a document is embedded: its text, or the units of its text, each with its place there.

Units belong to a text, the *whole*, and so to every document that has it; each is a text of its own, so equal sentences
share a content and its vectors. Which of the two an index is made of is one of its settings. Nothing else in it
knows: vectors, vector indexes and generations are of contents, whatever those are of.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from retriever.core.errors import IndexDamagedError, UsageError
from retriever.core.fingerprint import content_hash
from retriever.core.types import Ids, Span, Unit, unit_id
from retriever.store.batches import as_ids, content_batches, id_batches
from retriever.store.checksums import REPAIR, document_checksum, unit_checksum
from retriever.store.connection import Connections, Rows
from retriever.store.filter_tree import Compiled
from retriever.store.settings import Settings
from retriever.store.stored_json import stored_json_list

UNITS = "units"
"""The setting that says what is embedded; an index without it is of whole documents."""

UnitKind = Literal["documents", "sentences"]
KINDS: tuple[UnitKind, ...] = get_args(UnitKind)
"""What can be embedded of a document."""

_HASH_BATCH = 500
_ROW = "whole_id, number, start, stop, units.content_id, units.checksum"
_UNIT = f"{_ROW}, documents.id, text, hash, metadata, documents.checksum"


@dataclass(frozen=True, slots=True)
class Scope:
    """SQL that differs between indexes of whole documents and of units.

    Attributes:
        live: the rows whose content_id is of a text that is embedded and has a document, under the name ``live``.
        holders: the documents that a content is of; ``= content id`` follows.
        accepted: every document with what is embedded of it.
        content: the column of ``holders`` and ``accepted`` with the content id of what is embedded.
    """

    live: str
    holders: str
    accepted: str
    content: str


_OF_DOCUMENTS = Scope("documents AS live", "documents WHERE documents.content_id", "documents", "documents.content_id")
_OF_UNITS = Scope(
    "(SELECT content_id FROM units WHERE EXISTS "
    "(SELECT 1 FROM documents WHERE documents.content_id = units.whole_id)) AS live",
    "units JOIN documents ON documents.content_id = units.whole_id WHERE units.content_id",
    "units JOIN documents ON documents.content_id = units.whole_id",
    "units.content_id",
)


class Units:
    """The units of the index's texts."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections
        self._settings = Settings(connections)

    @property
    def kind(self) -> UnitKind:
        """What is embedded of a document."""
        stored = self._settings.get(UNITS)
        return next((one for one in KINDS if one == stored), "documents")

    @property
    def divided(self) -> bool:
        """Whether documents are embedded in units."""
        return self._db.row("SELECT 1 FROM settings WHERE key = 'units'") is not None

    @property
    def scope(self) -> Scope:
        """The SQL of what is embedded."""
        return _OF_UNITS if self.divided else _OF_DOCUMENTS

    def choose(self, kind: UnitKind | None) -> UnitKind:
        """Settle what is embedded of documents, for good once there are any; None for what is settled.

        Raises:
            UsageError: the kind is unknown, or the index holds documents of another.
        """
        if kind is None or kind == self.kind:
            return self.kind
        if kind not in KINDS:
            raise UsageError(f"Unknown units {kind!r}.", hint=f"Known: {', '.join(KINDS)}.")
        if self._db.row("SELECT 1 FROM documents") is not None:
            raise UsageError(
                f"The units of this index are {self.kind}, and it holds documents.",
                hint="Index the corpus into another folder (--index), or leave --units out.",
            )
        with self._db.writing(documents=True):
            self._db.write("DELETE FROM units")  # of texts without a document
            if kind == "documents":
                self._settings.remove(UNITS)
            else:
                self._settings.set(UNITS, kind)
        return kind

    def count(self) -> int:
        """Count the units of all documents; 0 in an index of whole ones."""
        return self._db.number("SELECT COUNT(*) FROM documents JOIN units ON whole_id = documents.content_id")

    def largest(self, count: int) -> int:
        """Return how many units the ``count`` texts with most units have together."""
        return self._db.number(
            "SELECT SUM(size) FROM (SELECT COUNT(*) AS size FROM units GROUP BY whole_id ORDER BY size DESC LIMIT ?)",
            (count,),
        )

    def put(self, wholes: Mapping[int, Sequence[Span]], contents: Mapping[int, Sequence[int]]) -> None:
        """Store the units of texts; a text that has units already keeps them.

        Args:
            wholes: units by the content id of the whole.
            contents: the units' own content ids, likewise.
        """
        known: set[int] = set()
        for wanted in content_batches(list(wholes)):
            rows = self._db.rows(
                "SELECT DISTINCT whole_id FROM units WHERE whole_id IN (SELECT value FROM json_each(?))", (wanted,)
            )
            known.update(row[0] for row in rows)
        new = [
            (whole_id, number, span.start, span.end, content_id)
            for whole_id, spans in wholes.items()
            if whole_id not in known
            for number, (span, content_id) in enumerate(zip(spans, contents[whole_id], strict=True), start=1)
        ]
        with self._db.writing(documents=True):
            self._db.write_many(
                "INSERT INTO units (whole_id, number, start, stop, content_id, checksum) VALUES (?, ?, ?, ?, ?, ?)",
                [(*row, unit_checksum(*row)) for row in new],
            )

    def known(self, hashes: Iterable[bytes]) -> dict[bytes, list[Span]]:
        """Return the units of every hash whose text has some."""
        wanted, found = list(hashes), dict[bytes, list[Span]]()
        for start in range(0, len(wanted), _HASH_BATCH):
            batch = wanted[start : start + _HASH_BATCH]
            marks = ",".join("?" * len(batch))
            rows = self._db.rows(
                f"SELECT {_ROW}, hash FROM contents JOIN units ON whole_id = contents.content_id "
                f"WHERE hash IN ({marks}) ORDER BY whole_id, number",
                batch,
            )
            for *row, digest in rows:
                self._check(row)
                found.setdefault(digest, []).append(Span(row[2], row[3]))
        return found

    def expand(self, content_ids: Sequence[int] | Ids, condition: Compiled) -> dict[int, list[Unit]]:
        """Return the units of each content, by document and number; one without a fitting document is left out."""
        found: dict[int, list[Unit]] = {}
        for wanted in content_batches(content_ids):
            rows = self._db.rows(
                f"SELECT {_UNIT} FROM json_each(?) AS wanted "
                "CROSS JOIN units ON units.content_id = wanted.value "
                "JOIN documents ON documents.content_id = units.whole_id "
                "JOIN contents ON contents.content_id = units.content_id "
                f"WHERE {condition.sql} ORDER BY documents.id, number",
                (wanted, *condition.parameters),
            )
            for unit, content_id in zip(self._made(rows), (row[4] for row in rows), strict=True):
                found.setdefault(content_id, []).append(unit)
        return found

    def wholes(self, content_ids: Sequence[int] | Ids, condition: Compiled) -> dict[int, list[int]]:
        """Return the texts of documents, by content id, that each content is a unit of; see `expand`."""
        found: dict[int, list[int]] = {}
        for wanted in content_batches(content_ids):
            rows = self._db.rows(
                "SELECT DISTINCT units.content_id, units.whole_id FROM json_each(?) AS wanted "
                "CROSS JOIN units ON units.content_id = wanted.value "
                f"JOIN documents ON documents.content_id = units.whole_id WHERE {condition.sql}",
                (wanted, *condition.parameters),
            )
            for content_id, whole_id in rows:
                found.setdefault(content_id, []).append(whole_id)
        return found

    def get(self, ids: Sequence[str]) -> dict[str, Unit]:
        """Return the units that exist, by their ids."""
        asked = set(ids)
        found: dict[str, Unit] = {}
        for wanted in id_batches(list({one.rpartition("#")[0] for one in ids})):
            rows = self._db.rows(
                f"SELECT {_UNIT} FROM json_each(?) AS wanted CROSS JOIN documents ON documents.id = wanted.value "
                "JOIN units ON units.whole_id = documents.content_id "
                "JOIN contents ON contents.content_id = units.content_id",
                (wanted,),
            )
            chosen = [row for row in rows if unit_id(row[6], row[1]) in asked]
            found.update((unit.id, unit) for unit in self._made(chosen))
        return found

    def contents_of(self, ids: Iterable[str]) -> Ids:
        """Return the content ids of units, by their ids, ascending."""
        asked = set(ids)
        found: set[int] = set()
        for wanted in id_batches(list({one.rpartition("#")[0] for one in asked})):
            rows = self._db.rows(
                "SELECT documents.id, number, units.content_id FROM json_each(?) AS wanted "
                "CROSS JOIN documents ON documents.id = wanted.value "
                "JOIN units ON units.whole_id = documents.content_id",
                (wanted,),
            )
            found.update(content_id for id, number, content_id in rows if unit_id(id, number) in asked)
        return as_ids([(one,) for one in sorted(found)])

    def undivided(self) -> Ids:
        """Return the texts of documents that have no units, ascending; none in an index of whole documents."""
        if not self.divided:
            return as_ids([])
        return as_ids(
            self._db.rows(
                "SELECT DISTINCT content_id FROM documents WHERE NOT EXISTS "
                "(SELECT 1 FROM units WHERE units.whole_id = documents.content_id) ORDER BY content_id"
            )
        )

    def damaged(self) -> list[int]:
        """Return the texts of documents whose units are not what was stored, or not all there, ascending.

        Units in order hold all of a text but the white space between them, so that none can be lost unseen.
        """
        if not self.divided:
            return []
        wrong = set(self.undivided().tolist())
        rows = self._db.rows(f"SELECT {_ROW}, text FROM units LEFT JOIN contents USING (content_id)")
        held: dict[int, list[tuple[int, int, str | None, int]]] = {}
        for *row, text in rows:
            if unit_checksum(*row[:5]) != row[5]:
                wrong.add(row[0])
            held.setdefault(row[0], []).append((row[1], row[2], text, row[3]))
        for wanted in content_batches(list(held)):
            for whole_id, text in self._db.rows(
                "SELECT content_id, text FROM contents WHERE content_id IN (SELECT value FROM json_each(?)) "
                "AND EXISTS (SELECT 1 FROM documents WHERE documents.content_id = contents.content_id)",
                (wanted,),
            ):
                if not _tile(text, sorted(held[whole_id], key=lambda one: one[0])):
                    wrong.add(whole_id)
        return sorted(wrong)

    def remove(self, wholes: Sequence[int]) -> None:
        """Take the units of texts out, whatever SQLite's indexes list; their own texts stay."""
        with self._db.writing(documents=True):
            for wanted in content_batches(wholes):
                self._db.write(
                    "DELETE FROM units NOT INDEXED WHERE whole_id IN (SELECT value FROM json_each(?))", (wanted,)
                )

    def _made(self, rows: Rows) -> Iterator[Unit]:
        """Yield the units of rows of `_UNIT`, refusing those that are not what was stored."""
        for row, data in zip(rows, stored_json_list(row[9] for row in rows), strict=True):
            whole_id, number, start, stop, _, _, id, text, digest, metadata, checksum = row
            self._check(row[:6])
            if document_checksum(id, whole_id, metadata) != checksum or content_hash(text) != digest:
                raise self._damaged(f"document {id!r}")
            yield Unit(unit_id(id, number), text, data, id, number, start, stop)

    def _check(self, row: Sequence[Any]) -> None:
        if unit_checksum(*row[:5]) != row[5]:
            raise self._damaged(f"unit {row[1]} of text {row[0]}")

    def _damaged(self, what: str) -> IndexDamagedError:
        return IndexDamagedError(f"{self._db.path} is damaged: {what} is not what was stored.", hint=REPAIR)


def _tile(text: str, units: Sequence[tuple[int, int, str | None, int]]) -> bool:
    """Return whether units (number, start, text, end), by number, hold all of a text but white space between them."""
    at = 0
    for place, (number, start, part, end) in enumerate(units, start=1):
        if number != place or not at <= start < end or text[at:start].strip() or text[start:end] != part:
            return False
        at = end
    return not text[at:].strip()
