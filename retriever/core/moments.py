"""Moments: dates with or without a time of day, as ISO 8601 has them. Stored ones are read here, and nowhere else.

A moment is in UTC, and so is a time without a zone. A day, a month or a year as a value is its beginning; as what
values are compared with, it is all of it.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

HOW_WRITTEN = "'2024', '2024-05', '2024-05-31', '2024-05-31T12:00' or '2024-05-31T12:00+02:00'"
"""The forms of a date, for messages."""

_ISO = re.compile(r"\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:\d\d[0-9:.Z+-]*)?)?)?", re.ASCII)
_YEAR, _MONTH, _DAY = 4, 7, 10  # characters
_BEGINNING = {_YEAR: "-01-01", _MONTH: "-01"}


@dataclass(frozen=True, slots=True)
class Span:
    """The moments from a first one to an end, which is the first after them; without zones, in UTC."""

    first: datetime
    end: datetime


def moment_of(value: object) -> datetime | None:
    """Return the moment that a stored value is, without a zone, in UTC; None where it is no text or no ISO date.

    >>> moment_of("2024-06-01T00:30:00+02:00")
    datetime.datetime(2024, 5, 31, 22, 30)
    >>> moment_of("2024-05")
    datetime.datetime(2024, 5, 1, 0, 0)
    """
    if not isinstance(value, str) or not _ISO.fullmatch(value):
        return None
    try:
        moment = datetime.fromisoformat(value + _BEGINNING.get(len(value), ""))
    except ValueError:
        return None
    try:
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except OverflowError:  # by a zone, before the first or after the last moment there is
        return datetime.min if moment.year == 1 else datetime.max


def span_of(value: str | float | None) -> Span | None:
    """Return what a value stands for that moments are compared with; None where it is no date.

    That is a whole day, month or year, which may also be a number, or a single moment.
    """
    text = str(value).strip()
    first = None if isinstance(value, float) else moment_of(text)
    return None if first is None else Span(first, _end(first, len(text)))


def _end(first: datetime, characters: int) -> datetime:
    try:
        if characters == _YEAR:
            return first.replace(year=first.year + 1)
        if characters == _MONTH:
            return (first + timedelta(31)).replace(day=1)
        return first + (timedelta(1) if characters == _DAY else datetime.resolution)
    except (ValueError, OverflowError):
        return datetime.max
