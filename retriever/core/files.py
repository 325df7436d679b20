r"""Small text files as people save them: ids, tokens, TOML, lines of text; a corpus and rows are read in `corpus`.

A file is UTF-8 or, by its byte order mark, UTF-16. A line ends at ``\n``, ``\r\n`` or ``\r`` and at no other
character, so that a text may hold a line separator (U+2028).
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from retriever.core.errors import InputError

STDIN = "-"
_HINT = "Save it as UTF-8."
_LARGEST = 64_000_000  # bytes
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LINE_END = re.compile("\r\n?")


def read_text(path: str | Path, *, encoding: str | None = None, hint: str = _HINT, largest: int = _LARGEST) -> str:
    r"""Return the text of a file without a byte order mark, its line ends written as ``\n``.

    Args:
        path: a file, or ``-`` for standard input.
        encoding: a name that Python knows; None for UTF-8, or UTF-16 where the file begins with its mark.
        hint: the next step where the encoding is another.
        largest: bytes that a file has at most.

    Raises:
        InputError: the file cannot be read, is too large, or is in another encoding; file and line are named.
    """
    name = "stdin" if str(path) == STDIN else str(path)
    try:
        if name == "stdin":
            data = sys.stdin.buffer.read(largest + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(largest + 1)
    except OSError as error:
        raise InputError(
            f"{name} cannot be read: {error.strerror or error}.", hint="Check the name and the folder you are in."
        ) from error
    if len(data) > largest:
        raise InputError(f"{name} has more than {largest} bytes.", hint="Name a smaller file.")
    return _decoded(data, name, encoding, hint)


def read_lines(path: str | Path, *, encoding: str | None = None, hint: str = _HINT) -> list[str]:
    """Return the lines of a file, blank ones too; arguments and errors as `read_text`."""
    text = read_text(path, encoding=encoding, hint=hint)
    return text.removesuffix("\n").split("\n") if text else []


def read_toml(path: Path, form: str, *, largest: int = _LARGEST) -> dict[str, Any]:
    """Return the tables and values of a TOML file.

    Args:
        path: the file.
        form: how it is written, for the hint of an error.
        largest: bytes that it has at most.

    Raises:
        InputError: as `read_text`, or the file is no TOML; file and line are named.
    """
    text = read_text(path, largest=largest)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # no TOML, or nested without end
        raise InputError(f"{path} is no TOML: {error}.", hint=form) from error


def _decoded(data: bytes, name: str, encoding: str | None, hint: str) -> str:
    chosen = encoding or ("utf-16" if data.startswith(_UTF16_MARKS) else "utf-8")
    try:
        text = data.decode(chosen)
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(chosen, "replace")
        raise InputError(f"{_place(name, before)} is not {chosen.upper()}.", hint=hint) from error
    if "\0" in text:  # UTF-16 without its mark, or no text at all
        raise InputError(f"{_place(name, text.partition(chr(0))[0])} is no text: it holds a NUL.", hint=hint)
    return _LINE_END.sub("\n", text.removeprefix("\ufeff"))


def _place(name: str, before: str) -> str:
    """Return the file and the number of the line that some text goes before."""
    return f"{name}, line {_LINE_END.sub(chr(10), before).count(chr(10)) + 1}"
