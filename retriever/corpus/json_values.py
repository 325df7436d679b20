"""The values of JSON text, read in blocks: one value and a block are held in memory, whatever the size of the text."""

import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from retriever.corpus.encodings import LONGEST_LINE, UTF8, as_utf8
from retriever.corpus.fields import FieldNames, is_named
from retriever.corpus.jsonl import DECODER, NOT_JSON, raw_decoded
from retriever.corpus.rows import EXCERPT, Row, kind_of

_BLOCK = 1 << 16
_BLANK = re.compile(r"[ \t\r\n\ufeff]*")
_CUT = 16
"""Characters of a name, an escape or a number at most: where these are cut off, JSON is bad no further back."""
_KEPT = 30  # members by which the shape of an object is recognised
_CLOSING = {"{": "}", "[": "]"}


def begins_value(stream: BinaryIO, encoding: str) -> bool:
    """Return whether a stream of JSON holds nothing, or begins with a whole value, which may take several lines."""
    first = next(Cursor(as_utf8(stream, encoding)).values(), None)
    return first is None or not first.problem.startswith(NOT_JSON)


def with_id(key: str, values: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a row with its key as the id, where it has none."""
    return dict(values) if FieldNames().find_id(values) else {"id": key, **values}


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
        """Return whether the value at hand ends in the block that is held."""
        try:
            DECODER.raw_decode(self._text, self._at)
        except json.JSONDecodeError:
            return False
        except (ValueError, RecursionError):  # met again where the value is read
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
