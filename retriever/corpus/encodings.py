"""Text files as lines of UTF-8, of bounded length; other encodings are noticed, guessed and read."""

import codecs
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, TextIO, cast

from retriever.core.errors import InputError, UsageError
from retriever.core.registry import nearest
from retriever.core.text import shortened

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
"""Characters of a line, of one CSV row or one JSON value, at most; also what a reader holds in memory."""

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BLOCK = 1 << 20
_SAMPLE = 1 << 16  # bytes of foreign lines that a guess rests on
_SHOWN = 60
_ZEROS = 0.05  # of the bytes, in text of UTF-16 at least
_BYTES, _UNREADABLE = "surrogateescape", "retriever.unreadable"
UNDECODED = re.compile("[\udc80-\udcff]")
"""A byte in a text of `open_text` that could not be decoded."""

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
    if head.startswith(_UTF16_MARKS):
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
    if mark in _UTF16_MARKS:
        return Foreign("utf-16", 1, (mark + stream.readline(4 * _SHOWN)).decode("utf-16", "replace").strip())
    good = bad = 0
    first, sample = (0, b""), b""
    for number, line in _beyond_ascii(stream, mark):
        try:
            line.decode(UTF8, "surrogatepass")
            good += 1
        except UnicodeDecodeError:
            if not json_lines or (line.lstrip().startswith(b"{") and line.rstrip().endswith(b"}")):
                bad += 1
                first = first if bad > 1 else (number, line[:_SAMPLE])
                sample += line[:_SAMPLE] + b"\n" if len(sample) < _SAMPLE else b""
    if bad <= max(good, int(json_lines)):
        return None
    encoding = guess(sample)
    return Foreign(encoding, first[0], first[1].decode(encoding or "ascii", "replace").strip())


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


def read_lines(stream: TextIO) -> Iterator[str]:
    """Yield the lines of a text with their ends; one longer than `LONGEST_LINE` is cut behind so many and one more."""
    mark = "\ufeff"  # before the first
    while text := stream.readline(LONGEST_LINE + 1):
        rest = text
        while len(rest) > LONGEST_LINE and not rest.endswith(("\n", "\r")):
            rest = stream.readline(LONGEST_LINE + 1)
        yield text.removeprefix(mark)
        mark = ""


def open_text(stream: BinaryIO, encoding: str) -> TextIO:
    """Return the text of a stream; `readable` knows what could not be decoded.

    Lines end in LF; where the beginning has CR alone, CR is read as LF.
    """
    head = cast("io.BufferedReader", stream).peek(1).decode(encoding, "replace")
    utf8 = codecs.lookup(encoding).name == UTF8
    newline = None if "\r" in head[:-1] and "\n" not in head else "\n"  # the last CR may be half of a line's end
    return io.TextIOWrapper(stream, encoding, _BYTES if utf8 else _UNREADABLE, newline)


def readable(text: str, encoding: str = UTF8) -> str:
    """Return a text of `open_text`, with halves of characters joined that other programs wrote as bytes.

    Raises:
        ValueError: a part of it could not be decoded; the message is the reason.
    """
    bad = None if text.isascii() else UNDECODED.search(text)
    if bad is None:
        return text
    place = f"at position {bad.start() + 1}"
    if codecs.lookup(encoding).name != UTF8:
        raise ValueError(f"not {encoding}: the character {place}; correct it, or name another encoding")
    try:
        halves = text.encode(UTF8, _BYTES).decode(UTF8, "surrogatepass")
    except UnicodeError:
        byte = f"byte 0x{ord(bad[0]) & 0xFF:02x} {place}"
        raise ValueError(f"not UTF-8: {byte}; correct it, or name the file's encoding") from None
    return halves.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
