"""Describe the filters of a page, and build the ``--where`` expression they become."""

from dataclasses import dataclass
from datetime import date, timedelta

from retriever.core.errors import UsageError
from retriever.index.profiling import Columns


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a page: any of some products, categories and whole stars, from a first day to a last.

    Empty fields allow everything; ratings that are not whole are rounded.
    """

    product: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    stars: tuple[int, ...] = ()
    since: date | None = None
    until: date | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stars", tuple(sorted({one for one in self.stars if 0 <= one <= 10})))


def where(filters: Filters, columns: Columns) -> str | None:
    """Return the filter expression over an index's fields, or None where all is allowed.

    Raises:
        UsageError: the days are in the wrong order.
    """
    if filters.since and filters.until and filters.since > filters.until:
        raise UsageError("The first day is after the last.", hint="Swap the two dates.")
    parts = []
    if filters.product and columns.product:
        parts.append(_any_of(columns.product, filters.product))
    if filters.category and columns.category:
        parts.append(_any_of(columns.category, filters.category))
    if filters.stars and columns.stars:
        name = _field(columns.stars)
        ratings = [f"({name} >= {one - 0.5} and {name} < {one + 0.5})" for one in filters.stars]
        parts.append(f"({' or '.join(ratings)})")
    if filters.since and columns.date:
        parts.append(f"{_field(columns.date)} >= '{filters.since.isoformat()}'")
    if filters.until and filters.until < date.max and columns.date:  # a time of that day is still before the next
        parts.append(f"{_field(columns.date)} < '{(filters.until + timedelta(days=1)).isoformat()}'")
    return " and ".join(parts) or None


def _any_of(field: str, values: tuple[str, ...]) -> str:
    """Compare with texts and, where a text is a number, with that too: ids of products are often numbers."""
    options = [_text(value) for value in values] + [value for value in values if value.isdecimal()]
    return f"{_field(field)} in ({', '.join(options)})"


def _field(name: str) -> str:
    return f"`{name}`"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
