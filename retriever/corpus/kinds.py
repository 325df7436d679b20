"""The kind of a column, decided by all of its values: numbers, truth values, ratings, dates or text."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from retriever.corpus.fields import counts_days, is_dated, is_named
from retriever.corpus.values import WrittenDate, is_missing, number_date, says_stars, star_value, written_date

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
        self.missing: dict[str, None] = {}  # words that stand for a missing value where numbers are expected
        self.dates = DateSurvey(is_dated(name) or role == "date", days=counts_days(name) or role == "date")
        self._cells, self._quoted, self._role = cells, quoted, role
        self._named_stars = is_named(name, "stars") or role == "stars"
        self._filled = self._typed = (
            0  # values that are there, missing ones not counted; those that are numbers already
        )
        self._numbers = self._like_numbers = 0  # cells that read back as numbers, and such that do not
        self._not_plain = ""  # the first of those that do not
        self._truths: set[str] = set()
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
            self._filled += count
            self._typed += 0 if isinstance(value, str) else count
            if self._cells:
                self._see_cell(str(value).strip(), count)
            if self._looks_further:
                self._see_written(value, count)
        best = max(self._stars, self._says_stars, self.dates.read)
        if self._filled > _ENOUGH and best < _HOPELESS * self._filled and not self._role:
            self._looks_further = False

    def _see_cell(self, cell: str, count: int) -> None:
        if len(self._truths) < 3:
            self._truths.add(cell)
        if self._numbers + self._like_numbers < self._filled - count:  # text for certain
            return
        if reads_back(cell):
            self._numbers += count
        elif _LIKE_NUMBER.fullmatch(cell):
            self._like_numbers += count
            self._not_plain = self._not_plain or cell

    def _see_written(self, value: str | float, count: int) -> None:
        if star_value(value) is not None:
            self._stars += count
            self._star_texts += count * (self._named_stars and isinstance(value, str))
        self._says_stars += count * says_stars(value)
        self.dates.see(value, count)

    def kind(self) -> Kind:
        """Return the kind that all values seen have."""
        if self._truths and any(self._truths <= words for words in _TRUTHS):
            return Kind(_truth)
        if 0 < self._numbers == self._filled and self.dates.seconds < self._filled:
            return Kind(note=f"{self.name!r} is text, as its quotes say") if self._quoted else Kind(number)
        if self._looks_further and (kind := self._written_kind()):
            return kind
        if self._not_plain and self._numbers + self._like_numbers == self._filled:
            return Kind(note=f"{self.name!r} is text, as {self._not_plain!r} is not a number's plain form")
        only_numbers = 0 < self._typed == self._filled and not self._cells
        return Kind(_present if only_numbers and self.missing else None)

    def _written_kind(self) -> Kind | None:
        """Return the kind of ratings or dates."""
        stars = self._stars if self._named_stars else self._says_stars
        changes = self._cells or self._star_texts or self._says_stars
        if changes and stars and (stars >= _SHARE * self._filled or self._role == "stars"):
            return Kind(_stars, f"{self.name!r} read as stars")
        dates = self.dates.read >= _SHARE * self._filled or self._role == "date"
        return self.dates.kind(self.name) if self._filled and dates and (self.dates.changes or self.missing) else None


class DateSurvey:
    """Counts which values of a column are dates, and which tell whether day or month comes first.

    Args:
        dated: whether the column is one of dates by its name, so that seconds and short dates are dates too.
        days: whether the days that spreadsheets count are too.
    """

    def __init__(self, dated: bool, *, days: bool = False) -> None:
        self.read = self.seconds = 0  # dates, and those in digits alone
        self.changes = False
        self.order: bool | None = None  # as other columns say
        self._dated, self._days = dated, days
        self._first = {True: 0, False: 0}  # dates that tell that the day comes first, or the month
        self._dotted = self._open = 0
        self._example = ""

    def see(self, value: str | float, count: int) -> None:
        """See a value that occurs some times."""
        written = self._written(value)
        if written is None:
            return
        self.read += count
        if isinstance(written, str):
            self.seconds += count
            self.changes = True
            return
        self.changes |= written.plain != value
        if written.day_first is not None:
            self._first[written.day_first] += count
        elif written.mark:
            self._open += count
            self._example = self._example or str(value)
        elif re.match(r"\s*\d{1,2}\.\s?\d", str(value)):
            self._dotted += count

    @property
    def undecided(self) -> bool:
        """Whether there are dates of which the column does not tell the order."""
        return bool(self._open) and self.day_first is None

    @property
    def day_first(self) -> bool | None:
        """Whether the day comes first in this column; None where the column does not tell, or contradicts itself."""
        if self.order is not None or all(self._first.values()):
            return self.order
        if any(self._first.values()):
            return bool(self._first[True])
        return True if self._dotted else None

    def kind(self, name: str) -> Kind:
        """Return the kind of the column of that name."""
        if self.undecided:
            note = f"{name!r}: day or month first is not clear, so that dates like {self._example!r} stay as they are"
            return Kind(self._iso, note)
        order = {True: " (day first)", False: " (month first)", None: ""}[self.day_first]
        note = f"{name!r} read as date{order if self._open or any(self._first.values()) else ''}"
        return Kind(self._iso, note if self.changes else "")

    def _written(self, value: str | float) -> WrittenDate | str | None:
        """Return a date, or as ISO has it where it is digits alone; None where the value is none in this column."""
        if isinstance(value, str) and not _DIGITS.fullmatch(value.strip()):
            written = written_date(value)
            return written if written and (self._dated or not written.loose) else None
        return number_date(value, days=self._days) if self._dated else None

    def _iso(self, value: object) -> object:
        """Return a date as ISO has it; a value that is none stays, a missing one is None."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return value
        written = self._written(value)
        if isinstance(written, WrittenDate):
            return written.iso(day_first=self.day_first) or value
        return written or _present(value)


def settle_orders(columns: Sequence[ColumnSurvey]) -> None:
    """Let date columns that tell whether day or month comes first decide for those of the same file that do not."""
    orders = {column.dates.day_first for column in columns if column.dates.read and not column.dates.undecided} - {None}
    for column in columns:
        if len(orders) == 1 and column.dates.undecided:
            column.dates.order = next(iter(orders))


def reads_back(cell: str) -> bool:
    """Return whether a cell is a number that is written again with the same characters: not 2.10, 01234, 1e5, +1."""
    match = _NUMBER.fullmatch(cell) if len(cell) <= _MOST_DIGITS and cell != "-0" else None
    return match is not None and (match[1] is None or repr(float(cell)) == cell)


def number(value: object) -> object:
    """Return the number of a cell of a number column; None of a missing one."""
    cell = str(value).strip()
    if is_missing(cell, number=True):
        return None
    return float(cell) if "." in cell else int(cell)


def _present(value: object) -> object:
    return None if isinstance(value, str) and is_missing(value, number=True) else value


def _truth(value: object) -> object:
    return {"true": True, "false": False}.get(str(value).strip().lower())


def _stars(value: object) -> object:
    stars = star_value(value)
    return _present(value) if stars is None else stars
