"""Records of a table whose cells are told apart already: rows of a sheet, lists of JSON."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from itertools import islice

from retriever.corpus.layout import Record

_FIRST = 100  # records by which the layout is recognised


class Cells:
    """The records of a table, which can be read several times.

    Args:
        opened: gives the cells of every row, or why it cannot be read.
        notes: statements for the user.
    """

    delimiter = "\t"
    mended = 0

    def __init__(self, opened: Callable[[], Iterable[Sequence[object] | str]], notes: Sequence[str] = ()) -> None:
        self._opened, self.notes = opened, list(notes)

    def first(self) -> list[Record]:
        """Return the first records, blank rows without cells."""
        return list(islice(self._records(), _FIRST))

    def check_header(self, header: Record) -> None:
        """Accept any header."""

    def read(self, before: int, width: int) -> Iterator[Record]:
        """Yield every record behind some lines that is not blank."""
        for record in self._records():
            if record.line > before and (record.cells or record.problem):
                yield record

    def _records(self) -> Iterator[Record]:
        for line, row in enumerate(self._opened(), start=1):
            if isinstance(row, str):
                yield Record(line, line, [], row, problem=row)
                continue
            cells = [_text(cell) for cell in row]
            yield Record(line, line, cells if any(map(str.strip, cells)) else [], "\t".join(cells))


def _text(cell: object) -> str:
    """Return a cell as a table of text would have it."""
    if cell is None:
        return ""
    if isinstance(cell, bool | dict | list):
        return json.dumps(cell, ensure_ascii=False)
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime) and cell.time() == time():
        return cell.date().isoformat()
    if isinstance(cell, date | time):
        return cell.isoformat()
    return str(cell.total_seconds()) if isinstance(cell, timedelta) else str(cell)
