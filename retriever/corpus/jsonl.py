"""JSON Lines, one object a line, of which a bad line costs that line alone; and what kind of JSON a text is.

Python's json module reads a line, since DuckDB's reader gives no line numbers, turns large integers into floats, and
ends at the first line that is no JSON, or gives a row of nulls for it.
"""

import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from retriever.corpus.encodings import LONGEST_LINE, UTF8, Line, read_lines
from retriever.corpus.plain import unwrapped
from retriever.corpus.rows import Row, kind_of


def _null(name: str) -> None:
    """Read NaN and the infinities, which JSON does not have, as null."""


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) < _MOST_DIGITS else None


_MOST_DIGITS = 4000  # that Python reads
NOT_JSON = "not JSON: "
DECODER = json.JSONDecoder(parse_constant=_null)
_LENIENT = json.JSONDecoder(parse_constant=_null, parse_int=_integer)


def read_jsonl(stream: BinaryIO, file: str, encoding: str = UTF8) -> Iterator[Row]:
    """Yield a row for every line that is not blank."""
    for line in read_lines(stream, file, encoding):
        if line.too_long:
            problem = f"the line is longer than {LONGEST_LINE:,} bytes; write one object a line"
            yield Row(line.number, line.data, problem=problem)
        elif line.data.strip():
            yield _parse(line)


def is_json(head: str) -> bool:
    """Return whether a text begins as JSON objects or a list of them, or of texts, does."""
    return re.match(r"[\s\ufeff]*(?:\{\s*[\"}]|\[\s*[{\]\"])", head) is not None


def is_lines(head: str) -> bool:
    """Return whether a text that begins as JSON has an object a line, as far as can be seen."""
    text = head.lstrip("\ufeff \t\r\n")
    lines = text.split("\n")
    if text.startswith("[") and (lines[0].strip() == "[" or lines[0].rstrip().endswith(",") or len(lines) == 1):
        return False
    if any(line.startswith("{") and _is_object(line) for line in lines):
        return True
    return not text.startswith("[") and not _begins_object(text)


def raw_decoded(text: str, at: int = 0) -> tuple[object, int]:
    """Return the value that begins at a place of a text and where it ends; a number of thousands of digits is null.

    Values are without what MongoDB's extended JSON writes around them.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        value, end = DECODER.raw_decode(text, at)
    except json.JSONDecodeError:
        raise
    except ValueError:
        value, end = _LENIENT.raw_decode(text, at)
    return (unwrapped(value) if text.find('"$', at, end) >= 0 else value), end


def _is_object(line: str) -> bool:
    try:
        return isinstance(DECODER.decode(line.strip()), dict)
    except (ValueError, RecursionError):
        return False


def _begins_object(text: str) -> bool:
    """Return whether a text begins with an object that ends in another line, or is longer than the text."""
    try:
        _, end = DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        return error.pos >= len(text.rstrip()) - 1 and "\n" in text
    except (ValueError, RecursionError):
        return False
    return "\n" in text[:end]


def _parse(line: Line) -> Row:
    problem = ""
    try:
        text = line.text().strip()
        values, end = raw_decoded(text)
        if behind := text[end:].lstrip():
            end = len(text) - len(behind)
            raise json.JSONDecodeError("Extra data", text, end)
    except UnicodeDecodeError as error:
        problem = line.why_no_text(error)
    except json.JSONDecodeError as error:
        problem = f"{NOT_JSON}{error.msg} at column {error.colno}"
    except RecursionError:
        problem = "the JSON nests too deeply"
    else:
        if isinstance(values, dict):
            return Row(line.number, line.data, values)
        problem = f"not a JSON object but {kind_of(values)}; write one object a line"
    return Row(line.number, line.data, problem=problem)
