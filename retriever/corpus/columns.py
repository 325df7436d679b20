"""Which columns of a table of reviews hold what: told by their names and values, for a person to correct."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import cast

from retriever.core.types import JSON, Document

MOST_STARS = 10
_SHARE = 0.8  # of the values that must be of a column's kind
_LONG = 20  # characters that a text column without a known name has on average, at least
_NAMES = {
    "text": "text reviewtext reviewbody body review contents content comment comments feedback message description",
    "id": "id docid reviewid commentid ticketid uuid",
    "product": "product productname producttitle item itemname productid asin parentasin model brand",
    "category": "category productcategory maincategory department section topic",
    "stars": "stars rating score starrating overall reviewrating reviewscore points",
    "date": "date reviewdate reviewtime timestamp created createdat datetime time unixreviewtime submitted posted",
}
_DATE_FORMATS = ("%Y/%m/%d", "%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y", "%d.%m.%Y")
_FIRST_SECOND, _LAST_SECOND = 10**8, 10**10  # from 1973 to 2286; a thousand times that are milliseconds


@dataclass(frozen=True, slots=True)
class Columns:
    """The field of each role; empty where there is none.

    Attributes:
        text: what is read and searched.
        id: what tells rows apart.
        product: what a review is about.
        category: the kind of product.
        stars: the rating, a number from 0 to 10.
        date: when it was written.
    """

    text: str = ""
    id: str = ""
    product: str = ""
    category: str = ""
    stars: str = ""
    date: str = ""


def recognise(rows: Sequence[Mapping[str, object]]) -> Columns:
    """Return which fields hold what in some rows, each field in one role at most."""
    values: dict[str, list[object]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(value)
    values = {name: [one for one in column if one is not None] for name, column in values.items()}
    found = Columns()
    for role, fits in _FITS.items():
        taken = {getattr(found, other) for other in _FITS}
        fitting = [name for name, column in values.items() if name not in taken and column and fits(column)]
        named = [name for known in _NAMES[role].split() for name in fitting if _plain_name(name) == known]
        found = replace(found, **{role: named[0]}) if named else found
    return found if found.text else replace(found, text=_longest(values, found))


def _longest(values: Mapping[str, Sequence[object]], found: Columns) -> str:
    """Return the column with the longest texts among those without a role; empty where none has sentences."""
    taken = {getattr(found, role) for role in _FITS}
    lengths = {name: _mean_length(column) for name, column in values.items() if name not in taken and column}
    long = {name: length for name, length in lengths.items() if length >= _LONG}
    return max(long, key=lambda name: long[name], default="")


def normalised(document: Document, columns: Columns) -> Document:
    """Return the document with its stars as a number and its date as 2024-05-31, where they can be read so."""
    changed: dict[str, JSON] = {}
    for field, read in ((columns.stars, star_value), (columns.date, iso_date)):
        value = document.metadata.get(field)
        plain = None if value is None else read(value)
        if plain is not None and plain != value:
            changed[field] = cast("JSON", plain)
    return replace(document, metadata={**document.metadata, **changed}) if changed else document


def star_value(value: object) -> int | float | None:
    """Return a rating as a number from 0 to `MOST_STARS`: of 4, "4.5", "4 out of 5 stars"; None for anything else."""
    if isinstance(value, str):
        match = re.match(r"\s*(\d+(?:\.\d+)?)(?:\s*(?:/|out of|stars?\b|★)|\s*$)", value, re.IGNORECASE)
        value = float(match[1]) if match else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_STARS:
        return None
    return int(value) if value == int(value) else value


def iso_date(value: object) -> str | None:
    """Return a date as 2024-05-31: of ISO dates, seconds or milliseconds since 1970, and dates with a month's name.

    Day and month in figures alone are read only where their order is plain: 2024/05/31 and 31.05.2024.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value if value <= _LAST_SECOND else value / 1000
        plain = _FIRST_SECOND <= seconds <= _LAST_SECOND
        return datetime.fromtimestamp(seconds, UTC).date().isoformat() if plain else None
    if not isinstance(value, str):
        return None
    text = value.strip()
    try:
        return datetime.fromisoformat(text).date().isoformat()
    except ValueError:
        pass
    for form in _DATE_FORMATS:
        try:
            return datetime.strptime(text, form).date().isoformat()
        except ValueError:
            continue
    return None


def _plain_name(name: str) -> str:
    """Return the last part of a field's name, letters and digits alone: ``review.Star_Rating`` is ``starrating``."""
    return re.sub(r"[^a-z0-9]", "", name.rsplit(".", 1)[-1].lower())


def _mean_length(column: Sequence[object]) -> float:
    return sum(len(one) for one in column if isinstance(one, str)) / len(column)


def _mostly(is_one: Callable[[object], bool]) -> Callable[[Sequence[object]], bool]:
    return lambda column: sum(map(is_one, column)) >= _SHARE * len(column)


def _is_key(column: Sequence[object]) -> bool:
    return _mostly(_is_label)(column) and len(set(map(str, column))) == len(column)


def _is_label(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


_FITS: Mapping[str, Callable[[Sequence[object]], bool]] = {
    "text": _mostly(lambda one: isinstance(one, str)),
    "id": _is_key,
    "stars": _mostly(lambda one: star_value(one) is not None),
    "date": _mostly(lambda one: iso_date(one) is not None),
    "product": _mostly(_is_label),
    "category": _mostly(_is_label),
}
