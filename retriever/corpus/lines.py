"""Lines of a byte stream with a bound on their length, so that no file can fill the memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from retriever.corpus.encodings import UTF8, UTF16_MARKS, EncodingError, Foreign, as_utf8

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file.

    Attributes:
        number: from 1.
        data: its bytes in UTF-8, with the line end; only the beginning of a line that is too long.
        too_long: whether the line is longer than the limit.
        encoding: what the file was read in.
    """

    number: int
    data: bytes
    too_long: bool = False
    encoding: str = UTF8

    def why_no_text(self, error: UnicodeDecodeError) -> str:
        """Return the reason to give where the line cannot be decoded."""
        place = f"at position {error.start + 1}"
        if self.encoding != UTF8:
            return f"not {self.encoding}: the character {place}; mend it, or name another encoding"
        return f"not UTF-8: byte 0x{error.object[error.start]:02x} {place}; mend it, or name the file's encoding"


def read_lines(stream: BinaryIO, file: str, *, limit: int, encoding: str = UTF8) -> Iterator[Line]:
    """Yield the lines of a stream without a byte order mark, holding at most ``limit`` bytes of one in memory.

    Raises:
        EncodingError: the stream is UTF-16 and was not said to be.
    """
    number = 0
    stream = as_utf8(stream, encoding)
    while data := stream.readline(limit):
        number += 1
        if number == 1 and data.startswith(UTF16_MARKS):
            raise EncodingError(file, Foreign("utf-16", 1, data.decode("utf-16", "replace").strip()))
        too_long = len(data) == limit and not data.endswith(b"\n") and _skip_rest(stream, limit)
        yield Line(number, data.removeprefix(_BOM) if number == 1 else data, too_long, encoding)


def _skip_rest(stream: BinaryIO, limit: int) -> bool:
    """Read on to the end of the line and return whether more than the line end was left."""
    rest = stream.readline(limit)
    more = rest not in (b"", b"\n", b"\r\n")
    while rest and not rest.endswith(b"\n"):
        rest = stream.readline(limit)
    return more


def raw_excerpt(data: bytes | str, limit: int) -> str:
    """Return the beginning of raw data as valid text, with NUL and what is not UTF-8 written as escapes."""
    if isinstance(data, bytes):
        text = data[: 4 * limit].decode("utf-8", "backslashreplace")
    else:
        text = data[:limit].encode("utf-8", "backslashreplace").decode("utf-8")
    return text[:limit].rstrip("\r\n").replace("\0", "\\x00")
