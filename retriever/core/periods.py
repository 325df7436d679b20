"""Days as months, quarters and years: what a day is part of, and every part from the first to the last."""

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from retriever.core.errors import UsageError
from retriever.core.moments import moment_of
from retriever.core.types import JSON

Period = Literal["month", "quarter", "year"]
PERIODS: tuple[Period, ...] = get_args(Period)
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
MOST_SHOWN = 24
"""Periods that a chart has room for, and that dates are counted in."""


def period_of(day: str, unit: Period) -> str:
    """Return the month 2024-05, the quarter 2024-Q2 or the year 2024 of a day 2024-05-31."""
    if unit == "month":
        return day[:7]
    return day[:4] if unit == "year" else f"{day[:4]}-Q{(int(day[5:7]) + 2) // 3}"


def all_periods(days: Iterable[str], unit: Period) -> list[str]:
    """Return every period from the first to the last of some days, none left out; nothing without days."""
    known = sorted(days)
    if not known:
        return []
    months = range(_month(known[0]), _month(known[-1]) + 1)
    return list(dict.fromkeys(period_of(f"{month // 12:04}-{month % 12 + 1:02}-01", unit) for month in months))


def fitting(days: Iterable[str]) -> Period:
    """Return the shortest unit in which some days span at most `MOST_SHOWN` periods; years where none does."""
    known = sorted(days)
    span = _month(known[-1]) - _month(known[0]) + 1 if known else 0
    return next((unit for unit in PERIODS if span <= MOST_SHOWN * _MONTHS[unit]), "year")


def as_periods(values: Sequence[JSON]) -> list[JSON]:
    """Return values with the dates among them as days, else months, else years, so that at most `MOST_SHOWN` differ.

    There are no quarters, since filters do not take them. A date that was written as a month or a year is never a
    shorter period; what is no date stays as it is.

    >>> as_periods(["2024-05-31T12:00", "2024-06-01T00:30:00+02:00", "2024-06", None])
    ['2024-05-31', '2024-05-31', '2024-06', None]
    """
    days = [None if (moment := moment_of(value)) is None else moment.date().isoformat() for value in values]
    written = [day and day[: len(str(value))] for day, value in zip(days, values, strict=True)]
    cut = written
    for unit in PERIODS:
        if len({*cut} - {None}) > MOST_SHOWN and unit != "quarter":
            cut = [day and period_of(day, unit) for day in written]
    return [value if day is None else day for day, value in zip(cut, values, strict=True)]


def period_unit(name: str) -> Period:
    """Return the unit of a name.

    Raises:
        UsageError: there is none.
    """
    for unit in PERIODS:
        if unit == name:
            return unit
    raise UsageError(f"{name!r} is no period.", hint=f"Give one of: {', '.join(PERIODS)}.")


def _month(day: str) -> int:
    """Return a day's month as a number, one more for every month."""
    return int(day[:4]) * 12 + int(day[5:7]) - 1
