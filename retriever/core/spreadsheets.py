"""Cells of tables to take away that no spreadsheet takes for formulas. Knows nothing of rows and files."""

import re

_SIGNS = "=+@\uff1d\uff0b\uff0d\uff20"  # the last four as wide as a Chinese character
_BEGINNING = (*_SIGNS, "-", "\t", "\r", "\n")
_BEHIND_SEMICOLON = re.compile(rf";(?=[{_SIGNS}]|-(?!\)))")
"""Where a spreadsheet whose cells are parted by semicolons would see a beginning; ``;-)`` is none."""


def escape_formula(cell: str) -> str:
    """Return a CSV cell with an apostrophe before what a spreadsheet would take for the beginning of a formula."""
    cell = _BEHIND_SEMICOLON.sub(";'", cell)
    return f"'{cell}" if cell.startswith(_BEGINNING) else cell
