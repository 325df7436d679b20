"""Spreadsheets: the rows of one sheet of .xlsx, .xls or .ods, with dates as ISO writes them."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from retriever.core.errors import InputError
from retriever.core.registry import nearest
from retriever.corpus.cells import Cells
from retriever.corpus.sources import Source

if TYPE_CHECKING:
    import python_calamine


def open_sheets(source: Source, named: str) -> Iterator[Cells]:
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
                    yield Cells(partial(_rows, sheet), [f"sheet {name!r} read"] if len(book.sheet_names) > 1 else [])
    except (python_calamine.CalamineError, OSError) as error:
        raise InputError(
            f"{source.name} cannot be read as a spreadsheet: {error}.", hint="Save it again, or as CSV."
        ) from error


def _rows(sheet: "python_calamine.CalamineSheet") -> Iterator[tuple[int, Sequence[object]]]:
    return iter(enumerate(sheet.iter_rows(), start=1))


def _is_shown(sheet: "python_calamine.SheetMetadata") -> bool:
    return str(sheet.visible).endswith("Visible") and str(sheet.typ).endswith("WorkSheet")
