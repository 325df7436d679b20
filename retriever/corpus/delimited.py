"""Records of CSV and TSV, each with its line, as programs write them: quotes doubled, escaped or meant as characters.

Python's csv module parses them. DuckDB's reader was tried: it refuses a file whose lines end now in LF, now in CRLF,
takes the rest of a file for one cell without a word where a quote is not closed and short rows are filled up, gives
no line of a row that it could read, and holds 60 MB more, at the same speed.
"""

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice

from retriever.core.errors import InputError
from retriever.corpus.encodings import LONGEST_LINE, read_lines, readable
from retriever.corpus.layout import Record, header_at, is_drawn, is_value, lacks_first_name
from retriever.corpus.sources import DELIMITERS, Source

_DELIMITERS = (",", ";", "\t", "|")
_AS_WIDE = 0.5  # of the rows looked at that must have as many cells as a header that another delimiter parts
_NEARLY = 0.6  # what a row counts that lacks its last cells, or ends in a delimiter
_UNNAMED = 0.9  # that all rows count where the header lacks a name
_SAMPLE_LINES, _SAMPLE_SIZE = 100, 1 << 19
_SEP = re.compile(r'\s*"?sep=(?:"?(.)"?)"?\s*', re.IGNORECASE)
_ESCAPED = re.compile(r'(?<!\\)((?:\\\\)*)\\"')
_LONGEST_MENDED = 1 << 16  # characters of a line


class Delimited:
    """The records of a CSV or TSV file, which can be read several times.

    Args:
        source: the file; its name says the delimiter, unless header and rows agree on another alone.
        known: names of fields somebody asked for.
        raw: whether records are taken as they are, with nothing mended.
    """

    def __init__(self, source: Source, *, known: Collection[str | None], raw: bool) -> None:
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))  # of the process; the feed bounds a row
        self._source, self._raw = source, raw
        self.notes: list[str] = []
        self.mended = self._before = 0
        with closing(source.text()) as text:
            self._first = _first(read_lines(text))
        if self._first and (separator := _SEP.fullmatch(self._first[0].rstrip("\r\n"))):
            self._before, self.delimiter = 1, separator[1]
            self.notes.append("the line 'sep=' skipped")
        else:
            self.delimiter = find_delimiter(self._first, DELIMITERS[source.suffix], known=known)
        self._escapes = not raw and _escapes_quotes(self._first[self._before :], self.delimiter)
        if self._escapes:
            self._first = list(map(_doubled, self._first))
            self.notes.append("quotes are escaped by backslashes")

    def first(self) -> list[Record]:
        """Return the first records."""
        return parsed(self._first[self._before :], self.delimiter, before=self._before)

    def check_header(self, header: Record) -> None:
        """Raise `InputError` where the names of the columns cannot be read."""
        try:
            readable(self._first[header.line - 1], self._source.encoding)
        except ValueError as error:
            raise InputError(f"{self._source.name}, line {header.line}: {error}.") from error
        if len(header.cells) == 1 and re.search(r"[;\t|]", header.cells[0]):
            raise InputError(
                f"{self._source.name}: the header {header.cells[0]!r} is not separated as the file's name says.",
                hint="Save it with commas (.csv) or tabs (.tsv).",
            )

    def read(self, before: int, width: int) -> Iterator[Record]:
        """Yield every record that is not blank.

        Args:
            before: lines to skip.
            width: cells that a row has.

        Raises:
            InputError: quoting goes wrong, so that the rows behind it cannot be told apart.
        """
        self.mended = 0
        with closing(self._source.text()) as text:
            lines = islice(enumerate(read_lines(text), start=1), before, None)
            feed = _Feed(self._source, lines, self._escapes)
            reader = csv.reader(feed, delimiter=self.delimiter, strict=True, skipinitialspace=not self._raw)
            while True:
                feed.begin_row()
                cells: list[str] = []
                failed: csv.Error | None = None
                try:
                    cells = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    failed = error
                if self._escapes:
                    cells = [cell.replace("\\\\", "\\") for cell in cells]
                record = Record(feed.first_line, feed.last_line, cells, "".join(feed.raw), feed.problem)
                if (failed or record.end > record.line) and (mended := self._mended(record, failed, width)):
                    self.mended += '"' in record.raw
                    yield from mended
                    continue
                if failed is not None:
                    record.problem = record.problem or feed.explain(failed)
                if record.problem or any(cell and not cell.isspace() for cell in cells):
                    yield record

    def _mended(self, record: Record, failed: csv.Error | None, width: int) -> list[Record]:
        """Return the records of some lines whose quotes are characters; none where they are no such lines.

        So they are where every line has all its cells by itself. Lines that can be read as one record too must besides
        have numbers or dates in the same cells.
        """
        if self._raw or record.problem or width < 2:
            return []
        records = []
        for number, text in enumerate(io.StringIO(record.raw, newline="\n"), start=record.line):
            line = text.rstrip("\r\n")
            cells = split_leniently(line, self.delimiter, width) if len(line) <= _LONGEST_MENDED else [line]
            if len(cells) == width + 1 and not cells[-1].strip():
                del cells[-1]
            if line.strip():
                records.append(Record(number, number, cells, text))
        fitting = [record for record in records if len(record.cells) == width]
        if failed is not None and "unexpected end" in str(failed):
            return records if 2 * len(fitting) > len(records) else []
        if len(fitting) < len(records) or not records:
            return []
        kinds = {tuple(is_value(cell) for cell in record.cells) for record in records}
        return records if failed is not None or (len(kinds) == 1 and any(*kinds)) else []


def find_delimiter(lines: Sequence[str], usual: str, *, known: Collection[str | None] = ()) -> str:
    """Return the delimiter between the cells of a table.

    Another delimiter than the usual one is taken where it parts the header, and at least half of the rows, more than by
    the usual one, have as many cells as the header.
    """
    shares = {delimiter: _share_as_wide(parsed(lines, delimiter), known) for delimiter in (usual, *_DELIMITERS)}
    best = max(shares, key=lambda delimiter: shares[delimiter])  # the usual one among equals
    return best if shares[best] >= _AS_WIDE else usual


def parsed(lines: Sequence[str], delimiter: str, *, before: int = 0, strict: bool = False) -> list[Record]:
    """Return the records of some lines, as many as can be read."""
    records: list[Record] = []
    with suppress(csv.Error, ValueError):  # not CSV at all
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)
        end = 0
        for cells in reader:
            raw = "".join(lines[end : reader.line_num])
            records.append(Record(before + end + 1, before + reader.line_num, cells, raw))
            end = reader.line_num
    return records


def split_leniently(line: str, delimiter: str, width: int) -> list[str]:
    """Return the cells of a line in which a quote closes a cell only before a delimiter or the end.

    Far behind the ``width`` cells of a row no quote counts: to look for its end would take the length of the line.
    """
    mark = re.escape(delimiter)
    end = rf'" *(?={mark}|$)'
    doubled = rf'(?:[^"\\]|\\.|""|(?!{end})")*+'  # or else the first quote closes that is before a delimiter
    cell = re.compile(rf' *"(?:({doubled})|(.*?)(?<!\\)){end}| *([^{mark}]*)')
    cells: list[str] = []
    at = 0
    while at <= len(line) and len(cells) <= width + 1 and (match := cell.match(line, at)):
        quoted, plain = match[1] if match[1] is not None else match[2], match[3]
        cells.append(plain if quoted is None else quoted.replace('""', '"').replace('\\"', '"'))
        at = match.end() + len(delimiter)
    return cells + line[at:].split(delimiter) if at <= len(line) else cells


def _share_as_wide(records: Sequence[Record], known: Collection[str | None]) -> float:
    """Return the share of rows with as many cells as the header; 0 where the delimiter does not part that."""
    records = [record for record in records if not is_drawn(record)]
    records = records[header_at(records, known) :]
    rows = [record.cells for record in records if record.cells] or [[]]
    unnamed = lacks_first_name(records)
    width = len(rows[0]) + unnamed
    if width <= 1:
        return 0.0
    exact = sum(len(row) == width for row in rows[1:])
    nearly = sum(1 < len(row) != width and not any(map(str.strip, row[width:])) for row in rows[1:])
    share = (exact + _NEARLY * nearly) / (len(rows) - 1) if len(rows) > 1 else 1.0
    return share * _UNNAMED if unnamed else share


def _escapes_quotes(lines: Sequence[str], delimiter: str) -> bool:
    """Return whether more of a table can be read where a backslash before a quote escapes it."""
    if not any('\\"' in line for line in lines):
        return False

    def fitting(read: Sequence[str]) -> tuple[int, int]:
        records = parsed(read, delimiter, strict=True)
        return sum(len(record.cells) == len(records[0].cells) for record in records), -len(records)

    return fitting(list(map(_doubled, lines))) > fitting(lines)


def _doubled(line: str) -> str:
    """Return a line with its quotes doubled that are escaped by backslashes."""
    return _ESCAPED.sub(r'\1""', line)


def _first(lines: Iterator[str]) -> list[str]:
    """Return the first lines, of which at most the last is beyond a modest size."""
    first: list[str] = []
    size = 0
    while size <= _SAMPLE_SIZE and len(first) < _SAMPLE_LINES and (line := next(lines, "")):
        first.append(line)
        size += len(line)
    return first


class _Feed:
    """Gives the csv module its lines and remembers those of the record at hand."""

    def __init__(self, source: Source, lines: Iterator[tuple[int, str]], escapes: bool) -> None:
        self._source, self._lines, self._escapes = source, lines, escapes
        self.begin_row()

    def begin_row(self) -> None:
        self.first_line, self.last_line, self.problem, self._size = 0, 0, "", 0
        self.raw: list[str] = []

    def __iter__(self) -> "_Feed":
        return self

    def __next__(self) -> str:
        self.last_line, text = next(self._lines)
        self.first_line = self.first_line or self.last_line
        self.raw.append(text)
        self._size += len(text)
        if self._size > LONGEST_LINE:
            raise csv.Error("unexpected end of data")
        try:
            text = readable(text, self._source.encoding)
        except ValueError as error:
            self.problem = str(error)
        return _doubled(text) if self._escapes and "\\" in text else text

    def explain(self, error: csv.Error) -> str:
        """Describe the error in the row, or raise `InputError` where the rows behind it are lost too."""
        if self._size >= LONGEST_LINE:
            raise self._unreadable(f"is longer than {LONGEST_LINE:,} characters") from error
        if "unexpected end of data" in str(error):
            raise self._unreadable("has a quote that is never closed") from error
        return f"not CSV: {error}"

    def _unreadable(self, problem: str) -> InputError:
        return InputError(
            f"{self._source.name}: the row that begins in line {self.first_line} {problem}.",
            hint="Correct it: the rows behind it cannot be told apart.",
        )
