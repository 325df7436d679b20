"""JSON text as values with their lines: an object a line, one value after the other, or an array of them.

One value is held in memory, and a bad one costs itself. Python's json module reads it: DuckDB's reader gives no
lines, turns large integers into floats, and gives a row of nulls for a bad line; ijson refuses NaN and ends at the
first fault.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import TextIO

from retriever.corpus.encodings import LONGEST_LINE, UNDECODED, UTF8, readable
from retriever.corpus.plain import unwrapped
from retriever.corpus.rows import EXCERPT, Row, kind_of

_BLOCK = 1 << 16
_TYPED = re.compile(r'"(?:\$|(?:string|integer)Value")')
_BETWEEN = re.compile(r"[\s,\ufeff\x1e]*")
_BETWEEN_LISTS = re.compile(r"[\s,\ufeff\x1e\]]*")
_BETWEEN_ITEMS = re.compile(r"(?:[\s,\ufeff\x1e\]]|\[(?!\s*\[\s*\[))*")  # arrays, of arrays at most
_CUT = 16
"""Characters of a name, an escape or a number at most: where these are cut off, JSON is bad no further back."""
_MOST_DIGITS = 4000  # that Python reads


def _null(name: str) -> None:
    """Read NaN and the infinities, which JSON does not have, as null."""


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) < _MOST_DIGITS else None


_DECODER = json.JSONDecoder(parse_constant=_null)
_LENIENT = json.JSONDecoder(parse_constant=_null, parse_int=_integer)


class JsonText:
    """The values of a text, from its beginning on.

    Args:
        text: JSON.
        encoding: that the text was decoded from.
        lines: whether no value goes beyond its line.
        lists: whether a list is a value, and not the array of those in it.
        longest: characters of a value at most.
    """

    def __init__(
        self,
        text: TextIO,
        encoding: str = UTF8,
        *,
        lines: bool = False,
        lists: bool = False,
        longest: int = LONGEST_LINE,
    ) -> None:
        self._stream, self._encoding, self._lines, self._lists, self._longest = text, encoding, lines, lists, longest
        self._between = _BETWEEN_LISTS if lists else _BETWEEN if lines else _BETWEEN_ITEMS
        self._text, self._at, self._line, self._ended = "", 0, 1, False
        self._column = 0  # of the beginning of the text that is held, in its line

    def peek(self) -> str:
        """Return the next sign that is not between values; empty at the end."""
        while not self._text.startswith("{", self._at):
            if match := self._between.match(self._text, self._at):
                self._advance(match.end())
            if self._at < len(self._text) or self._ended:
                break
            self._fill()
        return self._text[self._at : self._at + 1]

    def rows(self) -> Iterator[Row]:
        """Yield a row for every value: an object, a text, which is a document's, or a list's items by their numbers.

        Others are bad, and so are lists but where they are values, and then all else.
        """
        while self.peek():
            line = self._line
            try:
                value, end = self._decoded()
            except ValueError as error:
                raw = self._text[self._at : self._at + EXCERPT].partition("\n")[0]
                self._skip_broken()
                yield Row(line, raw, problem=str(error))
                continue
            raw = self._text[self._at : min(end, self._at + EXCERPT)]
            try:
                row = Row(line, raw, self._fields(value, end))
            except ValueError as error:
                row = Row(line, raw, problem=str(error))
            self._advance(end)
            yield row

    def value(self) -> tuple[object, bool]:
        """Return the next value, and whether it has several lines; raise `ValueError` where it cannot be read."""
        self.peek()
        value, end = self._decoded()
        line = self._line
        self._advance(end)
        return value, self._line > line

    def is_readable(self) -> bool:
        """Return whether all of the text at hand could be decoded."""
        return self._text.isascii() or UNDECODED.search(self._text) is None

    def _decoded(self) -> tuple[object, int]:
        """Return the value at hand and where it ends.

        Raises:
            ValueError: it cannot be read; the message is the reason.
        """
        while True:
            try:
                value, end = _decoded(self._text, self._at)
            except json.JSONDecodeError as error:
                if len(self._text) - self._at >= self._longest:
                    raise self._too_long() from error
                cut = error.pos > len(self._text) - _CUT or error.msg.startswith("Unterminated")
                whole = self._ended or (self._lines and self._text.endswith("\n"))
                if whole or not cut:
                    problem = error.msg.removesuffix(" at")
                    raise ValueError(f"not JSON: {problem} {self._place(error.pos)}") from error
            except RecursionError as error:
                raise ValueError("the JSON nests too deeply") from error
            else:
                if end - self._at > self._longest:
                    raise self._too_long()
                if end < len(self._text) or self._ended:
                    return value, end
            self._fill()

    def _fields(self, value: object, end: int) -> Mapping[str, object]:
        """Return the fields of a value that ends there, with halves of characters joined that were written as bytes.

        Raises:
            ValueError: it has none or cannot be read; the message is the reason.
        """
        if not self._text.isascii():
            text = self._text[self._at : end]
            whole = readable(text, self._encoding)
            value = value if whole is text else _decoded(whole, 0)[0]
        if self._lists:
            if isinstance(value, list):
                return {str(number): item for number, item in enumerate(value)}
            raise ValueError(f"not a list but {kind_of(value)}")
        if isinstance(value, dict):
            return value
        if isinstance(value, str):
            return {"text": value}
        raise ValueError(f"not a JSON object but {kind_of(value)}{'; write one object a line' if self._lines else ''}")

    def _too_long(self) -> ValueError:
        return ValueError(f"the value is longer than {self._longest:,} characters; write one object a line")

    def _place(self, at: int) -> str:
        begin = self._text.rfind("\n", 0, at) + 1
        if self._lines:
            return f"at column {at - begin + 1}"
        return f"in line {self._line + self._text.count(chr(10), self._at, at)}"

    def _advance(self, end: int) -> None:
        if end > self._at:
            self._line += self._text.count("\n", self._at, end)
            self._at = end

    def _skip_broken(self) -> None:
        """Skip to the next line, and where values go beyond theirs to one that begins a value no further in."""
        indent = min(self._column_at_hand(), _BLOCK)
        begins = re.compile("\n" if self._lines else rf"\n[ \t]{{0,{indent}}}(?:\}}[ \t]*,[ \t]*)?(?=[{{\[])")
        while (match := begins.search(self._text, self._at)) is None and not self._ended:
            self._advance(max(self._at, self._text.rfind("\n", self._at), len(self._text) - _BLOCK))
            self._fill()
        self._advance(match.end() if match else len(self._text))

    def _fill(self) -> None:
        """Read on: the next line, or else a block, twice as far as before where a value is long."""
        if self._lines:
            data = self._stream.readline(self._longest)
        else:
            self._column = self._column_at_hand()
            data = self._stream.read(max(_BLOCK, len(self._text) - self._at))
        self._text, self._at, self._ended = self._text[self._at :] + data, 0, not data

    def _column_at_hand(self) -> int:
        begin = self._text.rfind("\n", 0, self._at) + 1
        return self._at - begin if begin else self._column + self._at


def _decoded(text: str, at: int) -> tuple[object, int]:
    """Return the value that begins at a place of a text and where it ends; a number of thousands of digits is null."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError:
        raise
    except ValueError:
        value, end = _LENIENT.raw_decode(text, at)
    return (unwrapped(value) if _TYPED.search(text, at, end) else value), end
