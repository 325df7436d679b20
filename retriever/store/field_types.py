"""The types of what documents hold in a field, and which filters compare with values of another type."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache

from retriever.core.errors import FilterError
from retriever.core.moments import HOW_WRITTEN, span_of
from retriever.store.connection import Connections, Table
from retriever.store.filter_tree import Comparison, FilterGroup, Node, Not, TextsAmong, Value, is_date

_KINDS = {
    "integer": "numbers",
    "real": "numbers",
    "text": "texts",
    "true": "true and false",
    "false": "true and false",
    "array": "lists",
}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_FIELDS = 1024  # of which it is remembered whether they hold dates
_VALUE = "json_extract(metadata, ?1)"
_DATE = f"json_type(metadata, ?1) = 'text' AND {is_date(_VALUE)}"
_NO_DATE = f"{_VALUE} != '' AND NOT (json_type(metadata, ?1) = 'text' AND {is_date(_VALUE, years=True)})"
_COUNT_DATES = f"SELECT COUNT(*) FROM (SELECT 1 FROM documents WHERE parent IS NULL AND {_DATE} LIMIT ?2)"
_COUNT_OTHERS = f"SELECT COUNT(*) FROM (SELECT 1 FROM documents WHERE parent IS NULL AND {_NO_DATE} LIMIT ?2)"

_ITEM_TYPES = (
    "SELECT DISTINCT item.type FROM documents, json_each(metadata, ?) AS item "
    "WHERE documents.parent IS NULL AND json_type(metadata, ?) = 'array'"
)


@dataclass(frozen=True, slots=True)
class HeldTypes:
    """The types of what documents hold in a field.

    Attributes:
        values: as SQLite names those of JSON.
        items: those of the items of lists.
        dates: whether its texts are dates (`FieldTypes.holds_dates`).
    """

    values: frozenset[str]
    items: frozenset[str] = frozenset()
    dates: bool = False

    def __str__(self) -> str:
        """Name the types: "dates", "lists of numbers", "numbers and texts"; nothing where there are no values."""
        kinds, items = self.kinds(), " and ".join(sorted(_kinds(self.items)))
        return " and ".join(f"lists of {items}" if items and kind == "lists" else kind for kind in sorted(kinds))

    def kinds(self) -> set[str]:
        """Return the types of the values as people name them."""
        return {"dates" if self.dates and kind == "texts" else kind for kind in _kinds(self.values)}


class FieldTypes(Table):
    """The types of fields, as the documents have them now."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self._dates_known = lru_cache(_FIELDS)(lambda revision, path: self._holds_dates(path))

    def held(self, path: str) -> HeldTypes:
        """Return the types of what documents hold at a JSON path of their metadata; all of them are looked at."""
        rows = self._db.rows("SELECT DISTINCT json_type(metadata, ?) FROM documents WHERE parent IS NULL", (path,))
        values = frozenset(row[0] for row in rows if row[0])
        items = self._db.rows(_ITEM_TYPES, (path, path)) if "array" in values else []
        return HeldTypes(values, frozenset(row[0] for row in items), self.holds_dates(path))

    def holds_dates(self, path: str) -> bool:
        """Return whether the values at a JSON path are dates: four in five of those that are no bare year.

        Null and empty texts do not count. The answer is kept until documents change.
        """
        if self._db.has_changed_documents:
            return self._holds_dates(path)
        return self._dates_known(self._db.number("SELECT documents FROM revision"), path)

    def _holds_dates(self, path: str) -> bool:
        most = self._db.number("SELECT COUNT(*) FROM documents WHERE parent IS NULL") // 5
        others = self._db.number(_COUNT_OTHERS, (path, most + 1))
        dates = max(1, 4 * others)
        return others <= most and self._db.number(_COUNT_DATES, (path, dates)) == dates


def find_misfit(node: Node, types_of: Callable[[Comparison], HeldTypes]) -> FilterError | None:
    """Return what keeps a filter from accepting any document, where it is the type of a value, and how to write it.

    ``types_of`` gives what documents hold in the field of a comparison.
    """
    if isinstance(node, Not | TextsAmong):  # `not` is true of every document where its inner node is false of all
        return None
    if isinstance(node, FilterGroup):
        checks = [find_misfit(child, types_of) for child in node.nodes]
        misfits = [misfit for misfit in checks if misfit is not None]
        return misfits[0] if misfits and (node.operator == "AND" or len(misfits) == len(checks)) else None
    return _misfit(node, types_of(node))


def _misfit(node: Comparison, held: HeldTypes) -> FilterError | None:
    among_items = node.operator == "has" and "array" in held.values
    kinds = _kinds(held.items) if among_items else held.kinds()
    wanted = {_kind(value, kinds) for value in node.values}
    if node.operator == "has" and not among_items:
        wanted = {"lists"}
    if None in wanted or not kinds or wanted & kinds:
        return None
    of_lists = "lists of " if among_items else ""
    problem = f"No document matches: the field {node.field} holds {of_lists}{' and '.join(sorted(kinds))}."
    return FilterError(problem, hint=_advice(node, kinds, among_items))


def _kinds(json_types: Collection[str]) -> set[str]:
    return {_KINDS[json_type] for json_type in json_types if json_type in _KINDS}


def _kind(value: Value, kinds: Collection[str]) -> str | None:
    """Return the kind of a filter's value beside those of a field; None of null, which compares with all types."""
    if value is None:
        return None
    if "dates" in kinds and (isinstance(value, str) or span_of(value)):
        return "dates"
    return "true and false" if isinstance(value, bool) else "texts" if isinstance(value, str) else "numbers"


def _advice(node: Comparison, kinds: set[str], among_items: bool) -> str:
    """Say how to write a comparison with a field of some kinds of values."""
    value, operator = node.values[0], node.operator
    if "lists" in kinds:
        each = [node.written] if operator != "in" else node.written[1:-1].split(",")
        items = " or ".join(f"{node.field} has {item.strip()}" for item in each)
        return f"An item of a list is looked for with has: {items}"
    if operator == "in":
        return {
            "dates": f"Write dates as {HOW_WRITTEN}.",
            "numbers": "Write numbers without quotes.",
            "texts": "Write texts in quotes.",
        }.get(min(kinds), "")
    if "true and false" in kinds:
        return f"Write {node.field} = true, or false."
    if operator == "contains" or (operator == "has" and not among_items):
        operator = "="
    written = node.written
    if "numbers" in kinds and isinstance(value, str):
        written = value.strip() if _NUMBER.fullmatch(value.strip()) else ""
    elif _kind(value, kinds) not in kinds:
        written = f"'{written}'" if "texts" in kinds else ""
    if written:
        return f"Write {node.field} {operator} {written}"
    how = f", written as {HOW_WRITTEN}" if "dates" in kinds else ""
    return f"Compare it with {' or '.join(sorted(kinds))}{how}."
