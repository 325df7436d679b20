"""CSV and TSV with a header, read a row at a time; cells that are plainly numbers or booleans become those."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import BinaryIO

from retriever.core.errors import InputError
from retriever.corpus.encodings import UTF8
from retriever.corpus.lines import Line, read_lines
from retriever.corpus.rows import FieldNames, Limits, Row

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+(?:[eE][+-]?[0-9]{1,2})?")
_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_LINES, _SAMPLE_BYTES = 100, 1 << 16
_AS_WIDE = 0.5  # of the rows looked at that must have as many cells as a header that another delimiter parts


def read_table(
    stream: BinaryIO, file: str, delimiter: str, fields: FieldNames, limits: Limits, encoding: str = UTF8
) -> Iterator[Row]:
    """Yield a row for every record below the header; an empty cell is null, a column without a name is left out.

    Args:
        stream: the table.
        file: as the user named it.
        delimiter: what the file's name says; another is taken where header and rows agree on that one alone.
        fields: which columns there must be, and which stay text.
        limits: what a row may hold.
        encoding: what the stream is in.

    Raises:
        InputError: the header lacks the text column, cannot be decoded or has a column twice; or quoting goes wrong so
            that the rows behind it cannot be told apart.
    """
    csv.field_size_limit(max(csv.field_size_limit(), limits.line_bytes))  # of the process; the feed bounds a row
    lines = read_lines(stream, file, limit=limits.line_bytes, encoding=encoding)
    sample = list(_sample(lines))
    delimiter = find_delimiter([line.data.decode(UTF8, "replace") for line in sample], delimiter)
    feed = _Feed(file, chain(sample, lines), limits.line_bytes)
    reader = csv.reader(feed, delimiter=delimiter, strict=True)
    columns = _header(reader, feed, fields)
    as_text = fields.as_text(columns)
    while True:
        feed.begin_row()
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield Row(feed.first_line, feed.raw, problem=feed.explain(error))
            continue
        if cells is None:
            return
        if feed.bad_encoding:
            yield Row(feed.first_line, feed.raw, problem=feed.bad_encoding)
        elif any(cell.strip() for cell in cells):
            yield _row(feed, columns, cells, as_text)


def find_delimiter(lines: Sequence[str], usual: str) -> str:
    """Detect the delimiter between the cells of a table.

    Another delimiter than the usual one is taken where it parts the header, and at least half of the rows, more than by
    the usual one, have as many cells as the header.

    Args:
        lines: the table's beginning.
        usual: what the file's name says.
    """
    best, share = usual, _share_as_wide(lines, usual)
    for delimiter in _DELIMITERS:
        found = _share_as_wide(lines, delimiter)
        if found > share and found >= _AS_WIDE:
            best, share = delimiter, found
    return best


def _share_as_wide(lines: Sequence[str], delimiter: str) -> float:
    """Return the share of rows with as many cells as the header; 0 where the delimiter does not part that."""
    try:
        header, *rows = filter(None, csv.reader(lines, delimiter=delimiter))
    except (csv.Error, ValueError):  # not CSV at all, or nothing in it
        return 0.0
    if len(header) == 1:
        return 0.0
    return sum(len(row) == len(header) for row in rows) / len(rows) if rows else 1.0


def _sample(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the first lines, of which at most the last is beyond a modest size."""
    size = 0
    for number, line in enumerate(lines, start=1):
        yield line
        size += len(line.data)
        if number == _SAMPLE_LINES or size > _SAMPLE_BYTES:
            return


def _row(feed: "_Feed", columns: Sequence[str], cells: Sequence[str], as_text: set[str]) -> Row:
    if len(cells) != len(columns):
        problem = (
            f"the row has {len(cells)} cells, the header {len(columns)}; put cells that hold the delimiter in quotes"
        )
        return Row(feed.first_line, feed.raw, problem=problem)
    values = {
        column: (cell or None) if column in as_text else _typed(cell)
        for column, cell in zip(columns, cells, strict=True)
        if column
    }
    return Row(feed.first_line, feed.raw, values, sparse=True)


def _header(reader: Iterator[list[str]], feed: "_Feed", fields: FieldNames) -> list[str]:
    try:
        columns = [column.strip() for column in next(filter(None, reader), [])]
    except csv.Error as error:
        raise InputError(f"{feed.file}, line 1: {feed.explain(error)}.", hint="Save it as plain CSV again.") from error
    if feed.bad_encoding:
        raise InputError(f"{feed.file}, line 1: {feed.bad_encoding}.")
    if len(columns) == 1 and re.search(r"[;\t|]", columns[0]):
        raise InputError(
            f"{feed.file}: the header {columns[0]!r} is not separated as the file's name says.",
            hint="Save it with commas (.csv) or tabs (.tsv).",
        )
    if columns:
        fields.check_columns(feed.file, columns)
    return columns


class _Feed:
    """Gives the csv module its lines and remembers those of the row at hand."""

    def __init__(self, file: str, lines: Iterator[Line], limit: int) -> None:
        self.file = file
        self._lines = lines
        self._limit = limit
        self.begin_row()

    def begin_row(self) -> None:
        self.first_line = 0
        self.bad_encoding = ""
        self._raw = bytearray()

    @property
    def raw(self) -> bytes:
        return bytes(self._raw)

    def __iter__(self) -> "_Feed":
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.first_line = self.first_line or line.number
        self._raw += line.data
        if line.too_long or len(self._raw) > self._limit:
            raise self._unreadable(f"is longer than {self._limit:,} bytes")
        try:
            return line.data.decode("utf-8")
        except UnicodeDecodeError as error:
            self.bad_encoding = line.why_no_text(error)
            return line.data.decode("utf-8", "replace")

    def explain(self, error: csv.Error) -> str:
        """Describe the error in the row, or raise `InputError` where the rows behind it are lost too."""
        if "unexpected end of data" in str(error):
            raise self._unreadable("has a quote that is never closed") from error
        if "new-line character" in str(error):
            raise self._unreadable("has line ends of old Mac programs") from error
        return f"not CSV: {error}"

    def _unreadable(self, problem: str) -> InputError:
        return InputError(
            f"{self.file}: the row that begins in line {self.first_line} {problem}.",
            hint="Correct it: the rows behind it cannot be told apart.",
        )


def _typed(cell: str) -> str | int | float | bool | None:
    """Return the number or boolean a cell plainly is; "00123" and "1e5" stay strings, an empty cell is None."""
    text = cell.strip()
    if not text:
        return None
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return {"true": True, "false": False}.get(text.lower(), cell)
