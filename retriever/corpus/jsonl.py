"""JSON Lines: one object a line, a bad line costs that line alone."""

import json
from collections.abc import Iterator
from typing import BinaryIO, NoReturn

from retriever.corpus.encodings import UTF8
from retriever.corpus.lines import Line, read_lines
from retriever.corpus.rows import Limits, Row


def read_jsonl(stream: BinaryIO, file: str, limits: Limits, encoding: str = UTF8) -> Iterator[Row]:
    """Yield a row for every line that is not blank."""
    for line in read_lines(stream, file, limit=limits.line_bytes, encoding=encoding):
        if line.too_long:
            problem = f"the line is longer than {limits.line_bytes:,} bytes; write one object a line"
            yield Row(line.number, line.data, problem=problem)
        elif line.data.strip():
            yield _parse(line)


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
    except ValueError as error:  # a constant that is not JSON, or a number of thousands of digits
        problem = f"not JSON: {error}"
    else:
        if isinstance(values, dict):
            return Row(line.number, line.data, values)
        problem = f"not a JSON object but {_KINDS.get(type(values), 'a number')}; write one object a line"
    return Row(line.number, line.data, problem=problem)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number; use null")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_KINDS: dict[type, str] = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
