"""A row of a file before it is a document, how far its values are interpreted, and what reading a file changed."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from retriever.corpus.fields import Columns

LONGEST_TEXT = 1_000_000
"""Characters of a text, its title included, at most."""

LONGEST_ID = 512
"""Characters of an id at most."""

DEEPEST = 32
"""Levels of nested lists and objects at most, the row itself included."""

EXCERPT = 2000
"""Characters of a bad row that are kept."""

Item = TypeVar("Item")
_KINDS = {bool: "a boolean", int | float: "a number", str: "a string", list: "a list", Mapping: "an object"}


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

    def excerpt(self) -> str:
        """Return the beginning of the row as a report shows it."""
        text = json.dumps(self.raw, ensure_ascii=False, default=str) if isinstance(self.raw, Mapping) else self.raw
        return raw_excerpt(text, EXCERPT)


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How far values are interpreted on reading.

    Attributes:
        raw: whether values stay as they are in the file: nothing is recognised, typed, decoded or rewritten.
        columns: which fields a person says hold ratings and dates, beside those that are recognised.
        sheet: which sheet of a spreadsheet is read; empty for the first one with a text column.
    """

    raw: bool = False
    columns: Columns | None = None
    sheet: str = ""


@dataclass(slots=True)
class Notes:
    """Recognitions and changes made on reading one file.

    Attributes:
        file: as the user named it.
        parts: short statements, in the order they were made.
    """

    file: str
    parts: list[str] = field(default_factory=list)

    def add(self, part: str) -> None:
        """Add a statement; one made before is not repeated."""
        if part and part not in self.parts:
            self.parts.append(part)

    def __str__(self) -> str:
        return f"{self.file}: {'; '.join(self.parts)}" if self.parts else ""


class Reading(Iterator[Item]):
    """What is read of some files, in their order, and the notes on it.

    Args:
        items: rows, or documents and bad rows.
        notes: a record a file, complete when everything is read.
        count: rows that have values; None where nobody counted them.
    """

    def __init__(self, items: Iterator[Item], notes: Sequence[Notes], count: int | None = None) -> None:
        self._items, self._notes, self.count = items, notes, count

    @property
    def notes(self) -> list[str]:
        """One line for each file in which something was recognised or changed."""
        return [str(note) for note in self._notes if note.parts]

    def __next__(self) -> Item:
        return next(self._items)


def first_of(items: Iterable[Item], most: int) -> tuple[list[Item], Iterator[Item]]:
    """Return the first items, and an iterator over those behind them.

    An error among the first is raised by the iterator, so that what comes before it is not lost.
    """
    rest = iter(items)
    first: list[Item] = []
    try:
        first.extend(islice(rest, most))
    except BaseException as error:
        return first, _failing(error)
    return first, rest


def _failing(error: BaseException) -> Iterator[Item]:
    yield from ()
    raise error


def raw_excerpt(data: bytes | str, limit: int) -> str:
    """Return the beginning of raw data as valid text, with NUL and bytes that are not UTF-8 written as escapes."""
    if isinstance(data, bytes):
        text = data[: 4 * limit].decode("utf-8", "backslashreplace")
    else:
        try:
            text = data[:limit].encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        except UnicodeEncodeError:
            text = data[:limit].encode("utf-8", "backslashreplace").decode("utf-8")
    return text[:limit].rstrip("\r\n").replace("\0", "\\x00")


def kind_of(value: object) -> str:
    """Return the name of a value's JSON type, with its article."""
    names = (name for kind, name in _KINDS.items() if isinstance(value, kind))
    return "null" if value is None else next(names, f"a value of type {type(value).__name__}")
