"""Lines of a byte stream with a bound on their length, so that no file can fill the memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from retriever.core.errors import InputError

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_CONVERT = "convert the file to UTF-8, e.g. with `iconv -f WINDOWS-1252 -t UTF-8`"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file.

    Attributes:
        number: from 1.
        data: its bytes with the line end; only the beginning of a line that is too long.
        too_long: whether the line is longer than the limit.
    """

    number: int
    data: bytes
    too_long: bool = False


def read_lines(stream: BinaryIO, file: str, *, limit: int) -> Iterator[Line]:
    """Yield the lines of a stream without a byte order mark, holding at most ``limit`` bytes of one in memory.

    Raises:
        InputError: the stream is UTF-16.
    """
    number = 0
    while data := stream.readline(limit):
        number += 1
        if number == 1 and data.startswith(_UTF16_BOMS):
            raise InputError(f"{file} is UTF-16.", hint="Convert it, e.g. with `iconv -f UTF-16 -t UTF-8`.")
        too_long = len(data) == limit and not data.endswith(b"\n") and _skip_rest(stream, limit)
        yield Line(number, data.removeprefix(_BOM) if number == 1 else data, too_long)


def _skip_rest(stream: BinaryIO, limit: int) -> bool:
    """Read on to the end of the line and return whether more than the line end was left."""
    rest = stream.readline(limit)
    more = rest not in (b"", b"\n", b"\r\n")
    while rest and not rest.endswith(b"\n"):
        rest = stream.readline(limit)
    return more


def not_utf8(error: UnicodeDecodeError) -> str:
    """Return the reason to give for bytes that are not UTF-8."""
    return f"not UTF-8: byte 0x{error.object[error.start]:02x} at position {error.start + 1}; {_CONVERT}"


def printable(data: bytes | str, limit: int) -> str:
    """Return the beginning of raw data as valid text, with NUL and what is not UTF-8 written as escapes."""
    if isinstance(data, bytes):
        text = data[: 4 * limit].decode("utf-8", "backslashreplace")
    else:
        text = data[:limit].encode("utf-8", "backslashreplace").decode("utf-8")
    return text[:limit].rstrip("\r\n").replace("\0", "\\x00")
