"""One JSON object that holds many records: under keys, as a list somewhere inside, or as columns."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any, Literal, TypeAlias

from retriever.core.errors import InputError
from retriever.corpus.fields import FieldNames, is_named, is_usual, value_at
from retriever.corpus.rows import Row, kind_of

Kind: TypeAlias = Literal["list", "keyed", "columns", "split", "table"]
Object: TypeAlias = Mapping[str, object]
_LOOKED_AT = 30  # members by which a shape is recognised


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

    def rows(self, whole: Object, file: str) -> Iterator[Row]:
        """Yield the rows of the object, each with its number as its line.

        Raises:
            InputError: its columns do not have the same rows.
        """
        held: Any = value_at(whole, self.path)
        for number, (key, item) in enumerate(self._keyed(held, file), start=1):
            value = {"text": item} if isinstance(item, str) else item
            if isinstance(value, dict):
                has_key = isinstance(key, str | int) and not FieldNames().find_id(value)
                yield Row(number, value, {"id": str(key), **value} if has_key else value)
            elif self.kind != "keyed":
                yield Row(number, str(value), problem=f"not a JSON object but {kind_of(value)}")

    def _keyed(self, held: Any, file: str) -> Iterable[tuple[object, object]]:  # noqa: ANN401 - JSON of that shape
        """Return every row with the key that is its id, or None."""
        if self.kind == "columns":
            return _rows_of_columns(held, file)
        if self.kind == "split":
            names = list(map(str, held["columns"]))
            rows = (dict(zip(names, row, strict=False)) if isinstance(row, list) else row for row in held["data"])
            keys = held["index"] if isinstance(held.get("index"), list) else []
            return zip(chain(keys, repeat(None)), rows, strict=False)
        if self.kind == "table":
            index = held["schema"]["primaryKey"][0]
            return (
                (row.get(index), {name: row[name] for name in row if name != index})
                if isinstance(row, dict)
                else (None, row)
                for row in held["data"]
            )
        return held.items() if self.kind == "keyed" else ((None, item) for item in held)


def find_shape(whole: Object, file: str, path: tuple[str, ...] = ()) -> Shape | None:
    """Return the shape of an object of many records; None of any other.

    Raises:
        InputError: it holds several lists of records.
    """
    if _is_record(whole):
        return None
    members = dict(islice(whole.items(), _LOOKED_AT))
    lists = {name: member for name, member in members.items() if isinstance(member, list) and member}
    objects = {name: member for name, member in members.items() if isinstance(member, dict) and member}
    first = lists.get("data", [None])[0]
    key = value_at(whole, ("schema", "primaryKey"))
    if isinstance(first, list) and "columns" in lists:
        return Shape("split", path)
    if isinstance(first, dict) and isinstance(key, list) and len(key) == 1 and isinstance(key[0], str):
        return Shape("table", path)
    if len(lists) == len(members) and len(set(map(len, lists.values()))) == 1 and any(map(_is_flat, lists.values())):
        return Shape("columns", path)
    records = [name for name, items in lists.items() if any(isinstance(item, dict) for item in items)]
    if not records and _are_rows_or_columns(objects, members):
        return Shape("columns" if _are_columns(objects) else "keyed", path)
    inside = [Shape("list", (*path, name)) for name in records]
    if len(inside) != 1:  # an envelope has one list of records, whatever else
        shapes = (find_shape(inner, file, (*path, name)) for name, inner in objects.items())
        inside += [shape for shape in shapes if shape]
    texts = (name for name, items in lists.items() if sum(map(_has_words, items)) > 1)
    inside = inside or [Shape("list", (*path, name)) for name in texts]
    held = {shape: _members(value_at(whole, shape.path[len(path) :])) for shape in inside}
    with_texts = [shape for shape in inside if any(map(_is_record, held[shape]))]
    if len(with_texts) == 1:
        return with_texts[0]
    if len(inside) > 1:
        names = ", ".join(repr(".".join(shape.path)) for shape in inside)
        hint = "Write each to a file of its own, one object a line."
        raise InputError(f"{file} is one object with several lists: {names}.", hint=hint)
    return inside[0] if inside else Shape("keyed", path) if _holds_texts(whole) else None


def _members(value: object) -> list[object]:
    """Return the first members of an object or a list; none of other values."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return list(islice(members, _LOOKED_AT))


def _is_flat(value: object) -> bool:
    """Return whether a value has members and none of them holds others."""
    members = _members(value)
    return bool(members) and not any(isinstance(member, dict | list) for member in members)


def _is_record(value: object) -> bool:
    """Return whether an object has a text of its own."""
    named = islice(value.items(), _LOOKED_AT) if isinstance(value, dict) else ()
    return any(is_named(name, "text") and isinstance(member, str) for name, member in named)


def _has_words(value: object) -> bool:
    return isinstance(value, str) and " " in value.strip()


def _are_rows_or_columns(objects: Mapping[str, Object], members: Object) -> bool:
    """Return whether objects are the rows of a table, or its columns, and not parts of one record."""
    if sum(map(_is_record, objects.values())) > 1:
        return True
    alike = len(objects) > 1 and len({frozenset(inner) for inner in objects.values()}) == 1
    plain = all(_is_flat(inner) or _is_record(inner) for inner in objects.values())
    return bool(objects) and len(objects) == len(members) and (plain or alike)


def _holds_texts(whole: Object) -> bool:
    """Return whether the members of an object are texts, most of several words, under keys that name no fields."""
    texts = all(isinstance(member, str) for member in whole.values())
    return texts and 2 < len(whole) < 2 * sum(map(_has_words, whole.values())) and not _name_fields(whole)


def _are_columns(objects: Mapping[str, Object]) -> bool:
    """Return whether objects are the columns of a table, with a member a row, and not its rows."""
    inner = next(iter(objects.values()))
    if _name_fields(inner) != _name_fields(objects):
        return _name_fields(objects)
    if all(map(str.isdecimal, inner)) != all(map(str.isdecimal, objects)):
        return all(map(str.isdecimal, inner))
    return len(inner) > len(objects)


def _name_fields(names: Mapping[str, object]) -> bool:
    return any(map(is_usual, islice(names, _LOOKED_AT)))


def _rows_of_columns(columns: Mapping[str, Any], file: str) -> Iterator[tuple[object, Object]]:
    """Yield the rows of columns that are lists, or objects with a member a row."""
    labels = {
        name: list(column) if isinstance(column, dict) else range(len(column) if isinstance(column, list) else 0)
        for name, column in columns.items()
    }
    first = next(iter(labels.values()))
    for name, others in labels.items():
        if others != first:
            problem = f"the column {name!r} has other rows than the one before it"
            raise InputError(f"{file}: {problem}.", hint="Was it written completely?")
    for label in first:
        yield label if isinstance(label, str) else None, {name: column[label] for name, column in columns.items()}
