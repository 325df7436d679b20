"""Where the rows of a table begin and how its columns are named, as its first lines show.

Before the header there may be a line ``sep=;``, a title or other lines of a report; behind it a survey's further header
rows: the questions in full, sub-headings of questions with several columns, Qualtrics' import ids.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from retriever.corpus.fields import is_date, is_named
from retriever.corpus.kinds import reads_back

DELIMITERS = (",", ";", "\t", "|")
_AS_WIDE = 0.5  # of the rows looked at that must have as many cells as a header that another delimiter parts
_MOST_BEFORE, _MOST_LABELS = 20, 3  # lines before the header; header rows behind it
_CONTRADICTED = 3  # columns of values alone in which a row has texts
_SEP = re.compile(r'\s*"?sep=(?:"?(.)"?)"?\s*', re.IGNORECASE)
_IMPORT_ID = '{"ImportId"'
_MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "--", "."}
_ROLES = ("id", "text", "stars", "date", "product", "category")


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a table.

    Attributes:
        delimiter: between cells.
        before: lines before the header.
        labels: header rows behind the header.
        names: of the columns, distinct; empty where a column has neither name nor cells.
        notes: statements for the user.
    """

    delimiter: str
    before: int = 0
    labels: int = 0
    names: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)


def find_layout(lines: Sequence[str], usual: str, *, known: Callable[[str], bool], raw: bool = False) -> Layout:
    """Find the layout of a table.

    Args:
        lines: its beginning.
        usual: the delimiter that the file's name says.
        known: whether a name is that of a field somebody asked for.
        raw: whether the first line is the header, and everything behind it rows.
    """
    notes: list[str] = []
    before = 0
    if lines and (separator := _SEP.fullmatch(lines[0].rstrip("\r\n"))):
        usual, before, lines = separator[1], 1, lines[1:]
        notes.append("the line 'sep=' skipped")
    else:
        usual = find_delimiter(lines, usual, known=known)
    records = _records(lines, usual)
    header = 0 if raw else _header_at(records, known)
    if header:
        skipped = records[header - 1].end
        before += skipped
        notes.append(f"{skipped} line{'s' if skipped > 1 else ''} before the header skipped")
    rows = [record.cells for record in records[header:] if record.cells]
    if not rows:
        return Layout(usual, before, 0, (), notes)
    labels = 0 if raw else _label_rows(rows)
    if labels:
        notes.append(f"{labels} more header row{'s' if labels > 1 else ''} skipped")
    names = _names(rows[0], rows[1] if labels and not _has_import_ids(rows[1]) else [], notes)
    return Layout(usual, before, labels, names, notes)


def find_delimiter(lines: Sequence[str], usual: str, *, known: Callable[[str], bool] = lambda name: False) -> str:
    """Return the delimiter between the cells of a table.

    Another delimiter than the usual one is taken where it parts the header, and at least half of the rows, more than by
    the usual one, have as many cells as the header.
    """
    shares = {delimiter: _share_as_wide(_records(lines, delimiter), known) for delimiter in (usual, *DELIMITERS)}
    best = max(shares, key=lambda delimiter: shares[delimiter])  # the usual one among equals
    return best if shares[best] >= _AS_WIDE else usual


@dataclass(frozen=True, slots=True)
class _Record:
    """Cells of a record, and the number of its last line."""

    cells: list[str]
    end: int


def _records(lines: Sequence[str], delimiter: str) -> list[_Record]:
    records: list[_Record] = []
    with suppress(csv.Error, ValueError):  # not CSV at all
        reader = csv.reader(lines, delimiter=delimiter)
        records.extend(_Record(cells, reader.line_num) for cells in reader)
    return records


def _share_as_wide(records: Sequence[_Record], known: Callable[[str], bool]) -> float:
    """Return the share of rows with as many cells as the header; 0 where the delimiter does not part that."""
    rows = [record.cells for record in records[_header_at(records, known) :] if record.cells] or [[]]
    width = len(rows[0])
    if width <= 1:
        return 0.0
    return sum(len(row) == width for row in rows[1:]) / (len(rows) - 1) if len(rows) > 1 else 1.0


def _header_at(records: Sequence[_Record], known: Callable[[str], bool]) -> int:
    """Return the number of the record that is the header: 0, but for lines of a report before it.

    Those have few cells, and the header has as many as most of the rows, names that are known or a blank line before.
    """
    begin = next((number for number, record in enumerate(records) if any(map(str.strip, record.cells))), 0)
    if not records or _names_fields(records[begin].cells, known):
        return 0
    widths = Counter(len(record.cells) for record in records[begin:])
    del widths[0], widths[1]
    width, rows = max(widths.items(), key=lambda item: item[1], default=(0, 0))
    for number, record in islice(enumerate(records), begin, begin + _MOST_BEFORE):
        filled = [cell.strip() for cell in record.cells if cell.strip()]
        if len(record.cells) == width and len(filled) > max(1, min(2, width - 2)) and not any(map(_is_value, filled)):
            after_blank = number > 0 and not any(map(str.strip, records[number - 1].cells))
            distinct = number > begin and rows >= 2 and len({*filled}) == len(filled)
            if distinct and (after_blank or _names_fields(record.cells, known)):
                return number
            if len(filled) == width:
                return 0
        if len(filled) > max(1, width // 2, min(2, width - 1)):
            return 0
    return 0


def _names_fields(cells: Sequence[str], known: Callable[[str], bool]) -> bool:
    return any(known(cell.strip()) or any(is_named(cell, role) for role in _ROLES) for cell in cells if cell.strip())


def _label_rows(rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows behind the header are header rows too."""
    for number, row in enumerate(rows[1 : 1 + _MOST_LABELS], start=1):
        if _has_import_ids(row):
            return number
    return int(len(rows) > 2 and len(rows[1]) == len(rows[0]) and (_sub_headings(rows) or _contradicts(rows)))


def _has_import_ids(row: Sequence[str]) -> bool:
    filled = [cell.strip() for cell in row if cell.strip()]
    return bool(filled) and sum(cell.startswith(_IMPORT_ID) for cell in filled) * 2 > len(filled)


def _sub_headings(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the second row names the columns that the header leaves blank, and no row's values."""
    header, second, *rest = rows
    blank = [at for at, name in enumerate(header) if not name.strip() and at > 0]
    if not blank or not all(second[at].strip() for at in blank):
        return False
    if any(_is_value(cell) for cell in second):
        return False
    return any(
        header[at].strip() and not cell.strip() and any(at < len(row) and row[at].strip() for row in rest)
        for at, cell in enumerate(second)
    )


def _contradicts(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the second row has texts in every one of several columns that hold nothing else but values."""
    header, second, *rest = rows
    rest = [row for row in rest if len(row) == len(header)]
    valued = [at for at in range(len(header)) if rest and _only_values([row[at] for row in rest])]
    labels = [second[at].strip() for at in valued]
    return (
        len(rest) > 1
        and len(valued) >= _CONTRADICTED
        and len({*labels}) == len(labels)
        and not any(_is_value(label) or label.casefold() in _MISSING for label in labels)
    )


def _only_values(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell.strip()]
    return len(filled) > 1 and all(map(_is_value, filled))


def _is_value(cell: str) -> bool:
    return reads_back(cell.strip()) or is_date(cell)


def _names(header: Sequence[str], second: Sequence[str], notes: list[str]) -> tuple[str, ...]:
    """Return distinct names of columns: blank ones are called after the one to their left, with the sub-heading."""
    names: list[str] = []
    left, repeated = "", []
    for at, cell in enumerate(header):
        name = cell.strip()
        left = name or left
        if not name:
            below = second[at].strip() if at < len(second) else ""
            name = f"{left} ({below})" if left and below else below or f"column {at + 1}"
        if name in names:
            repeated.append(name)
            number = next(
                number for number in range(2, len(header) + 2) if f"{name} ({number})" not in {*names, *header}
            )
            name = f"{name} ({number})"
        names.append(name)
    if repeated:
        shown = ", ".join(map(repr, dict.fromkeys(repeated)))
        notes.append(f"{shown} appears more than once: numbered from (2) on")
    return tuple(names)
