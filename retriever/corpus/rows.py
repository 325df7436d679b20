"""Definitions shared by all formats' readers: a row before it is a document, the limits, and which field is which."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from retriever.core.errors import InputError

ID_FIELDS = ("_id", "id", "docid", "doc_id")
TEXT_FIELDS = ("text", "contents", "body", "review", "content")
TITLE_FIELD = "title"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the size of one row; a row beyond them becomes a `BadRow`.

    Attributes:
        text_chars: characters of a text, its title included.
        id_chars: characters of an id.
        line_bytes: bytes of a line of JSON, or of one CSV row; also what a reader holds in memory.
        depth: levels of nested lists and objects, the row itself included.
        raw_chars: characters of a bad row that are kept.
    """

    text_chars: int = 1_000_000
    id_chars: int = 512
    line_bytes: int = 16_000_000
    depth: int = 32
    raw_chars: int = 2000


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file before it is a document.

    Attributes:
        line: its line in the file, from 1; in Parquet its row number.
        raw: the row as the file has it, for reports.
        values: its fields; None where they could not be read.
        problem: why they could not be read.
        sparse: whether a null means that the field is absent, as in tables.
    """

    line: int
    raw: bytes | str | Mapping[str, object]
    values: Mapping[str, object] | None = None
    problem: str = ""
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class FieldNames:
    """Which fields hold id and text: the named ones, or the first present of the usual ones.

    Attributes:
        id: the id's field.
        text: the text's field.
        text_needed: whether a table without a text column is refused.
    """

    id: str | None = None
    text: str | None = None
    text_needed: bool = True

    def find_id(self, names: Iterable[str]) -> str | None:
        """Return the id's field, or None if there is none."""
        return _first((self.id,) if self.id else ID_FIELDS, names)

    def find_text(self, names: Iterable[str]) -> str | None:
        """Return the text's field, or None if there is none."""
        return _first((self.text,) if self.text else TEXT_FIELDS, names)

    def as_text(self, names: Iterable[str]) -> set[str]:
        """Return the fields whose values stay text in tables, however much they look like numbers."""
        present = list(names)
        return {name for name in (self.find_id(present), self.find_text(present), TITLE_FIELD) if name}

    def check_columns(self, file: str, columns: Sequence[str]) -> None:
        """Raise `InputError` unless a table's columns are distinct and include the text and, if named, the id."""
        shown = ", ".join(repr(column) for column in columns if column)
        repeated = {column for column in columns if column and columns.count(column) > 1}
        if repeated:
            raise InputError(
                f"{file}: the column {min(repeated)!r} appears more than once.", hint="Rename one of them."
            )
        if self.id and self.id not in columns:
            raise InputError(f"{file} has no column {self.id!r}.", hint=f"--id-field takes one of: {shown}.")
        if self.text_needed and self.find_text(columns) is None:
            missing = f"no column {self.text!r}" if self.text else "no text column"
            raise InputError(f"{file} has {missing}.", hint=f"Name one with --text-field: {shown}.")


def _first(wanted: Iterable[str], names: Iterable[str]) -> str | None:
    present = set(names)
    return next((name for name in wanted if name in present), None)
