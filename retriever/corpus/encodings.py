"""Text files as lines of UTF-8, of bounded length; other encodings are noticed, guessed and read."""

import codecs
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from retriever.core.errors import InputError, UsageError
from retriever.core.registry import nearest
from retriever.core.text import shortened

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

UTF8 = "utf-8"
ENCODINGS: Mapping[str, str] = {
    UTF8: "UTF-8",
    "windows-1252": "Windows-1252 (Excel, western Europe)",
    "mac-roman": "Mac Roman",
    "utf-16": "UTF-16 (Excel, Unicode text)",
    "windows-1250": "Windows-1250 (central Europe)",
    "windows-1251": "Windows-1251 (Cyrillic)",
    "koi8-r": "KOI8-R (Cyrillic)",
    "windows-1253": "Windows-1253 (Greek)",
    "windows-1254": "Windows-1254 (Turkish)",
    "cp932": "Shift JIS (Japanese)",
    "gb18030": "GB 18030 (Chinese)",
    "big5": "Big5 (Chinese)",
    "cp949": "CP949 (Korean)",
}
"""Encodings that are guessed, the likelier ones first, and what people call them."""

LONGEST_LINE = 16_000_000
"""Bytes of a line, or of one CSV row, at most; also what a reader holds in memory."""

UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 20
_SAMPLE = 1 << 16  # bytes of foreign lines that a guess rests on
_SHOWN = 60
_ZEROS = 0.05  # of the bytes, in text of UTF-16 at least
_UNREADABLE = "retriever.unreadable"
codecs.register_error(_UNREADABLE, lambda error: ("\udcff", error.end))  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Foreign:
    """Why a file is not taken for UTF-8.

    Attributes:
        encoding: the likeliest one, a key of `ENCODINGS`; empty where none fits.
        line: the first line that is not UTF-8, from 1.
        text: the beginning of that line in the likeliest encoding.
    """

    encoding: str
    line: int
    text: str


class EncodingError(InputError):
    """A file as a whole is not UTF-8.

    Args:
        file: as the user named it.
        found: what was seen of it.
    """

    def __init__(self, file: str, found: Foreign) -> None:
        if found.encoding:
            problem = f"in {found.encoding}, line {found.line} reads {shortened(found.text, _SHOWN)!r}"
            hint = f"If that looks right, run it again with --encoding {found.encoding}; otherwise name another."
        else:
            problem = f"line {found.line} is in no encoding that is known"
            hint = "Name the encoding with --encoding, or save the file as UTF-8."
        super().__init__(f"{file} is not UTF-8: {problem}.", hint=hint)


def require_encoding(name: str) -> str:
    """Return a name that Python decodes text by.

    Raises:
        UsageError: it is none.
    """
    try:
        b"ab".decode(name, "replace")
        codecs.getincrementaldecoder(name)
    except (LookupError, UnicodeError, ValueError):
        hint = nearest(name.lower(), ENCODINGS)
        raise UsageError(f"There is no text encoding {name!r}.", hint=hint) from None
    return name


def find_utf16(head: bytes) -> str:
    """Return the UTF-16 that a file's beginning shows, by its mark or by the zeros of its letters; empty for none."""
    if head.startswith(UTF16_MARKS):
        return "utf-16"
    head = head[: len(head) // 2 * 2]
    first, second = head[::2].count(0), head[1::2].count(0)
    if max(first, second) < _ZEROS * len(head) or min(first, second) * 20 > max(first, second):
        return ""
    encoding = "utf-16-le" if second > first else "utf-16-be"
    return encoding if head.decode(encoding, "replace").count("\ufffd") <= 1 else ""


def find_foreign(stream: BinaryIO, *, json_lines: bool) -> Foreign | None:
    """Read a stream to its end and return why it is no UTF-8, or None where it is UTF-8 but for single bad bytes.

    Text in another encoding has many lines that are not UTF-8 and hardly one with letters beyond ASCII that is: such
    lines outnumber those. A file of JSON Lines, which are UTF-8 by their standard, may have one bad line where it has
    nothing else beyond ASCII; what does not look like an object is no evidence.

    Args:
        stream: at its beginning.
        json_lines: whether every line is an object.
    """
    mark = stream.read(2)
    if mark in UTF16_MARKS:
        return Foreign("utf-16", 1, (mark + stream.readline(4 * _SHOWN)).decode("utf-16", "replace").strip())
    good, count, bad, kept = 0, 0, [], 0
    for number, line in _beyond_ascii(stream, mark):
        if _is_utf8(line):
            good += 1
        elif not json_lines or (line.lstrip().startswith(b"{") and line.rstrip().endswith(b"}")):
            count += 1
            if kept < _SAMPLE:
                bad.append((number, line[:_SAMPLE]))
                kept += len(bad[-1][1])
    if count <= max(good, int(json_lines)):
        return None
    encoding = guess(b"\n".join(line for _, line in bad))
    first, line = bad[0]
    return Foreign(encoding, first, line.decode(encoding or "ascii", "replace").strip())


def _beyond_ascii(stream: BinaryIO, block: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of the lines of a stream, the block read before included, that are not ASCII."""
    before = 0
    while block := block + stream.read(_BLOCK):
        block += stream.readline(LONGEST_LINE)
        if not block.isascii():
            lines = enumerate(block.split(b"\n"), start=before + 1)
            yield from ((number, line) for number, line in lines if not line.isascii())
        before += block.count(b"\n")
        block = b""


def guess(data: bytes) -> str:
    """Return the likeliest encoding of some text, a key of `ENCODINGS`, or "" where none fits."""
    from charset_normalizer import from_bytes

    names = {codecs.lookup(name).name: name for name in ENCODINGS}
    order = list(names)
    matches = from_bytes(data[:_SAMPLE], cp_isolation=order, enable_fallback=False)
    fitting = [
        (candidate.chaos, -candidate.coherence, order.index(codecs.lookup(candidate.encoding).name))
        for best in matches
        for candidate in (best, *best.submatch)
    ]
    return names[order[min(fitting)[2]]] if fitting else ""


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

    def text(self) -> str:
        """Return the line as text, in which halves of characters may stand that other programs wrote as bytes.

        Raises:
            UnicodeDecodeError: it is no UTF-8.
        """
        try:
            return self.data.decode(UTF8)
        except UnicodeDecodeError:
            if self.encoding != UTF8 or not _is_utf8(self.data):
                raise
        pairs = self.data.decode(UTF8, "surrogatepass").encode("utf-16", "surrogatepass")
        return pairs.decode("utf-16", "replace")

    def why_no_text(self, error: UnicodeDecodeError) -> str:
        """Return the reason to give where the line cannot be decoded."""
        place = f"at position {error.start + 1}"
        if self.encoding != UTF8:
            return f"not {self.encoding}: the character {place}; correct it, or name another encoding"
        return f"not UTF-8: byte 0x{error.object[error.start]:02x} {place}; correct it, or name the file's encoding"


def read_lines(stream: BinaryIO, file: str, encoding: str) -> Iterator[Line]:
    """Yield the lines of a stream without a byte order mark, holding at most `LONGEST_LINE` bytes of one in memory.

    Raises:
        EncodingError: the stream is UTF-16 and was not said to be.
    """
    number = 0
    stream = as_utf8(stream, encoding)
    while data := stream.readline(LONGEST_LINE):
        number += 1
        if number == 1 and data.startswith(UTF16_MARKS):
            raise EncodingError(file, Foreign("utf-16", 1, data.decode("utf-16", "replace").strip()))
        too_long = len(data) == LONGEST_LINE and not data.endswith(b"\n") and _skip_rest(stream)
        yield Line(number, data.removeprefix(_BOM) if number == 1 else data, too_long, encoding)


def _skip_rest(stream: BinaryIO) -> bool:
    """Read on to the end of the line and return whether more than the line end was left."""
    rest = stream.readline(LONGEST_LINE)
    more = rest not in (b"", b"\n", b"\r\n")
    while rest and not rest.endswith(b"\n"):
        rest = stream.readline(LONGEST_LINE)
    return more


def as_utf8(stream: BinaryIO, encoding: str) -> BinaryIO:
    """Return a stream of the same text in UTF-8; what cannot be decoded becomes bytes that are not UTF-8."""
    return stream if codecs.lookup(encoding).name == UTF8 else io.BufferedReader(_Recoded(stream, encoding), _BLOCK)


class _Recoded(io.RawIOBase):
    """The bytes of a stream, decoded and written again in UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)(_UNREADABLE)
        self._left = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        while not self._left and not self._ended:
            data = self._stream.read(_BLOCK)
            self._ended = not data
            self._left = self._decoder.decode(data, final=self._ended).encode(UTF8, "surrogatepass")
        room = memoryview(buffer)
        size = min(len(room), len(self._left))
        room[:size], self._left = self._left[:size], self._left[size:]
        return size


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode(UTF8, "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True
