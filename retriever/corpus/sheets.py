"""Spreadsheets: the rows of one sheet of .xlsx, .xls or .ods, with dates as ISO writes them."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from retriever.core.errors import InputError
from retriever.core.registry import nearest
from retriever.corpus.layout import Record
from retriever.corpus.sources import Source

if TYPE_CHECKING:
    import python_calamine

_FIRST = 100  # rows by which the layout is recognised


class Sheet:
    """The records of a sheet."""

    delimiter = "\t"
    mended = 0

    def __init__(self, sheet: "python_calamine.CalamineSheet", notes: list[str]) -> None:
        self._sheet, self.notes = sheet, notes

    def first(self) -> list[Record]:
        """Return the first rows, blank ones as records without cells."""
        rows = islice(self._sheet.iter_rows(), _FIRST)
        return [_record(number, row) for number, row in enumerate(rows, start=1)]

    def check_header(self, header: Record) -> None:
        """Accept any header."""

    def read(self, before: int, width: int) -> Iterator[Record]:
        """Yield every row behind some rows that is not blank."""
        for number, row in enumerate(self._sheet.iter_rows(), start=1):
            record = _record(number, row)
            if number > before and record.cells:
                yield record


def open_sheets(source: Source, named: str) -> Iterator[Sheet]:
    """Yield the sheets of a spreadsheet that have cells, the one of that name alone where one is named.

    Raises:
        InputError: it cannot be read, or has no such sheet.
    """
    import python_calamine

    try:
        with source.local() as path, path.open("rb") as stream:
            book = python_calamine.CalamineWorkbook.from_filelike(stream)
            if named and named not in book.sheet_names:
                raise InputError(
                    f"{source.name} has no sheet {named!r}.",
                    hint=nearest(named, book.sheet_names) or f"--sheet takes one of: {', '.join(book.sheet_names)}.",
                )
            shown = [sheet.name for sheet in book.sheets_metadata if _is_shown(sheet)]
            for name in [named] if named else shown or book.sheet_names:
                sheet = book.get_sheet_by_name(name)
                if sheet.total_height:
                    yield Sheet(sheet, [f"sheet {name!r} read"] if len(book.sheet_names) > 1 else [])
    except (python_calamine.CalamineError, OSError) as error:
        raise InputError(
            f"{source.name} cannot be read as a spreadsheet: {error}.", hint="Save it again, or as CSV."
        ) from error


def _is_shown(sheet: "python_calamine.SheetMetadata") -> bool:
    return str(sheet.visible).endswith("Visible") and str(sheet.typ).endswith("WorkSheet")


def _record(number: int, row: Sequence[object]) -> Record:
    cells = [_text(cell) for cell in row]
    return Record(number, number, cells if any(cells) else [], "\t".join(cells))


def _text(cell: object) -> str:
    """Return a cell as a table of text would have it."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime) and cell.time() == time():
        return cell.date().isoformat()
    if isinstance(cell, date | time):
        return cell.isoformat()
    return str(cell.total_seconds()) if isinstance(cell, timedelta) else str(cell)
