"""Inputs that can be read several times, as bytes or text: files, pipes and standard input, compressed or not."""

import gzip
import io
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePath
from typing import BinaryIO, TextIO, cast

from retriever.core.errors import InputError
from retriever.corpus.encodings import UTF8, EncodingError, find_foreign, find_utf16, open_text, require_encoding

STDIN = "-"
DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
PARQUET = ".parquet"
SHEETS = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")
_SUFFIXES = (*JSON_SUFFIXES, *DELIMITERS, PARQUET, *SHEETS)
FORMATS = (
    "Readable are .jsonl, .ndjson, .json, .csv and .tsv (also in .gz, or alone in .zip), .parquet, .xlsx, .xls, .ods, "
    "and - for JSON on stdin."
)
_LEAST_UNZIPPED, _MOST_UNZIPPED = 1 << 26, 200  # bytes, times; reviews shrink to a third or a tenth
_GZIP, _ZIP, _PARQUET = b"\x1f\x8b", (b"PK\x03\x04", b"PK\x05\x06"), b"PAR1"
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_SHEET_PARTS = ("xl/workbook.xml", "xl/workbook.bin", "content.xml")  # content.xml: of OpenDocument
_HEAD = 1 << 16  # bytes by which UTF-16 is recognised
_NO_MEMBERS = ("__MACOSX/", ".DS_Store", "Thumbs.db")


class Source:
    """One input of a corpus; a pipe and standard input are copied to a temporary file first.

    Args:
        name: a file's path, or ``-`` for standard input.
        encoding: of its text; None for UTF-8 or UTF-16, whichever it is.

    Attributes:
        name: as the user gave it.
        suffix: of the file, or of the one that is zipped; in lower case, and empty for standard input.
        is_sheet: whether it is a spreadsheet, by its content or else by its name.
        notes: statements for the user where the content is not what the name says.

    Raises:
        InputError: there is no such file, it is a folder or of unknown format, or a zip file does not hold one file.
    """

    def __init__(self, name: str, encoding: str | None = None) -> None:
        self.name, self.path = name, Path(name)
        self._encoding = None if encoding is None else require_encoding(encoding)
        self.notes: list[str] = []
        self._member: zipfile.ZipInfo | None = None
        self._copy = self._copied()
        with self._plain() as stream:
            head = stream.read(4)
            self._zipped = "gzip" if head.startswith(_GZIP) else "zip" if head.startswith(_ZIP) else ""
            if self._zipped == "zip":
                self._member = _only_member(name, stream)
        inside = PurePath(self._member.filename).suffix.lower() if self._member else ""
        self.suffix = inside if inside in _SUFFIXES else "" if name == STDIN else _suffix(self.path)
        is_book = self._zipped == "zip" and self._member is None
        self._zipped = "" if is_book else self._zipped
        self.is_sheet = is_book or head == _OLD_OFFICE or self.suffix in SHEETS
        if self._zipped and self.path.suffix.lower() != {"gzip": ".gz", "zip": ".zip"}[self._zipped]:
            self.notes.append(f"unzipped, as it is a {self._zipped} file")

    def open(self) -> BinaryIO:
        """Open the input at its beginning, unzipped."""
        if self._zipped == "gzip":
            return cast("BinaryIO", _Unzipped(self.name, fileobj=self._plain()))
        if self._member is None:
            return self._plain()
        try:
            return cast("BinaryIO", zipfile.ZipFile(self._plain()).open(self._member))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise InputError(f"{self.name} cannot be unzipped: {error}.", hint="Unzip it first.") from error

    @contextmanager
    def local(self) -> Iterator[Path]:
        """Lend the path of an uncompressed file with the input's content."""
        if not self._zipped and self._copy is None:
            yield self.path.resolve()
            return
        with self.open() as stream, tempfile.TemporaryDirectory() as folder:
            whole = Path(folder) / "whole"
            with whole.open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
            yield whole

    def is_parquet(self) -> bool:
        """Return whether it is Parquet, by its content or else by its name."""
        with self.open() as stream:
            return self.suffix == PARQUET or stream.read(4) == _PARQUET

    @cached_property
    def encoding(self) -> str:
        """The encoding of its text: the named one, UTF-16 where the content shows it, else UTF-8, which is checked.

        Raises:
            EncodingError: it is neither, and none was named.
        """
        if self._encoding:
            return self._encoding
        with self.open() as stream:
            wide = find_utf16(stream.read(_HEAD))
        if wide:
            self.notes.append("read as UTF-16")
            return wide
        with suppress(EOFError, OSError, zlib.error), self.open() as stream:  # met again by the rows
            if foreign := find_foreign(stream, json_lines=self.suffix not in DELIMITERS):
                raise EncodingError(self.name, foreign)
        return UTF8

    def text(self) -> TextIO:
        """Open its text at the beginning."""
        encoding = self.encoding  # looked for before it is opened: copies have one place
        return open_text(self.open(), encoding)

    def _copied(self) -> BinaryIO | None:
        """Return a copy of what can be read only once; None of a file, after a check that it is there."""
        if self.name == STDIN:
            return _copy_of(sys.stdin.buffer)
        if self.path.is_dir():
            raise InputError(f"{self.path} is a folder.", hint=f"Name its files, e.g. {self.path}/*.jsonl.")
        if _suffix(self.path) not in (*_SUFFIXES, ".zip"):
            raise InputError(f"{self.path} has a format that is not known.", hint=FORMATS)
        if not self.path.exists():
            raise InputError(f"There is no file {self.name}.", hint="Check the name and the folder you are in.")
        if self.path.is_file():
            return None
        with self.path.open("rb") as pipe:
            return _copy_of(pipe)

    def _plain(self) -> BinaryIO:
        if self._copy is None:
            return self.path.open("rb")
        lent = io.FileIO(self._copy.fileno(), closefd=False)
        lent.seek(0)
        return io.BufferedReader(lent)


def _suffix(path: Path) -> str:
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return inner.suffix.lower()


def _copy_of(stream: BinaryIO) -> BinaryIO:
    copy = tempfile.TemporaryFile()
    shutil.copyfileobj(stream, copy, 1 << 20)
    copy.flush()
    return cast("BinaryIO", copy)


class _Unzipped(gzip.GzipFile):
    """A zipped file; one that unzips to hundreds of times its size is refused."""

    def read(self, size: int | None = -1) -> bytes:
        return self._checked(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        return self._checked(super().read1(size))

    def _checked(self, data: bytes) -> bytes:
        _refuse_bomb(str(self.name), self.tell(), cast("BinaryIO", self.fileobj).tell())
        return data


def _refuse_bomb(name: str, size: int, zipped: int) -> None:
    if size > max(_LEAST_UNZIPPED, _MOST_UNZIPPED * zipped):
        problem = f"{name} unzips to more than {_MOST_UNZIPPED} times its size."
        raise InputError(problem, hint="Unzip it first, if it is whole.")


def _only_member(name: str, stream: BinaryIO) -> zipfile.ZipInfo | None:
    """Return the file in a zip file; None where the zip file is a spreadsheet."""
    try:
        with zipfile.ZipFile(stream) as archive:
            members = [entry for entry in archive.infolist() if not entry.is_dir() and not _is_litter(entry.filename)]
    except (zipfile.BadZipFile, NotImplementedError, ValueError, IndexError) as error:
        raise InputError(f"{name} is a damaged zip file: {error}.", hint="Copy or download it again.") from error
    if any(entry.filename in _SHEET_PARTS for entry in members):
        for entry in members:
            _refuse_bomb(name, entry.file_size, entry.compress_size)
        return None
    if any(entry.filename == "[Content_Types].xml" for entry in members):
        raise InputError(f"{name} is a document of Office, but no spreadsheet.", hint="Save its texts as CSV.")
    if len(members) != 1:
        held = ", ".join(repr(entry.filename) for entry in members[:5]) + (" and others" if len(members) > 5 else "")
        raise InputError(
            f"{name} is a zip file that holds {len(members)} files{f': {held}' if members else ''}.",
            hint="Unzip it, and name the files to read.",
        )
    member = members[0]
    if member.flag_bits & 1:
        raise InputError(f"{name} is an encrypted zip file.", hint="Unzip it first.")
    _refuse_bomb(name, member.file_size, member.compress_size)
    return member


def _is_litter(name: str) -> bool:
    return name.startswith(_NO_MEMBERS[0]) or PurePath(name).name in _NO_MEMBERS
