"""Where the rows of a table begin and how its columns are named, as its first lines show.

Before the header there may be a line ``sep=;``, a title or other lines of a report; behind it a survey's further header
rows: the questions in full, sub-headings of questions with several columns, Qualtrics' import ids.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice

from retriever.corpus.fields import is_date, is_named, is_usual
from retriever.corpus.kinds import reads_back
from retriever.corpus.values import is_missing

_MOST_BEFORE, _MOST_LABELS = 20, 3  # lines before the header; header rows behind it
_CONTRADICTED = 3  # columns of values alone in which a row has texts
_PROSE = 3  # words
_ANSWERS = re.compile(r"(?:open-ended |offene )?(?:response|antwort|réponse)(?: ouverte)?", re.IGNORECASE)
_IMPORT_ID = '{"ImportId"'


@dataclass(slots=True)
class Record:
    """One record of a table: its first and its last line, its cells or why it has none, and its text."""

    line: int
    end: int
    cells: list[str]
    raw: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a table.

    Attributes:
        before: lines before the header, or before the first row where there is no header.
        headers: header rows: none, the header, and those behind it.
        names: of the columns, distinct; empty where a column has neither name nor cells.
        header: the record of the header; None without.
        notes: statements for the user.
    """

    before: int = 0
    headers: int = 0
    names: tuple[str, ...] = ()
    header: Record | None = None
    notes: list[str] = field(default_factory=list)


def find_layout(records: Sequence[Record], *, known: Collection[str | None], raw: bool = False) -> Layout:
    """Find the layout of a table.

    Args:
        records: its beginning.
        known: names of fields somebody asked for.
        raw: whether the first record is the header, and everything behind it rows.
    """
    notes: list[str] = []
    at = 0 if raw else header_at(records, known)
    before = records[0].line - 1 if records else 0
    if at:
        skipped = records[at - 1].end - before
        before += skipped
        notes.append(f"{skipped} line{'s' if skipped > 1 else ''} before the header skipped")
    filled = [record for record in records[at:] if any(map(str.strip, record.cells))]
    if not filled:
        return Layout(before, notes=notes)
    if not raw and lacks_first_name(filled):
        filled[0] = replace(filled[0], cells=["", *filled[0].cells])
    rows = [record.cells for record in filled]
    if not raw and _has_no_header(rows, known):
        names = tuple(f"column {number}" for number in range(1, len(rows[0]) + 1))
        called = f"columns are called {names[0]!r} to {names[-1]!r}" if names[1:] else f"column is called {names[0]!r}"
        notes.append(f"no header: the {called}")
        return Layout(before, 0, names, None, notes)
    labels = 0 if raw else _label_rows(rows)
    if labels:
        notes.append(f"{labels} more header row{'s' if labels > 1 else ''} skipped")
    names = distinct(_named(rows[0], rows[1] if labels and not _has_import_ids(rows[1]) else []), notes)
    return Layout(before, 1 + labels, names, filled[0], notes)


def header_at(records: Sequence[Record], known: Collection[str | None]) -> int:
    """Return the number of the record that is the header: 0, but for lines of a report before it.

    Those have few cells, and the header has as many as most of the rows, and names that are known, a blank line before
    or, behind single cells, numbers or dates below.
    """
    begin = next((number for number, record in enumerate(records) if any(map(str.strip, record.cells))), 0)
    if not records or _names_fields(records[begin].cells, known):
        return 0
    widths = Counter(len(record.cells) for record in records[begin:])
    del widths[0], widths[1]
    width, rows = max(widths.items(), key=lambda item: item[::-1], default=(0, 0))
    for number, record in islice(enumerate(records), begin, begin + _MOST_BEFORE):
        filled = [cell.strip() for cell in record.cells if cell.strip()]
        if len(record.cells) == width and len(filled) > max(1, min(2, width - 2)) and not any(map(is_value, filled)):
            after_blank = number > 0 and not any(map(str.strip, records[number - 1].cells))
            distinct = number > begin and rows >= 2 and len({*filled}) == len(filled)
            rest = [other.cells for other in records[number + 1 :] if len(other.cells) == width]
            heads = len(records[begin].cells) == 1 and any(map(_only_values, zip(*rest, strict=True)))
            if distinct and (after_blank or heads or _names_fields(record.cells, known)):
                return number
            if len(filled) == width:
                return 0
        if len(filled) > max(1, width // 2, min(2, width - 1)):
            return 0
    return 0


def lacks_first_name(records: Sequence[Record]) -> bool:
    """Return whether a header lacks a name for the first column, which numbers the rows, as R and pandas write it."""
    header, *rows = [record.cells for record in records if record.cells] or [[]]
    numbers = [row[0].strip() for row in rows if len(row) == len(header) + 1]
    ends = not any(row[-1].strip() for row in rows)  # in a delimiter behind every row
    if len(rows) < 2 or ends or is_named(header[0], "id"):
        return False
    return any(numbers == [str(at) for at in range(start, start + len(rows))] for start in (0, 1))


def _names_fields(cells: Sequence[str], known: Collection[str | None]) -> bool:
    return any(cell.strip() in known or is_usual(cell) for cell in cells if cell.strip())


def _label_rows(rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows behind the header are header rows too."""
    ids = next((number for number, row in enumerate(rows[: 1 + _MOST_LABELS]) if number and _has_import_ids(row)), 0)
    return ids or int(len(rows) > 2 and len(rows[1]) == len(rows[0]) and (_sub_headings(rows) or _contradicts(rows)))


def _has_import_ids(row: Sequence[str]) -> bool:
    filled = [cell.strip() for cell in row if cell.strip()]
    return bool(filled) and sum(cell.startswith(_IMPORT_ID) for cell in filled) * 2 > len(filled)


def _sub_headings(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the second row names columns that the header leaves blank, or says how questions are answered."""
    header, second, *rest = rows
    filled = [cell.strip() for cell in second if cell.strip()]
    if 0 < len(filled) < len(second) and all(map(_ANSWERS.fullmatch, filled)):
        return True
    blank = [at for at, name in enumerate(header) if not name.strip() and at > 0]
    if not blank or not all(second[at].strip() for at in blank):
        return False
    if any(is_value(cell) for cell in second):
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
        and not any(is_value(label) or not label or is_missing(label, number=True) for label in labels)
    )


def _only_values(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell.strip()]
    return len(filled) > 1 and all(map(is_value, filled))


def is_drawn(record: Record) -> bool:
    """Return whether a record is a line that parts header and rows, as Markdown and databases draw it."""
    return any("--" in cell for cell in record.cells) and not any(
        re.search(r"[^\s:+=|-]", cell) for cell in record.cells
    )


def is_value(cell: str) -> bool:
    """Return whether a cell is a number or a date."""
    return reads_back(cell.strip()) or is_date(cell)


def _has_no_header(rows: Sequence[Sequence[str]], known: Collection[str | None]) -> bool:
    """Return whether the first row is like the others in every column, so that it names none.

    One of its cells must be a number, a date or a word that comes again in its column, and one a text of several words;
    of a single column the texts are enough, unless the first is a question.
    """
    first, rest = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if len(rest) < 2 or not first[0].strip() or _names_fields(first, known):
        return False
    same, prose = len(first) == 1 and not first[0].rstrip().endswith(("?", ":")), False
    for cell, *below in zip(first, *rest, strict=True):
        filled = [text for text in below if text.strip() and not is_missing(text, number=True)]
        valued = 2 * sum(map(is_value, filled)) > len(filled)
        if cell.strip() and filled and valued != is_value(cell) and not is_missing(cell, number=True):
            return False
        same |= valued or cell in below
        prose |= min(len(cell.split()), sorted(len(text.split()) for text in below)[len(below) // 2]) >= _PROSE
    return same and prose


def _named(header: Sequence[str], second: Sequence[str]) -> list[str]:
    """Return the names of columns: blank ones are called after the one to their left, with the sub-heading."""
    names: list[str] = []
    left = ""
    for at, cell in enumerate(header):
        name = cell.strip()
        left = name or left
        below = second[at].strip() if at < len(second) else ""
        names.append(name or (f"{left} ({below})" if left and below else below or f"column {at + 1}"))
    return names


def distinct(names: Sequence[str], notes: list[str] | None = None) -> tuple[str, ...]:
    """Return names of which one that appears again is numbered, and note which those are where notes are taken."""
    kept: list[str] = []
    for name in names:
        numbered = (f"{name} ({number})" for number in count(2))
        kept.append(next(free for free in numbered if free not in {*kept, *names}) if name in kept else name)
    repeated = dict.fromkeys(name for name, own in zip(names, kept, strict=True) if name != own)
    if repeated and notes is not None:
        notes.append(f"{', '.join(map(repr, repeated))} appears more than once: numbered from (2) on")
    return tuple(kept)
