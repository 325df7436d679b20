"""Filters as trees, the SQL they become, and why one accepts nothing. Values and paths are parameters, never SQL.

Every comparison is typed and two-valued: a number compares with numbers only, a string with strings, a boolean with
booleans; a missing field or a value of another type makes the comparison false, `!=` included. SQLite's integers have
64 bits and it reads longer ones as floats: those in filters are compared with the digits as they are stored.

In a field of dates, values are moments (`retriever.core.moments`). The digits of a date that is days away from another
moment say which is later, whatever the zones; only dates near it are read one by one.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import datetime, timedelta
from typing import Any, TypeAlias
from unicodedata import normalize

from retriever.core.moments import Span, moment_of, span_of
from retriever.core.text import composed

Value: TypeAlias = "bool | int | float | str | None"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A condition over the row of ``documents`` at hand, with its positional parameters."""

    sql: str
    parameters: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``field operator value``; ``position`` is where the field stands, ``written`` the value as it stands there."""

    field: str
    operator: str
    values: tuple[Value, ...]
    position: int
    written: str = dataclass_field(default="", compare=False)

    @property
    def may_be_of_dates(self) -> bool:
        """Whether it is one of dates where the field holds these."""
        compares = self.operator not in ("has", "contains")
        return compares and any(isinstance(value, str) or span_of(value) for value in self.values)


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a node."""

    node: "Node"


@dataclass(frozen=True, slots=True)
class FilterGroup:
    """Nodes joined by ``AND`` or ``OR``."""

    operator: str
    nodes: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class TextsAmong:
    """The embedded documents whose text is among some, given by content id."""

    contents: tuple[int, ...]


Node: TypeAlias = "Comparison | Not | FilterGroup | TextsAmong"


@dataclass(frozen=True, slots=True)
class BoundField:
    """The field of a comparison in an index: its JSON path, and whether the comparison is one of dates."""

    path: str
    dates: bool = False


@dataclass(frozen=True, slots=True)
class _Operand:
    """How to ask for the JSON type, the value and the JSON text of something, each with the same parameters."""

    type: str
    value: str
    parameters: tuple[Value, ...]
    json: str = ""


_LIST_ITEM = _Operand("item.type", "item.value", ())


def compile_node(node: Node, bound: Callable[[Comparison], BoundField]) -> Compiled:
    """Return the SQL of a tree; ``bound`` gives the field that a comparison names."""
    if isinstance(node, Not):
        inner = compile_node(node.node, bound)
        return Compiled(f"NOT {inner.sql}", inner.parameters)
    if isinstance(node, FilterGroup):
        return _joined(node.operator, [compile_node(child, bound) for child in node.nodes])
    if isinstance(node, TextsAmong):
        return Compiled("(documents.content_id IN (SELECT value FROM json_each(?)))", (json.dumps(node.contents),))
    condition = _comparison(node, bound(node))
    # As a condition of CASE, SQLite evaluates no more of it than it needs; and what is unknown is false.
    return Compiled(f"(CASE WHEN {condition.sql} THEN 1 ELSE 0 END)", condition.parameters)


def _comparison(node: Comparison, bound: BoundField) -> Compiled:
    path = bound.path
    field = _Operand(
        "json_type(documents.metadata, ?)", "json_extract(documents.metadata, ?)", (path,), "documents.metadata -> ?"
    )
    if node.operator == "has":
        if _is_long(node.values[0]):
            return Compiled(
                f"({field.type} = 'array' AND has_number({field.json}, ?))", (path, path, str(node.values[0]))
            )
        inner = _compare(_LIST_ITEM, "=", node.values[0])
        return Compiled(
            f"({field.type} = 'array' AND EXISTS "
            f"(SELECT 1 FROM json_each(documents.metadata, ?) AS item WHERE {inner.sql}))",
            (path, path, *inner.parameters),
        )
    if node.operator == "contains":
        return Compiled(f"({field.type} = 'text' AND contains_folded({field.value}, ?))", (path, path, node.values[0]))
    if not bound.dates:
        return _any_of(field, node.values) if node.operator == "in" else _compare(field, node.operator, node.values[0])
    spans = [span for span in map(span_of, node.values) if span is not None]
    rest = tuple(value for value in node.values if span_of(value) is None)
    operator = "=" if node.operator == "in" else node.operator
    parts = [_compare_dates(field, operator, span) for span in spans]
    return _joined("OR", [*parts, _any_of(field, rest)] if rest else parts)


def _compare_dates(field: _Operand, operator: str, span: Span) -> Compiled:
    """Compare the date in a field with all moments of a span."""
    reaches, passes = _at_or_after(field, span.first), _at_or_after(field, span.end)
    before, not_after = (Compiled(f"NOT {part.sql}", part.parameters) for part in (reaches, passes))
    condition = {
        "=": _joined("AND", [reaches, not_after]),
        "!=": _joined("OR", [before, passes]),
        "<": before,
        "<=": not_after,
        ">": passes,
        ">=": reaches,
    }[operator]
    dated = f"{field.type} = 'text' AND {field.value} >= '0001' AND {is_date(field.value, years=True)}"
    return Compiled(f"({condition.sql} AND {dated})", (*condition.parameters, *field.parameters * dated.count("?")))


def _at_or_after(field: _Operand, moment: datetime) -> Compiled:
    """Return whether the date in a field is a moment or later; two days are more than any zone."""
    later, earlier, (value, path) = _days_from(moment, 2), _days_from(moment, -2), (field.value, field.parameters)
    return Compiled(
        f"({value} >= ? OR ({value} >= ? AND at_or_after({value}, ?)))",
        (*path, later, *path, earlier, *path, moment.isoformat()),
    )


def _days_from(moment: datetime, days: int) -> str:
    """Return the ISO date some days from a moment; beyond the first and the last, a text beside which all dates lie."""
    try:
        return (moment + timedelta(days)).isoformat()
    except OverflowError:
        return ":" if days > 0 else ""


def is_date(value: str, *, years: bool = False) -> str:
    """Return the SQL that says of a text whether it has the shape of an ISO date, or of a bare year where wanted."""
    digit = "[0-9]"
    month = f"{digit * 4}-[01]{digit}"
    day = f"{month}-[0-3]{digit}"
    timed = f"({value} GLOB '{day}[T ][0-2]{digit}:[0-5]{digit}*' AND substr({value}, 17) NOT GLOB '*[^-0-9:.+Z]*')"
    shapes = [f"{value} GLOB '{day}'", timed, f"{value} GLOB '{month}'", f"{value} GLOB '{digit * 4}'"]
    return f"({' OR '.join(shapes[: 3 + years])})"


def _compare(operand: _Operand, operator: str, value: Value) -> Compiled:
    if value is None or isinstance(value, bool):
        return _compare_constant(operand, operator, value)
    if isinstance(value, str):
        value, *others = _spellings(value)
        if others and operator in ("=", "!="):
            within = _any_of(operand, (value,))
            outside = f"({_has_type_of(value, operand)} AND NOT {within.sql})"
            return within if operator == "=" else Compiled(outside, (*operand.parameters, *within.parameters))
    if _is_long(value):
        return Compiled(
            f"({_has_type_of(value, operand)} AND compare_numbers({operand.json}, ?) {operator} 0)",
            (*operand.parameters, *operand.parameters, str(value)),
        )
    return Compiled(
        f"({_has_type_of(value, operand)} AND {operand.value} {operator} ?)",
        (*operand.parameters, *operand.parameters, value),
    )


def _compare_constant(operand: _Operand, operator: str, value: bool | None) -> Compiled:
    if value is None:
        return Compiled(f"({operand.type} {operator} 'null')", operand.parameters)
    wanted = value if operator == "=" else not value
    return Compiled(f"({operand.type} = '{'true' if wanted else 'false'}')", operand.parameters)


def _any_of(operand: _Operand, values: tuple[Value, ...]) -> Compiled:
    """Compare with a list: one SQL list per type, since an OR per value would nest too deeply for SQLite."""
    constants = [value for value in values if value is None or isinstance(value, bool)]
    parts = [_compare_constant(operand, "=", value) for value in dict.fromkeys(constants)]
    parts += [_compare(operand, "=", value) for value in dict.fromkeys(values) if _is_long(value)]
    numbers = tuple(
        value
        for value in values
        if isinstance(value, int | float) and not isinstance(value, bool) and not _is_long(value)
    )
    strings = tuple(spelling for value in values if isinstance(value, str) for spelling in _spellings(value))
    for group in (numbers, strings):
        if group:
            marks = ", ".join("?" * len(group))
            parts.append(
                Compiled(
                    f"({_has_type_of(group[0], operand)} AND {operand.value} IN ({marks}))",
                    (*operand.parameters, *operand.parameters, *group),
                )
            )
    return _joined("OR", parts)


def _spellings(value: str) -> tuple[str, ...]:
    """Return a text composed, as files are read, and decomposed, as documents from elsewhere may be."""
    return (value,) if value.isascii() else tuple(dict.fromkeys((composed(value), normalize("NFD", value))))


def _has_type_of(value: Value, operand: _Operand) -> str:
    return f"{operand.type} = 'text'" if isinstance(value, str) else f"{operand.type} IN ('integer', 'real')"


def _is_long(value: Value) -> bool:
    """Return whether a value is an integer that a longer one may equal as a float."""
    return isinstance(value, int) and not -(1 << 63) < value < 1 << 63


def compare_numbers(stored: str | None, number: str) -> int | None:
    """Return -1, 0 or 1: how a number, as JSON has it, compares with an integer; exactly, whatever their size.

    None of what is no number: SQLite may ask before it has looked at the type.
    """
    value = json.loads(stored or "null")
    return (value > int(number)) - (value < int(number)) if type(value) in (int, float) else None


def has_number(stored: str | None, number: str) -> bool:
    """Return whether a list, as JSON has it, holds an integer of any size."""
    items = json.loads(stored) if stored is not None and stored.startswith("[") else []
    return any(item == int(number) for item in items if isinstance(item, int | float))


def _joined(operator: str, parts: Sequence[Compiled]) -> Compiled:
    sql = f" {operator} ".join(part.sql for part in parts)
    return Compiled(f"({sql})", tuple(value for part in parts for value in part.parameters))


def _contains_folded(text: object, part: str) -> bool:
    return isinstance(text, str) and composed(part).casefold() in composed(text).casefold()


def _is_at_or_after(stored: object, moment: str) -> bool | None:
    """Return whether a date is a moment or later; None of what is no date."""
    value = moment_of(stored)
    return None if value is None else value >= datetime.fromisoformat(moment)


FILTER_FUNCTIONS: Mapping[str, Callable[[Any, str], int | None]] = {
    "at_or_after": _is_at_or_after,
    "contains_folded": _contains_folded,
    "compare_numbers": compare_numbers,
    "has_number": has_number,
}
"""Functions of two arguments that the SQL of filters calls."""
