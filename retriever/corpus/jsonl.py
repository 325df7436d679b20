"""JSON: one object a line, where a bad line costs that line alone; or an array, or objects over several lines."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from retriever.corpus.encodings import LONGEST_LINE, UTF8, Line, as_utf8, read_lines
from retriever.corpus.rows import EXCERPT, Row, kind_of

_BLOCK = 1 << 16
_BLANK = re.compile(r"[ \t\r\n\ufeff]*")
_CUT = 16
"""Characters of a name, an escape or a number at most: where these are cut off, JSON is bad no further back."""


def _null(name: str) -> None:
    """Read NaN and the infinities, which JSON does not have, as null."""


_NOT_JSON = "not JSON: "
_DECODER = json.JSONDecoder(parse_constant=_null)


def read_jsonl(stream: BinaryIO, file: str, encoding: str = UTF8) -> Iterator[Row]:
    """Yield a row for every line that is not blank."""
    for line in read_lines(stream, file, encoding):
        if line.too_long:
            problem = f"the line is longer than {LONGEST_LINE:,} bytes; write one object a line"
            yield Row(line.number, line.data, problem=problem)
        elif line.data.strip():
            yield _parse(line)


def is_json(head: str) -> bool:
    """Return whether a text begins as JSON objects or a list of them do."""
    return re.match(r"[\s\ufeff]*(?:\{\s*[\"}]|\[\s*[{\]])", head) is not None


def is_lines(head: str) -> bool:
    """Return whether a text that begins as JSON has an object a line, as far as can be seen."""
    text = head.lstrip("\ufeff \t\r\n")
    lines = text.split("\n")
    if text.startswith("[") and (lines[0].strip() == "[" or lines[0].rstrip().endswith(",") or len(lines) == 1):
        return False
    if any(line.startswith("{") and _is_object(line) for line in lines):
        return True
    return not text.startswith("[") and not _begins_object(text)


def read_values(stream: BinaryIO, encoding: str) -> Iterator[Row]:
    """Yield a row for every object of a JSON array, or of several values one after the other.

    A value that is no JSON is a bad row; the next one begins a line, no further in than that.
    """
    values = _Values(as_utf8(stream, encoding))
    while (value := values.next()) is not None:
        yield value


def begins_value(stream: BinaryIO, encoding: str) -> bool:
    """Return whether a stream of JSON holds nothing, or begins with a whole value, which may take several lines."""
    first = _Values(as_utf8(stream, encoding)).next()
    return first is None or not first.problem.startswith(_NOT_JSON)


class _Values:
    """The values of a stream, of which one and a block are held in memory."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(UTF8)("surrogateescape")
        self._text, self._at, self._line, self._ended = "", 0, 1, False
        self._column = 0  # of what is at hand, in its line
        self._skip("[")

    def next(self) -> Row | None:
        """Return the next value as a row; None at the end."""
        if not self._skip(",") and self._skip("]"):
            self._skip("[")  # another array
        if self._at == len(self._text):
            return None
        line = self._line
        try:
            value, end = self._decoded()
        except ValueError as error:
            raw = self._text[self._at : self._at + EXCERPT].partition("\n")[0]
            self._skip_broken()
            return Row(line, raw, problem=f"{_NOT_JSON}{error}")
        raw = self._text[self._at : min(end, self._at + EXCERPT)]
        self._advance(end)
        if isinstance(value, dict):
            return Row(line, raw, value)
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

    def _skip_broken(self) -> None:
        """Skip to the next line that begins a value, or ends an array, no further in than what is at hand."""
        begins = re.compile(rf"\n[ \t]{{0,{min(self._column, _BLOCK)}}}(?:\}}[ \t]*,[ \t]*)?(?=[{{\[\]])")
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
                value, end = _DECODER.raw_decode(self._text, self._at)
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


def _is_object(line: str) -> bool:
    try:
        return isinstance(_DECODER.decode(line.strip()), dict)
    except (ValueError, RecursionError):
        return False


def _begins_object(text: str) -> bool:
    """Return whether a text begins with an object that ends in another line, or is longer than the text."""
    try:
        _, end = _DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        return error.pos >= len(text.rstrip()) - 1 and "\n" in text
    except (ValueError, RecursionError):
        return False
    return "\n" in text[:end]


def _parse(line: Line) -> Row:
    problem = ""
    try:
        values = _DECODER.decode(line.data.decode("utf-8").strip())
    except UnicodeDecodeError as error:
        problem = line.why_no_text(error)
    except json.JSONDecodeError as error:
        problem = f"{_NOT_JSON}{error.msg} at column {error.colno}"
    except RecursionError:
        problem = "the JSON nests too deeply"
    except ValueError as error:  # a number of thousands of digits
        problem = f"{_NOT_JSON}{error}"
    else:
        if isinstance(values, dict):
            return Row(line.number, line.data, values)
        problem = f"not a JSON object but {kind_of(values)}; write one object a line"
    return Row(line.number, line.data, problem=problem)
