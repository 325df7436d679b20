"""Spreadsheets: the rows of one sheet of .xlsx, .xls or .ods, with dates as ISO writes them."""

from collections.abc import Iterator

from retriever.core.errors import InputError
from retriever.core.registry import nearest
from retriever.corpus.cells import Cells
from retriever.corpus.sources import Source


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
                hint = nearest(named, book.sheet_names) or f"--sheet takes one of: {', '.join(book.sheet_names)}."
                raise InputError(f"{source.name} has no sheet {named!r}.", hint=hint)
            kind = (python_calamine.SheetVisibleEnum.Visible, python_calamine.SheetTypeEnum.WorkSheet)
            shown = [sheet.name for sheet in book.sheets_metadata if (sheet.visible, sheet.typ) == kind]
            for name in [named] if named else shown or book.sheet_names:
                sheet = book.get_sheet_by_name(name)
                if sheet.total_height:
                    notes = [f"sheet {name!r} read"] if len(book.sheet_names) > 1 else []
                    yield Cells(sheet.iter_rows, notes)
    except (python_calamine.CalamineError, OSError) as error:
        problem = f"{source.name} cannot be read as a spreadsheet: {error}."
        raise InputError(problem, hint="Save it again, or as CSV.") from error
