"""The kind of a column, decided by all of its values: numbers, truth values, ratings, dates or text."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from retriever.corpus.fields import counts_days, is_dated, is_named
from retriever.corpus.values import is_missing, number_date, says_stars, star_value, written_date

Convert = Callable[[object], object]

_SHARE = 0.8  # of the values that must be ratings or dates
_HOPELESS, _ENOUGH = 0.5, 500  # a column with fewer ratings or dates among so many values is not looked at further
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?")
_LIKE_NUMBER = re.compile(r"[+-]?[0-9][0-9.,' ]*(?:[eE][+-]?[0-9]+)?")
_DIGITS = re.compile(r"[0-9]{5,19}(?:\.[0-9]+)?")
_MOST_DIGITS = 4000  # that Python reads
_TRUTHS = ({"true", "false"}, {"True", "False"}, {"TRUE", "FALSE"})


@dataclass(frozen=True, slots=True)
class Kind:
    """A decision on a column.

    Attributes:
        convert: what makes a value of it from the file's; None where the value stays.
        note: a statement for the user; empty where nothing is to be said.
    """

    convert: Convert | None = None
    note: str = ""


class ColumnSurvey:
    """Sees the values of a column, some at a time, and then says of which kind it is.

    Args:
        name: the field's name, which makes ratings and dates likelier.
        cells: whether the values are cells of a table, which are texts until they are known to be numbers.
        quoted: whether the file tells by quotes that the numbers in the column are texts.
        role: ``stars`` or ``date`` where a person said that the column holds those.
    """

    def __init__(self, name: str, *, cells: bool, quoted: bool = False, role: str = "") -> None:
        self.name = name
        self.role = role
        self.filled = 0  # values that are there, missing ones not counted
        self.missing: dict[str, None] = {}  # words that stand for a missing value where numbers are expected
        self.dates = DateSurvey(is_dated(name) or role == "date", days=counts_days(name) or role == "date")
        self._cells, self._quoted = cells, quoted
        self._named_stars = is_named(name, "stars") or role == "stars"
        self._numbers = cells
        self._seen_number = False
        self._not_plain = ""  # the first value that is like a number and would not read back
        self._like_numbers = 0
        self._typed = 0  # values that are numbers already
        self._truths: set[str] | None = set() if cells else None
        self._stars = self._says_stars = self._star_texts = 0
        self._looks_further = True

    @property
    def settled(self) -> bool:
        """Whether no further value can change the kind, for values that are no cells: those seen are words."""
        return not self._looks_further and not self._typed

    def see(self, values: Iterable[object]) -> None:
        """See some more values; empty ones do not count."""
        for value, count in Counter(value for value in values if isinstance(value, str | int | float)).items():
            if isinstance(value, bool) or (isinstance(value, str) and not value.strip()):
                continue
            if isinstance(value, str) and is_missing(value, number=True):
                self.missing[value.strip()] = None
                continue
            self.filled += count
            self._typed += 0 if isinstance(value, str) else count
            if self._cells and isinstance(value, str):
                self._see_cell(value.strip(), count)
            if self._looks_further:
                self._see_written(value, count)
        best = max(self._stars, self._says_stars, self.dates.read)
        if self.filled > _ENOUGH and best < _HOPELESS * self.filled and not self.role:
            self._looks_further = False

    def _see_cell(self, cell: str, count: int) -> None:
        if self._truths is not None:
            self._truths = self._truths | {cell} if len(self._truths) < 2 or cell in self._truths else None
        if not self._numbers and self._like_numbers < self.filled - count:  # text for certain
            return
        if reads_back(cell):
            self._seen_number = True
            self._like_numbers += count
        else:
            self._numbers = False
            if _LIKE_NUMBER.fullmatch(cell):
                self._like_numbers += count
                self._not_plain = self._not_plain or cell

    def _see_written(self, value: str | float, count: int) -> None:
        self._stars += count * (star_value(value) is not None)
        self._says_stars += count * says_stars(value)
        self._star_texts += count * (self._named_stars and isinstance(value, str) and star_value(value) is not None)
        self.dates.see(value, count)

    def kind(self) -> Kind:
        """Return the kind that all values seen have."""
        kind = self._plain_kind() or self._written_kind() or self._text_kind()
        if kind.convert is None and self._typed and self._typed == self.filled and self.missing and not self._cells:
            return replace(kind, convert=_present)
        return kind

    def _plain_kind(self) -> Kind | None:
        """Return the kind of cells that are plainly numbers or truth values."""
        if not self._cells or not self.filled:
            return None
        if self._truths and any(self._truths <= words for words in _TRUTHS):
            return Kind(_truth)
        if self._numbers and self._seen_number and not self.dates.are_seconds(self.filled):
            return Kind(note=f"{self.name!r} is text, as its quotes say") if self._quoted else Kind(number)
        return None

    def _written_kind(self) -> Kind | None:
        if not self._looks_further or not self.filled:
            return None
        stars = self._stars if self._named_stars else self._says_stars
        changes = self._cells or self._star_texts or self._says_stars
        if changes and stars and (stars >= _SHARE * self.filled or self.role == "stars"):
            return Kind(_stars, f"{self.name!r} read as stars")
        if (self.dates.changes or self.missing) and (self.dates.read >= _SHARE * self.filled or self.role == "date"):
            return self.dates.kind(self.name)
        return None

    def _text_kind(self) -> Kind:
        if self._not_plain and self._like_numbers == self.filled:
            return Kind(note=f"{self.name!r} is text, as {self._not_plain!r} is not a number's plain form")
        return Kind()


class DateSurvey:
    """Counts which values of a column are dates, and which tell whether day or month comes first.

    Args:
        dated: whether the column is one of dates by its name, so that seconds and short dates are dates too.
        days: whether the days that spreadsheets count are too.
    """

    def __init__(self, dated: bool, *, days: bool = False) -> None:
        self.read = 0
        self.order: bool | None = None
        self.changes = False
        self._dated, self._days = dated, days
        self._seconds = 0
        self._first = {True: 0, False: 0}  # dates that tell that the day comes first, or the month
        self._dotted = self._open = 0
        self._example = ""

    def see(self, value: str | float, count: int) -> None:
        """See a value that occurs some times."""
        if not isinstance(value, str) or _DIGITS.fullmatch(value.strip()):
            if self._dated and number_date(value, days=self._days):
                self._seconds += count
                self.read += count
                self.changes = True
            return
        written = written_date(value)
        if written is None or (written.loose and not self._dated):
            return
        self.read += count
        self.changes |= written.plain != value
        if written.day_first is not None:
            self._first[written.day_first] += count
        elif written.mark:
            self._open += count
            self._example = self._example or value
        elif re.match(r"\s*\d{1,2}\.\s?\d", value):
            self._dotted += count

    def are_seconds(self, filled: int) -> bool:
        """Return whether all of so many values are seconds since 1970."""
        return 0 < self._seconds == filled

    @property
    def undecided(self) -> bool:
        """Whether there are dates of which the column does not tell the order."""
        return bool(self._open) and self.day_first is None

    @property
    def day_first(self) -> bool | None:
        """Whether the day comes first in this column; None where the column does not tell, or contradicts itself."""
        if self.order is not None:
            return self.order
        if self._first[True] and self._first[False]:
            return None
        if self._first[True] or self._first[False]:
            return bool(self._first[True])
        return True if self._dotted else None

    def kind(self, name: str) -> Kind:
        """Return the kind of the column of that name."""
        if self.undecided:
            note = f"{name!r}: day or month first is not clear, so that dates like {self._example!r} stay as they are"
        else:
            order = {True: " (day first)", False: " (month first)", None: ""}[self.day_first]
            note = f"{name!r} read as date{order if self._open or any(self._first.values()) else ''}"
            note = note if self.changes else ""
        return Kind(date_reader(self.day_first, dated=self._dated, days=self._days), note)


def settle_orders(columns: Sequence[ColumnSurvey]) -> None:
    """Let date columns that tell whether day or month comes first decide for those of the same file that do not."""
    orders = {column.dates.day_first for column in columns if column.dates.read and not column.dates.undecided} - {None}
    for column in columns:
        if len(orders) == 1 and column.dates.undecided:
            column.dates.order = next(iter(orders))


def reads_back(cell: str) -> bool:
    """Return whether a cell is a number that is written again with the same characters: not 2.10, 01234, 1e5, +1."""
    match = _NUMBER.fullmatch(cell)
    if not match or len(cell) > _MOST_DIGITS or cell == "-0":
        return False
    return match[1] is None or repr(float(cell)) == cell


def number(value: object) -> object:
    """Return the number of a cell of a number column; None of a missing one."""
    cell = str(value).strip()
    if is_missing(cell, number=True):
        return None
    return float(cell) if "." in cell else int(cell)


def date_reader(day_first: bool | None, *, dated: bool, days: bool = False) -> Convert:
    """Return what reads a value as a date as ISO has it; a value that is none stays, a missing one is None."""

    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return value
        if not isinstance(value, str) or _DIGITS.fullmatch(value.strip()):
            return (number_date(value, days=days) if dated else None) or value
        written = written_date(value)
        if written is None or (written.loose and not dated):
            return _present(value)
        return written.iso(day_first=day_first) or value

    return read


def _present(value: object) -> object:
    return None if isinstance(value, str) and is_missing(value, number=True) else value


def _truth(value: object) -> object:
    word = str(value).strip().lower()
    return word == "true" if word in ("true", "false") else None


def _stars(value: object) -> object:
    stars = star_value(value)
    return _present(value) if stars is None else stars
