"""JSON in one piece: an array, objects over several lines, or one object that holds many records.

The text is read in blocks; one value and a block are held in memory. Such an object holds records under keys, a list of
them somewhere inside, or columns, as pandas writes tables: its shape is found in a first pass.
"""

import codecs
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import IO, BinaryIO, Literal, TypeAlias, cast

from retriever.core.errors import InputError
from retriever.corpus.encodings import LONGEST_LINE, UTF8, as_utf8
from retriever.corpus.fields import FieldNames, is_named
from retriever.corpus.jsonl import DECODER, NOT_JSON, raw_decoded
from retriever.corpus.rows import EXCERPT, Row, kind_of

Kind: TypeAlias = Literal["list", "keyed", "columns", "split"]

_BLOCK = 1 << 16
_BLANK = re.compile(r"[ \t\r\n\ufeff]*")
_CUT = 16
"""Characters of a name, an escape or a number at most: where these are cut off, JSON is bad no further back."""
_KEPT = 30  # members by which the shape of an object is recognised
_CLOSING = {"{": "}", "[": "]"}


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
        }[self.kind]


@dataclass(slots=True)
class Node:
    """Summary of a JSON value.

    Attributes:
        kind: "object", "list", "text", "words" (a text with a blank in it) or "other".
        size: members.
        kinds: how many members are of a kind.
        members: the first ones.
    """

    kind: str = "other"
    size: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    members: dict[str, "Node"] = field(default_factory=dict)

    def add(self, key: str, member: "Node") -> None:
        """Count a member, and keep it where it is among the first."""
        self.size += 1
        if self.size <= _KEPT:
            self.members[key] = member

    def see(self, value: object) -> "Node":
        """Take the summary of a value that was read."""
        if isinstance(value, str):
            self.kind = "words" if " " in value.strip() else "text"
        elif isinstance(value, dict | list):
            self.kind = "object" if isinstance(value, dict) else "list"
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                member = Node().see(item)
                self.add(str(key), member)
                self.kinds[member.kind] += 1
        return self

    @property
    def flat(self) -> bool:
        """Whether no member holds others."""
        return bool(self.size) and not self.kinds["object"] and not self.kinds["list"]

    @property
    def is_record(self) -> bool:
        """Whether it has a text of its own."""
        return any(is_named(name, "text") and node.kind in ("text", "words") for name, node in self.members.items())


def find_shape(stream: BinaryIO, encoding: str) -> Shape | None:
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
    return _shape(root, ())


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
        else:
            with ExitStack() as stack:
                yield from _rows_of_columns(cursor, stack) if shape.kind == "columns" else _rows_of_cells(cursor, stack)
    except ValueError as error:
        raise InputError(f"{file} is no JSON that can be read: {error}.", hint="Was it written completely?") from error


def begins_value(stream: BinaryIO, encoding: str) -> bool:
    """Return whether a stream of JSON holds nothing, or begins with a whole value, which may take several lines."""
    first = next(Cursor(as_utf8(stream, encoding)).values(), None)
    return first is None or not first.problem.startswith(NOT_JSON)


def with_id(key: str, values: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a row with its key as the id, where it has none."""
    return dict(values) if FieldNames().find_id(values) else {"id": key, **values}


def _shape(node: Node, path: tuple[str, ...]) -> Shape | None:
    members = node.members
    if node.is_record:
        return None
    lists = {name: member for name, member in members.items() if member.kind == "list" and member.size}
    objects = {name: member for name, member in members.items() if member.kind == "object" and member.size}
    if {"columns", "data"} <= {*lists} and lists["data"].kinds["list"]:
        return Shape("split", path)
    if len(lists) == min(node.size, _KEPT) and all(inner.flat for inner in lists.values()):
        if len({inner.size for inner in lists.values()}) == 1:
            return Shape("columns", path)
    if len(records := [name for name, inner in lists.items() if inner.kinds["object"]]) == 1:
        return Shape("list", (*path, records[0]))
    if objects and (len(objects) == len(members) or sum(inner.is_record for inner in objects.values()) > 1):
        if all(inner.flat or inner.is_record for inner in objects.values()):
            return Shape("columns" if _are_columns(objects) else "keyed", path)
    inside = [found for name, inner in objects.items() if (found := _shape(inner, (*path, name)))]
    if len(inside) == 1 and not records:
        return inside[0]
    texts = [name for name, inner in lists.items() if inner.kinds["words"] > 1]
    if len(records) + len(inside) + len(texts) > 1:
        names = [*records, *(".".join(found.path) for found in inside), *texts]
        raise InputError(
            f"The file is one object with several lists: {', '.join(map(repr, names))}.",
            hint="Write each to a file of its own, one object a line.",
        )
    if texts:
        return Shape("list", (*path, texts[0]))
    return Shape("keyed", path) if node.size > 2 and 2 * node.kinds["words"] > node.size and _only_texts(node) else None


def _only_texts(node: Node) -> bool:
    named = any(is_named(name, role) for name in node.members for role in ("text", "stars", "date", "product"))
    return not named and node.kinds["words"] + node.kinds["text"] == node.size


def _are_columns(objects: Mapping[str, Node]) -> bool:
    """Return whether objects are the columns of a table, with a member a row, and not its rows."""
    inner = next(iter(objects.values()))
    roles = ("text", "stars", "date", "id", "product", "category")

    def named(names: Mapping[str, Node]) -> bool:
        return any(is_named(name, role) for name in names for role in roles)

    if named(inner.members) != named(objects):
        return named(objects)
    if all(map(str.isdecimal, inner.members)) != all(map(str.isdecimal, objects)):
        return all(map(str.isdecimal, inner.members))
    return inner.size > len(objects)


def _rows_of_columns(cursor: "Cursor", stack: ExitStack) -> Iterator[Row]:
    """Yield the rows of columns, each of which is written to a temporary file first."""
    columns: dict[str, IO[str]] = {}
    keys: IO[str] | None = None
    for name in cursor.members():
        column = columns[str(name)] = _spool(stack)
        labels, rows = _spool(stack), 0
        for rows, label in enumerate(cursor.members(), start=1):
            labels.write(json.dumps(label) + "\n")
            column.write(json.dumps(cursor.value()) + "\n")
        labels.seek(0)
        column.seek(0)
        if keys is None:
            keys, count = labels, rows
        elif rows != count or any(label != key for label, key in zip(labels, keys, strict=True)):
            raise ValueError(f"the column {name!r} has other rows than the one before it")
        keys.seek(0)
    for number, (label, *cells) in enumerate(zip(keys or (), *columns.values(), strict=True), start=1):
        values = dict(zip(columns, map(json.loads, cells), strict=True))
        key = json.loads(label)
        yield Row(number, values, with_id(key, values) if isinstance(key, str) else values)


def _rows_of_cells(cursor: "Cursor", stack: ExitStack) -> Iterator[Row]:
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


def _spool(stack: ExitStack) -> IO[str]:
    return stack.enter_context(tempfile.TemporaryFile("w+", encoding=UTF8))

class Cursor:
    """The values of a stream, of which one and a block are held in memory."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(UTF8)("surrogateescape")
        self._text, self._at, self._line, self._ended = "", 0, 1, False
        self._column = 0  # of what is at hand, in its line

    def peek(self) -> str:
        """Return the next sign that is not blank; empty at the end."""
        self._skip_blank()
        return self._text[self._at : self._at + 1]

    def values(self) -> Iterator[Row]:
        """Yield a row for every value of an array, or of several values one after the other."""
        self._skip("[")
        while True:
            if not self._skip(",") and self._skip("]"):
                self._skip("[")  # another array
            if not self.peek():
                return
            yield self._row(None)

    def items(self) -> Iterator[Row]:
        """Yield a row for every item of the array at hand."""
        self._skip("[")
        while (self._skip(",") or not self._skip("]")) and self.peek():
            yield self._row(None)

    def keyed(self) -> Iterator[Row]:
        """Yield a row for every object under a key of the object at hand, and for every text."""
        self._skip("{")
        while (self._skip(",") or not self._skip("}")) and self.peek():
            row = self._row(self._key)
            if row.values is not None or row.problem.startswith(NOT_JSON):
                yield row

    def members(self) -> Iterator[str | int]:
        """Yield the key or the number of every member of what is at hand; the caller reads or skips its value."""
        opening, number = self.peek(), 0
        self._skip(opening)
        while not self._skip(_CLOSING[opening]):
            if number and not self._skip(","):
                raise ValueError(f"Expecting ',' delimiter in line {self._line}")
            yield self._key() if opening == "{" else number
            number += 1

    def enter(self, path: Sequence[str]) -> None:
        """Go to the value that some keys lead to."""
        for wanted in path:
            for key in self.members():
                if key == wanted:
                    break
                self.summary()

    def value(self) -> object:
        """Read the value at hand; raise `ValueError` where it is no JSON."""
        value, end = self._decoded()
        self._advance(end)
        return value

    def summary(self, node: "Node | None" = None) -> "Node":
        """Read the value at hand, of whatever size, and return its summary, which is kept in ``node`` on the way."""
        node = node or Node()
        opening = self.peek()
        if opening not in _CLOSING or self._is_short():
            return node.see(self.value())
        node.kind = "object" if opening == "{" else "list"
        for key in self.members():
            child = Node()
            node.add(str(key), child)
            self.summary(child)
            node.kinds[child.kind] += 1
        return node

    def _is_short(self) -> bool:
        """Return whether the value at hand ends in the block that is held, or is no JSON there."""
        try:
            DECODER.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            return error.pos <= len(self._text) - _CUT and not error.msg.startswith("Unterminated")
        except (ValueError, RecursionError):
            pass
        return True

    def _key(self) -> str:
        key = self.value()
        if not isinstance(key, str) or not self._skip(":"):
            raise ValueError(f"Expecting a name and ':' in line {self._line}")
        return key

    def _row(self, key_of: Callable[[], str] | None) -> Row:
        line = self._line
        try:
            key = key_of() if key_of else None
            value, end = self._decoded()
        except ValueError as error:
            raw = self._text[self._at : self._at + EXCERPT].partition("\n")[0]
            self._skip_broken(r'[{\[\]"}]' if key_of else r"[{\[\]]")
            return Row(line, raw, problem=f"{NOT_JSON}{error}")
        raw = self._text[self._at : min(end, self._at + EXCERPT)]
        self._advance(end)
        if isinstance(value, str):
            value = {"text": value}
        if isinstance(value, dict):
            return Row(line, raw, value if key is None else with_id(key, value))
        return Row(line, raw, problem=f"not a JSON object but {kind_of(value)}")

    def _advance(self, end: int) -> None:
        lines, begin = self._text.count("\n", self._at, end), self._text.rfind("\n", self._at, end) + 1
        self._line, self._column = self._line + lines, end - begin if begin else self._column + end - self._at
        self._at = end

    def _skip(self, sign: str) -> bool:
        """Skip white space, and a sign behind it with what white space follows; return whether that was there."""
        self._skip_blank()
        if not self._text.startswith(sign, self._at):
            return False
        self._advance(self._at + 1)
        self._skip_blank()
        return True

    def _skip_blank(self) -> None:
        while True:
            match = _BLANK.match(self._text, self._at)
            self._advance(match.end() if match else self._at)
            if self._at < len(self._text) or self._ended:
                return
            self._fill()

    def _skip_broken(self, beginning: str) -> None:
        """Skip to the next line that begins a value, or ends an array, no further in than what is at hand."""
        begins = re.compile(rf"\n[ \t]{{0,{min(self._column, _BLOCK)}}}(?:\}}[ \t]*,[ \t]*)?(?={beginning})")
        while (match := begins.search(self._text, self._at)) is None and not self._ended:
            self._advance(max(self._at, self._text.rfind("\n", self._at), len(self._text) - _BLOCK))
            self._fill()
        self._advance(match.end() if match else len(self._text))

    def _decoded(self) -> tuple[object, int]:
        """Return the value at hand and where it ends.

        Raises:
            ValueError: it is no JSON.
        """
        while True:
            try:
                value, end = raw_decoded(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.pos > len(self._text) - _CUT or error.msg.startswith("Unterminated")
                line = self._line + self._text.count("\n", self._at, error.pos)
                if self._ended or not cut:
                    raise ValueError(f"{error.msg} in line {line}") from error
            except RecursionError as error:
                raise ValueError("it nests too deeply") from error
            else:
                if end < len(self._text) or self._ended:
                    return value, end
            if len(self._text) - self._at > LONGEST_LINE:
                raise ValueError(f"it is longer than {LONGEST_LINE:,} bytes")
            self._fill()

    def _fill(self) -> None:
        """Read on, twice as far as before where a value is long."""
        self._text = self._text[self._at :]
        self._at = 0
        data = self._stream.read(max(_BLOCK, len(self._text)))
        self._ended = not data
        self._text += self._decoder.decode(data, final=self._ended)


