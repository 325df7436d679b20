"""One JSON object that holds many records: under keys, as a list somewhere inside, or as columns.

The shape is found in a first pass. Columns are written to temporary files, one each, and read side by side.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import IO, BinaryIO, Literal, TypeAlias, cast

from retriever.core.errors import InputError
from retriever.corpus.encodings import UTF8, as_utf8
from retriever.corpus.fields import is_named
from retriever.corpus.json_values import Cursor, Node, with_id
from retriever.corpus.rows import Row

Kind: TypeAlias = Literal["list", "keyed", "columns", "split", "table"]
_ROLES = ("text", "stars", "date", "id", "product", "category")


@dataclass(frozen=True, slots=True)
class Shape:
    """Where the rows of one object are.

    Attributes:
        kind: of what holds them.
        path: keys that lead to it.
    """

    kind: Kind
    path: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """A statement for the user."""
        inside = f" in {'.'.join(self.path)!r}" if self.path else ""
        return {
            "list": f"one object: the rows are the list{inside}",
            "keyed": f"one object: the rows are its members{inside}, with their keys as ids",
            "columns": f"one object: its members{inside} are columns",
            "split": f"one object: the rows are lists of cells{inside}",
            "table": f"one object: the rows are the list in {'.'.join((*self.path, 'data'))!r}, with the index as ids",
        }[self.kind]


def find_shape(stream: BinaryIO, encoding: str, file: str) -> Shape | None:
    """Return the shape of a stream of JSON that is one object of many records; None of any other.

    Raises:
        InputError: it holds several lists of records.
    """
    cursor, root = Cursor(as_utf8(stream, encoding)), Node()
    if cursor.peek() != "{":
        return None
    with suppress(ValueError, RecursionError):  # what was read up to there tells the shape
        cursor.summary(root)
        if cursor.peek():
            return None
    return _shape(root, (), file)


def read_shaped(stream: BinaryIO, encoding: str, shape: Shape, file: str) -> Iterator[Row]:
    """Yield the rows of one object.

    Raises:
        InputError: its columns do not have the same rows.
    """
    cursor = Cursor(as_utf8(stream, encoding))
    try:
        cursor.enter(shape.path)
        if shape.kind in ("list", "keyed"):
            yield from cursor.items() if shape.kind == "list" else cursor.keyed()
        elif shape.kind == "table":
            yield from _rows_of_table(cursor)
        else:
            with ExitStack() as stack:
                yield from _rows_of_columns(cursor, stack) if shape.kind == "columns" else _rows_of_cells(cursor, stack)
    except ValueError as error:
        raise InputError(f"{file} is no JSON that can be read: {error}.", hint="Was it written completely?") from error


def _shape(node: Node, path: tuple[str, ...], file: str) -> Shape | None:
    lists = {name: member for name, member in node.members.items() if member.kind == "list" and member.size}
    objects = {name: member for name, member in node.members.items() if member.kind == "object" and member.size}
    if node.is_record:
        return None
    if {"columns", "data"} <= {*lists} and lists["data"].kinds["list"]:
        return Shape("split", path)
    schema = node.members.get("schema", Node()).members.get("primaryKey")
    if "data" in lists and lists["data"].kinds["object"] and schema and schema.kind == "list" and schema.size == 1:
        return Shape("table", path)
    if len(lists) == len(node.members) and _are_parallel(lists):
        return Shape("columns", path)
    records = [name for name, inner in lists.items() if inner.kinds["object"]]
    if not records and _are_rows_or_columns(objects, node):
        return Shape("columns" if _are_columns(objects) else "keyed", path)
    inside = [Shape("list", (*path, name)) for name in records]
    if len(inside) != 1:  # an envelope has one list of records, whatever else
        inside += [shape for name, inner in objects.items() if (shape := _shape(inner, (*path, name), file))]
    inside = inside or [Shape("list", (*path, name)) for name, inner in lists.items() if inner.kinds["words"] > 1]
    if len(with_texts := [held for held in inside if _holds_records(node, held.path[len(path) :])]) == 1:
        return with_texts[0]
    if len(inside) > 1:
        raise InputError(
            f"{file} is one object with several lists: {', '.join(repr('.'.join(held.path)) for held in inside)}.",
            hint="Write each to a file of its own, one object a line.",
        )
    return inside[0] if inside else Shape("keyed", path) if _holds_texts(node) else None


def _are_parallel(lists: Mapping[str, Node]) -> bool:
    """Return whether lists are the columns of a table."""
    return len({inner.size for inner in lists.values()}) == 1 and any(inner.flat for inner in lists.values())


def _are_rows_or_columns(objects: Mapping[str, Node], node: Node) -> bool:
    """Return whether objects are the rows of a table, or its columns, and not parts of one record."""
    if sum(inner.is_record for inner in objects.values()) > 1:
        return True
    alike = len(objects) > 1 and len({frozenset(inner.members) for inner in objects.values()}) == 1
    plain = all(inner.flat or inner.is_record for inner in objects.values())
    return bool(objects) and len(objects) == len(node.members) and (plain or alike)


def _holds_records(node: Node, path: Sequence[str]) -> bool:
    """Return whether members of what some keys lead to have texts of their own."""
    for key in path:
        node = node.members[key]
    return any(member.is_record for member in node.members.values())


def _holds_texts(node: Node) -> bool:
    """Return whether the members of an object are texts, most of several words, under keys that name no fields."""
    words = node.kinds["words"]
    return 2 < node.size < 2 * words and words + node.kinds["text"] == node.size and not _name_fields(node.members)


def _are_columns(objects: Mapping[str, Node]) -> bool:
    """Return whether objects are the columns of a table, with a member a row, and not its rows."""
    inner = next(iter(objects.values()))
    if _name_fields(inner.members) != _name_fields(objects):
        return _name_fields(objects)
    if all(map(str.isdecimal, inner.members)) != all(map(str.isdecimal, objects)):
        return all(map(str.isdecimal, inner.members))
    return inner.size > len(objects)


def _name_fields(names: Mapping[str, Node]) -> bool:
    return any(is_named(name, role) for name in names for role in _ROLES)


def _rows_of_columns(cursor: Cursor, stack: ExitStack) -> Iterator[Row]:
    """Yield the rows of columns, each of which is written to a temporary file first."""
    columns: dict[str, IO[str]] = {}
    keys: IO[str] | None = None
    for name in cursor.members():
        column = columns[str(name)] = _spool(stack)
        labels = _spool(stack)
        for label in cursor.members():
            labels.write(json.dumps(label) + "\n")
            column.write(json.dumps(cursor.value()) + "\n")
        labels.seek(0)
        column.seek(0)
        keys = keys or labels
        if keys is not labels and any(label != key for label, key in zip_longest(labels, keys)):
            raise ValueError(f"the column {name!r} has other rows than the one before it")
        keys.seek(0)
    for number, (label, *cells) in enumerate(zip(keys or (), *columns.values(), strict=True), start=1):
        values = dict(zip(columns, map(json.loads, cells), strict=True))
        key = json.loads(label)
        yield Row(number, values, with_id(key, values) if isinstance(key, str) else values)


def _rows_of_cells(cursor: Cursor, stack: ExitStack) -> Iterator[Row]:
    """Yield the rows of ``{"columns": [...], "index": [...], "data": [[...], ...]}``."""
    names: list[str] = []
    index: Sequence[object] = ()
    cells = _spool(stack)
    for name in cursor.members():
        if name == "columns":
            names = [str(column) for column in cast("list[object]", cursor.value())]
        elif name == "index":
            index = cast("list[object]", cursor.value())
        elif name == "data":
            for _ in cursor.members():
                cells.write(json.dumps(cursor.value()) + "\n")
        else:
            cursor.summary()
    cells.seek(0)
    for number, line in enumerate(cells):
        values = dict(zip(names, json.loads(line), strict=False))
        key = index[number] if number < len(index) else None
        yield Row(number + 1, values, with_id(str(key), values) if isinstance(key, str | int) else values)


def _rows_of_table(cursor: Cursor) -> Iterator[Row]:
    """Yield the rows of ``{"schema": {"primaryKey": ["index"], ...}, "data": [{...}, ...]}``."""
    index = ""
    for name in cursor.members():
        if name == "schema":
            index = cast("dict[str, list[str]]", cursor.value())["primaryKey"][0]
        elif name == "data":
            for row in cursor.items():
                values = dict(row.values or {})
                key = values.pop(index, None)
                yield replace(row, values=with_id(str(key), values)) if isinstance(key, str | int) else row
        else:
            cursor.summary()


def _spool(stack: ExitStack) -> IO[str]:
    return stack.enter_context(tempfile.TemporaryFile("w+", encoding=UTF8))
