"""CSV and TSV with a header: looked through once, so that columns are typed as a whole, and then read row by row."""

import csv
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from retriever.core.errors import InputError
from retriever.corpus.encodings import LONGEST_LINE, UTF8, Line, read_lines
from retriever.corpus.fields import FieldNames
from retriever.corpus.kinds import reads_back
from retriever.corpus.layout import Layout, find_layout
from retriever.corpus.rows import ReadingOptions, Row
from retriever.corpus.survey import Interpretation, survey_cells

DAMAGE = (InputError, EOFError, OSError, zlib.error)
"""Errors of a file that is damaged further down."""

_SAMPLE_LINES, _SAMPLE_BYTES = 100, 1 << 19
_QUOTES_SEEN = 500  # rows by whose quotes numbers are told from texts


@dataclass(frozen=True, slots=True)
class _Record:
    """One record of a table: its first line, its bytes, and its cells or the reason why it has none."""

    line: int
    raw: bytes
    cells: list[str]
    problem: str


class Table:
    """A table that is read twice.

    Args:
        open_stream: opens it at its beginning.
        file: as the user named it.
        delimiter: the one that the file's name says; another is taken where header and rows agree on that one alone.
        fields: which columns there must be, and which stay text.
        encoding: of the stream.
        options: how far values are interpreted.

    Raises:
        InputError: the header lacks the text column or cannot be decoded.
    """

    def __init__(
        self,
        open_stream: Callable[[], BinaryIO],
        file: str,
        delimiter: str,
        *,
        fields: FieldNames,
        encoding: str,
        options: ReadingOptions,
    ) -> None:
        self._open = open_stream
        self._file = file
        self._encoding = encoding
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))  # of the process; the feed bounds a row
        self._layout = self._find_layout(delimiter, fields, options)
        self.interpretation = Interpretation(fields) if options.raw else self._survey(fields, options)
        if self._layout.names:
            self.interpretation.fields.check_columns(file, self._layout.names)

    @property
    def notes(self) -> list[str]:
        """Statements about the table for the user."""
        return [*self._layout.notes, *self.interpretation.notes]

    def rows(self) -> Iterator[Row]:
        """Yield a row for every record below the header; an empty cell is null.

        Raises:
            InputError: quoting goes wrong, so that the rows behind it cannot be told apart.
        """
        converts, dropped = self.interpretation.converts, self.interpretation.dropped
        columns = [(at, name, converts.get(name)) for at, name in enumerate(self._layout.names) if name not in dropped]
        for record in self._records():
            if record.problem:
                yield Row(record.line, record.raw, problem=record.problem)
                continue
            values: dict[str, object] = {}
            for at, name, convert in columns:
                cell = record.cells[at]
                values[name] = None if not cell.strip() else convert(cell) if convert else cell
            yield Row(record.line, record.raw, values, sparse=True)

    def _find_layout(self, delimiter: str, fields: FieldNames, options: ReadingOptions) -> Layout:
        with closing(self._open()) as stream:
            sample = list(_sample(self._lines(stream)))
        layout = find_layout(
            [line.data.decode(UTF8, "replace") for line in sample],
            delimiter,
            known=lambda name: name in (fields.id, fields.text),
            raw=options.raw,
        )
        for line in sample[layout.before : layout.before + 1]:
            try:
                line.data.decode(UTF8)
            except UnicodeDecodeError as error:
                raise InputError(f"{self._file}, line {line.number}: {line.why_no_text(error)}.") from error
            if len(layout.names) == 1 and re.search(r"[;\t|]", layout.names[0]):
                raise InputError(
                    f"{self._file}: the header {layout.names[0]!r} is not separated as the file's name says.",
                    hint="Save it with commas (.csv) or tabs (.tsv).",
                )
        return layout

    def _survey(self, fields: FieldNames, options: ReadingOptions) -> Interpretation:
        names = self._layout.names
        quotes = _Quotes(len(names), self._layout.delimiter)
        return survey_cells(
            names, self._good_cells(quotes), fields, options, lambda: {names[at] for at in quotes.texts()}
        )

    def _good_cells(self, quotes: "_Quotes") -> Iterator[list[str]]:
        """Yield the cells of good records; damage ends them, and reading the rows reports it."""
        seen = 0
        try:
            for record in self._records():
                if not record.problem:
                    if seen < _QUOTES_SEEN:
                        quotes.see(record)
                        seen += 1
                    yield record.cells
        except DAMAGE:
            return

    def _lines(self, stream: BinaryIO) -> Iterator[Line]:
        return read_lines(stream, self._file, self._encoding)

    def _records(self) -> Iterator[_Record]:
        """Yield every record below the header rows that is not blank."""
        layout, width, headers = self._layout, len(self._layout.names), 1 + self._layout.labels
        with closing(self._open()) as stream:
            feed = _Feed(self._file, islice(self._lines(stream), layout.before, None))
            reader = csv.reader(feed, delimiter=layout.delimiter, strict=True)
            while True:
                feed.begin_row()
                cells: list[str] | None = []
                try:
                    cells = next(reader, None)
                except csv.Error as error:
                    problem = feed.explain(error)
                    feed.problem = feed.problem or problem
                if cells is None:
                    return
                problem = feed.problem
                if headers:
                    headers -= bool(cells or problem)
                elif problem or any(cell and not cell.isspace() for cell in cells):
                    yield _Record(feed.first_line, bytes(feed.raw), cells, problem or _wrong_width(cells, width))


def _wrong_width(cells: list[str], width: int) -> str:
    problem = f"the row has {len(cells)} cells, the header {width}; put cells that hold the delimiter in quotes"
    return "" if len(cells) == width else problem


class _Quotes:
    """Sees which columns have their numbers in quotes, where those of other columns have none."""

    def __init__(self, width: int, delimiter: str) -> None:
        mark = re.escape(delimiter)
        self._cell = re.compile(rf'(?:^|{mark})[ ]*(?:(")(?:[^"]|"")*"[ ]*|[^{mark}]*)')
        self._quoted, self._plain = [False] * width, [False] * width

    def see(self, record: _Record) -> None:
        """See a record."""
        raw = record.raw.decode(UTF8, "replace")
        marks = self._cell.findall(raw) if '"' in raw else [""] * len(record.cells)
        for at, (mark, cell) in enumerate(zip(marks, record.cells, strict=False)):
            if reads_back(cell.strip()):
                (self._quoted if mark else self._plain)[at] = True

    def texts(self) -> list[int]:
        """Return the numbers of the columns whose numbers are meant as texts."""
        if not any(self._plain):
            return []
        return [at for at, quoted in enumerate(self._quoted) if quoted and not self._plain[at]]


def _sample(lines: Iterator[Line]) -> Iterator[Line]:
    """Yield the first lines, of which at most the last is beyond a modest size."""
    size = 0
    for line in islice(lines, _SAMPLE_LINES):
        yield line
        size += len(line.data)
        if size > _SAMPLE_BYTES:
            return


class _Feed:
    """Gives the csv module its lines and remembers those of the row at hand."""

    def __init__(self, file: str, lines: Iterator[Line]) -> None:
        self._file, self._lines = file, lines
        self.begin_row()

    def begin_row(self) -> None:
        self.first_line, self.problem, self.raw = 0, "", bytearray()

    def __iter__(self) -> "_Feed":
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.first_line = self.first_line or line.number
        self.raw += line.data
        if line.too_long or len(self.raw) > LONGEST_LINE:
            raise self._unreadable(f"is longer than {LONGEST_LINE:,} bytes")
        try:
            return line.data.decode(UTF8)
        except UnicodeDecodeError as error:
            self.problem = line.why_no_text(error)
            return line.data.decode(UTF8, "replace")

    def explain(self, error: csv.Error) -> str:
        """Describe the error in the row, or raise `InputError` where the rows behind it are lost too."""
        if "unexpected end of data" in str(error):
            raise self._unreadable("has a quote that is never closed") from error
        if "new-line character" in str(error):
            raise self._unreadable("has line ends of old Mac programs") from error
        return f"not CSV: {error}"

    def _unreadable(self, problem: str) -> InputError:
        return InputError(
            f"{self._file}: the row that begins in line {self.first_line} {problem}.",
            hint="Correct it: the rows behind it cannot be told apart.",
        )
