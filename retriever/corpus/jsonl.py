"""JSON: one object a line, where a bad line costs that line alone; or an array, or objects over several lines."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from retriever.core.errors import InputError
from retriever.corpus.encodings import UTF8, Line, as_utf8, read_lines
from retriever.corpus.rows import Limits, Row, kind_of

_BLOCK = 1 << 16
_BLANK = re.compile(r"[ \t\r\n\ufeff]*")


def _null(name: str) -> None:
    """Read NaN and the infinities, which JSON does not have, as null."""


_DECODER = json.JSONDecoder(parse_constant=_null)


def read_jsonl(stream: BinaryIO, file: str, limits: Limits, encoding: str = UTF8) -> Iterator[Row]:
    """Yield a row for every line that is not blank."""
    for line in read_lines(stream, file, limit=limits.line_bytes, encoding=encoding):
        if line.too_long:
            problem = f"the line is longer than {limits.line_bytes:,} bytes; write one object a line"
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


def read_values(stream: BinaryIO, file: str, limits: Limits, encoding: str = UTF8) -> Iterator[Row]:
    """Yield a row for every object of a JSON array, or of several values one after the other.

    Raises:
        InputError: something is no JSON, so that what is behind it cannot be told apart.
    """
    values = _Values(as_utf8(stream, encoding), file, limits)
    while (value := values.next()) is not None:
        yield value


class _Values:
    """The values of a stream, of which one and a block are held in memory."""

    def __init__(self, stream: BinaryIO, file: str, limits: Limits) -> None:
        self._stream, self._file, self._limits = stream, file, limits
        self._decoder = codecs.getincrementaldecoder(UTF8)("surrogateescape")
        self._text, self._at, self._line, self._ended = "", 0, 1, False
        self._skip("[")

    def next(self) -> Row | None:
        """Return the next value as a row; None at the end."""
        if not self._skip(",") and self._skip("]"):
            self._skip("[")  # another array
        if self._at == len(self._text):
            return None
        value, end = self._decoded()
        raw = self._text[self._at : min(end, self._at + self._limits.raw_chars)]
        line = self._line
        self._line += self._text.count("\n", self._at, end)
        self._at = end
        if isinstance(value, dict):
            return Row(line, raw, value)
        return Row(line, raw, problem=f"not a JSON object but {kind_of(value)}")

    def _skip(self, sign: str) -> bool:
        """Skip white space, and a sign behind it with what white space follows; return whether that was there."""
        self._skip_blank()
        if not self._text.startswith(sign, self._at):
            return False
        self._at += 1
        self._skip_blank()
        return True

    def _skip_blank(self) -> None:
        while True:
            match = _BLANK.match(self._text, self._at)
            end = match.end() if match else self._at
            self._line += self._text.count("\n", self._at, end)
            self._at = end
            if end < len(self._text) or self._ended:
                return
            self._fill()

    def _decoded(self) -> tuple[object, int]:
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._ended or len(self._text) - self._at > self._limits.line_bytes:
                    raise self._unreadable(error.msg) from error
            except (RecursionError, ValueError) as error:
                raise self._unreadable(
                    "it nests too deeply" if isinstance(error, RecursionError) else str(error)
                ) from error
            else:
                if end < len(self._text) or self._ended:
                    return value, end
            self._fill()

    def _fill(self) -> None:
        """Read on, twice as far as before where a value is long."""
        self._text = self._text[self._at :]
        self._at = 0
        data = self._stream.read(max(_BLOCK, len(self._text)))
        self._ended = not data
        self._text += self._decoder.decode(data, final=self._ended)

    def _unreadable(self, problem: str) -> InputError:
        return InputError(
            f"{self._file}: the value that begins in line {self._line} is not JSON: {problem}.",
            hint="Correct it, or write one object a line: what is behind it cannot be told apart.",
        )


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
        problem = f"not JSON: {error.msg} at column {error.colno}"
    except RecursionError:
        problem = "the JSON nests too deeply"
    except ValueError as error:  # a number of thousands of digits
        problem = f"not JSON: {error}"
    else:
        if isinstance(values, dict):
            return Row(line.number, line.data, values)
        problem = f"not a JSON object but {kind_of(values)}; write one object a line"
    return Row(line.number, line.data, problem=problem)
