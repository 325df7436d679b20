"""Tables: records of cells become rows of typed fields; columns are typed as a whole in a first pass over all rows.

Rows that programs write in other shapes than the header's are read, each kind with a note: the header again, rows that
lack their last cells or end in a delimiter, lines of a report behind the last row.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import filterfalse, islice

from retriever.core.text import counted
from retriever.corpus.cells import Cells
from retriever.corpus.delimited import Delimited
from retriever.corpus.fields import FieldNames
from retriever.corpus.kinds import reads_back
from retriever.corpus.layout import Record, find_layout, is_drawn
from retriever.corpus.rows import ReadingOptions, Row
from retriever.corpus.survey import Interpretation, recognised, survey

_MOST_BEHIND = 20  # lines of a report behind the last row
_NO_WORDS = re.compile(r"[-+.,\d\s]*")
_NULLS = frozenset({"NULL", r"\N"})  # of databases, in whatever column


class Table:
    """A table that is read twice.

    Args:
        records: of the table.
        file: as the user named it.
        fields: which columns there must be, and which stay text.
        options: how far values are interpreted.

    Raises:
        InputError: the header lacks the text column or cannot be read.
    """

    def __init__(self, records: Cells | Delimited, file: str, fields: FieldNames, options: ReadingOptions) -> None:
        self._records, self._raw = records, options.raw
        first = [record for record in records.first() if not is_drawn(record)]
        self._layout = find_layout(first, known={fields.id, fields.text}, raw=options.raw)
        names, header = self._layout.names, self._layout.header
        if header is not None:
            records.check_header(header)
        self._seen: Counter[str] = Counter()
        filled = [record for record in first if any(map(str.strip, record.cells))]
        rows = [record for record in filled if record.line > self._layout.before][self._layout.headers :]
        usual = recognised(names, [dict(zip(names, row.cells, strict=False)) for row in rows], fields)
        texts = [names.index(name) for name in (usual.find_text(names), usual.find_title(names)) if name in names]
        self._texts_at = texts or [0]  # columns of which a row has something to say
        self._least = max(self._texts_at[0] + 1, 2)  # cells of a row
        self.interpretation = Interpretation(fields)
        if not options.raw:
            seen = (dict(zip(names, row.cells, strict=True)) for row in self._fitted() if not row.problem)
            quoted = _quoted(rows, names, records.delimiter)
            named = header is not None
            self.interpretation = survey(seen, fields, options, names=names, named=named, quoted=quoted)
        self.notes = [*records.notes, *self._layout.notes, *self._notes_of_rows()]
        if names:
            self.interpretation.fields.check_columns(file, names)

    @property
    def has_text(self) -> bool:
        """Whether there is a column of texts."""
        return self.interpretation.fields.find_text(self._layout.names) is not None

    def rows(self) -> Iterator[Row]:
        """Yield a row for every record below the header; an empty cell is null.

        Raises:
            InputError: the rows behind a place cannot be told apart.
        """
        converts, dropped = self.interpretation.converts, self.interpretation.dropped
        names, header = self._layout.names, self._layout.header
        padded = header is not None and any(cell.endswith(" ") for cell in header.cells[:-1]) and not self._raw
        plain = str.strip if padded else None
        columns = [(at, name, converts.get((name,), plain)) for at, name in enumerate(names) if name not in dropped]
        for record in self._fitted():
            if record.problem:
                yield Row(record.line, record.raw, problem=record.problem)
                continue
            values: dict[str, object] = {}
            for at, name, convert in columns:
                cell = record.cells[at]
                blank = not cell or cell.isspace() or (cell in _NULLS and not self._raw)
                values[name] = None if blank else convert(cell) if convert else cell
            yield Row(record.line, record.raw, values, sparse=True)

    def _fitted(self) -> Iterator[Record]:
        """Yield every record below the header rows with as many cells as the header, or with a problem."""
        names, header = self._layout.names, self._layout.header
        width, self._seen = len(names), Counter()
        heading = _names(header.cells) if header and not self._raw else []
        order: list[int] = []  # of the columns of another header
        last: Record | None = None
        behind: list[Record] = []  # records that are rows only if others follow
        read = self._records.read(self._layout.before, width)
        for given in islice(read if self._raw else filterfalse(is_drawn, read), self._layout.headers, None):
            record = given if given.problem else self._widened(given, last, width)
            if heading and not record.problem and _names(record.cells[:1])[0] in heading:
                again = _names(record.cells)
                if sorted(again) == sorted(heading):
                    self._seen["header"] += 1
                    order = [] if again == heading else [again.index(name) for name in heading]
                    continue
            if order and not record.problem:
                record = replace(record, cells=[record.cells[at] for at in order])
            doubtful = record.problem or all(_NO_WORDS.fullmatch(record.cells[at]) for at in self._texts_at)
            if doubtful and last and not self._raw and len(behind) < _MOST_BEHIND:
                if _is_remark(given, last, after_blank=given.line > last.end + 1):
                    behind.append(record)
                    continue
            yield from behind
            behind.clear()
            last = last if record.problem else record
            yield record
        self._seen["behind"] = len(behind)

    def _widened(self, record: Record, last: Record | None, width: int) -> Record:
        """Return a record with as many cells as the header, or with a problem."""
        cells = record.cells
        if len(cells) == width:
            return record
        if not self._raw and len(cells) > width and not any(map(str.strip, cells[width:])):
            self._seen["ended"] += 1
            return replace(record, cells=cells[:width])
        alike = last is None or _shape(cells[0]) == _shape(last.cells[0])
        if not self._raw and self._least <= len(cells) < width and alike:
            self._seen["short"] += 1
            return replace(record, cells=[*cells, *[""] * (width - len(cells))])
        advice = "it ends early" if len(cells) < width else "put cells that hold the delimiter in quotes"
        return replace(record, cells=[], problem=f"the row has {len(cells)} cells, the header {width}; {advice}")

    def _notes_of_rows(self) -> list[str]:
        said = {
            "header": "the header again in {}, skipped",
            "short": "empty cells added to {} that lacked their last",
            "ended": "a delimiter at the end of {} ignored",
            "behind": "{} behind the last row skipped",
        }
        notes = [text.format(counted(self._seen[kind], "row")) for kind, text in said.items() if self._seen[kind]]
        if self._records.mended:
            notes.append(f"quotes read as characters in {counted(self._records.mended, 'place')}")
        return notes


def _names(cells: list[str]) -> list[str]:
    return [cell.strip('\ufeff \t"').casefold() for cell in cells]


def _is_remark(record: Record, last: Record, *, after_blank: bool) -> bool:
    """Return whether a record may be a line of a report behind the rows: one or two cells, the first unlike a row's."""
    filled, first = sum(bool(cell.strip()) for cell in record.cells), "".join(record.cells[:1]).strip()
    unlike = (after_blank and filled == 1) or _shape(first) != _shape(last.cells[0])
    return bool(first) and filled in (1, 2) and len(last.cells) > 1 and unlike


def _shape(cell: str) -> str:
    """Return of which kind a cell is: a number, a key with digits, a word or several."""
    cell = cell.strip()
    if re.fullmatch(r"[-+.,\d]+", cell):
        return "number"
    if any(map(str.isspace, cell)):
        return "words"
    return "key" if any(map(str.isdigit, cell)) else "word"


def _quoted(rows: Sequence[Record], names: Sequence[str], delimiter: str) -> set[str]:
    """Return the columns whose numbers stand in quotes, where those of other columns do not: they are texts."""
    mark = re.escape(delimiter)
    cell = re.compile(rf'(?:^|{mark})[ ]*(?:(")(?:[^"]|"")*"[ ]*|[^{mark}]*)')
    quoted, plain = set[str](), set[str]()
    for row in rows:
        marks = cell.findall(row.raw) if '"' in row.raw else [""] * len(row.cells)
        for quote, name, value in zip(marks, names, row.cells, strict=False):
            if reads_back(value.strip()):
                (quoted if quote else plain).add(name)
    return quoted - plain if plain else set()
