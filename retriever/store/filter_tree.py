"""Filters as trees, and the SQL they become. Values and paths travel as parameters, never inside the SQL.

Every comparison is typed and two-valued: a number compares with numbers only, a string with strings, a boolean with
booleans; a missing field or a value of another type makes the comparison false, `!=` included.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = "bool | int | float | str | None"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A condition over the row of ``documents`` at hand, with its positional parameters."""

    sql: str
    parameters: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``field operator value``; ``position`` is where the field stands in the expression."""

    field: str
    operator: str
    values: tuple[Value, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a node."""

    node: "Node"


@dataclass(frozen=True, slots=True)
class FilterGroup:
    """Nodes joined by ``AND`` or ``OR``."""

    operator: str
    nodes: tuple["Node", ...]


Node: TypeAlias = "Comparison | Not | FilterGroup"


@dataclass(frozen=True, slots=True)
class _Operand:
    """How to ask for the JSON type and the value of something, each with the same parameters."""

    type: str
    value: str
    parameters: tuple[Value, ...]


_LIST_ITEM = _Operand("item.type", "item.value", ())


def compile_node(node: Node, path_of: Callable[[Comparison], str]) -> Compiled:
    """Return the SQL of a tree; ``path_of`` resolves the field a comparison names."""
    if isinstance(node, Not):
        inner = compile_node(node.node, path_of)
        return Compiled(f"NOT {inner.sql}", inner.parameters)
    if isinstance(node, FilterGroup):
        return _joined(node.operator, [compile_node(child, path_of) for child in node.nodes])
    condition = _comparison(node, path_of(node))
    return Compiled(f"COALESCE({condition.sql}, 0)", condition.parameters)


def _comparison(node: Comparison, path: str) -> Compiled:
    field = _Operand("json_type(documents.metadata, ?)", "json_extract(documents.metadata, ?)", (path,))
    if node.operator == "has":
        inner = _compare(_LIST_ITEM, "=", node.values[0])
        return Compiled(
            f"({field.type} = 'array' AND EXISTS "
            f"(SELECT 1 FROM json_each(documents.metadata, ?) AS item WHERE {inner.sql}))",
            (path, path, *inner.parameters),
        )
    if node.operator == "contains":
        return Compiled(f"({field.type} = 'text' AND contains_folded({field.value}, ?))", (path, path, node.values[0]))
    if node.operator == "in":
        return _any_of(field, node.values)
    return _compare(field, node.operator, node.values[0])


def _compare(operand: _Operand, operator: str, value: Value) -> Compiled:
    if value is None or isinstance(value, bool):
        return _compare_constant(operand, operator, value)
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
    numbers = tuple(value for value in values if isinstance(value, int | float) and not isinstance(value, bool))
    strings = tuple(value for value in values if isinstance(value, str))
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


def _has_type_of(value: Value, operand: _Operand) -> str:
    return f"{operand.type} = 'text'" if isinstance(value, str) else f"{operand.type} IN ('integer', 'real')"


def _joined(operator: str, parts: Sequence[Compiled]) -> Compiled:
    sql = f" {operator} ".join(part.sql for part in parts)
    return Compiled(f"({sql})", tuple(value for part in parts for value in part.parameters))
