"""Inputs as bytes that can be read several times: files, pipes and standard input, compressed or not, by content."""

import gzip
import io
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import BinaryIO, cast

from retriever.core.errors import InputError

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
_NO_MEMBERS = ("__MACOSX/", ".DS_Store", "Thumbs.db")


class Source:
    """One input of a corpus; a pipe and standard input are copied to a temporary file first.

    Args:
        name: a file's path, or ``-`` for standard input.

    Raises:
        InputError: there is no such file, it is a folder or of unknown format, or a zip file does not hold one file.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = Path(name)
        self._member: zipfile.ZipInfo | None = None
        self._copy: BinaryIO | None = None
        self._check()
        head = self._head(self._plain)
        self._zipped = "gzip" if head.startswith(_GZIP) else "zip" if head.startswith(_ZIP) else ""
        self.is_sheet = head == _OLD_OFFICE
        if self._zipped == "zip":
            with self._plain() as stream:
                self._member = _only_member(name, stream)
            self.is_sheet = self._member is None
            self._zipped = "" if self.is_sheet else self._zipped
        self.suffix = self._suffix()
        self.is_sheet |= self.suffix in SHEETS

    def open(self) -> BinaryIO:
        """Open the input at its beginning, unzipped."""
        if self._zipped == "gzip":
            return cast("BinaryIO", _Unzipped(self.name, fileobj=self._plain()))
        if self._member is not None:
            return _member(self.name, self._plain(), self._member)
        return self._plain()

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
        return self.suffix == PARQUET or self._head(self.open) == _PARQUET

    @property
    def note(self) -> str:
        """A statement for the user where the content is not what the name says; empty otherwise."""
        named = self.path.suffix.lower() == {"gzip": ".gz", "zip": ".zip"}.get(self._zipped)
        return f"unzipped, as it is a {self._zipped} file" if self._zipped and not named else ""

    def _check(self) -> None:
        if self.name == STDIN:
            self._copy = _copied(sys.stdin.buffer)
            return
        if self.path.is_dir():
            raise InputError(f"{self.path} is a folder.", hint=f"Name its files, e.g. {self.path}/*.jsonl.")
        if _suffix(self.path) not in (*_SUFFIXES, ".zip"):
            raise InputError(f"{self.path} has a format that is not known.", hint=FORMATS)
        if not self.path.exists():
            raise InputError(f"There is no file {self.name}.", hint="Check the name and the folder you are in.")
        if not self.path.is_file():
            with self.path.open("rb") as pipe:
                self._copy = _copied(pipe)

    def _plain(self) -> BinaryIO:
        if self._copy is None:
            return self.path.open("rb")
        lent = io.FileIO(self._copy.fileno(), closefd=False)
        lent.seek(0)
        return io.BufferedReader(lent)

    def _head(self, opened: Callable[[], BinaryIO]) -> bytes:
        with opened() as stream:
            return stream.read(4)

    def _suffix(self) -> str:
        inside = PurePath(self._member.filename).suffix.lower() if self._member else ""
        return inside if inside in _SUFFIXES else "" if self.name == STDIN else _suffix(self.path)


def _suffix(path: Path) -> str:
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return inner.suffix.lower()


def _copied(stream: BinaryIO) -> BinaryIO:
    copy = tempfile.TemporaryFile()
    shutil.copyfileobj(stream, copy, 1 << 20)
    copy.flush()
    return cast("BinaryIO", copy)


class _Unzipped(gzip.GzipFile):
    """A zipped file, read line by line; one that unzips to hundreds of times its size is no corpus."""

    def read(self, size: int | None = -1) -> bytes:
        return self._checked(super().read(size))

    def readline(self, size: int | None = -1) -> bytes:
        return self._checked(super().readline(size))

    def _checked(self, data: bytes) -> bytes:
        place = self.tell()
        if place > _LEAST_UNZIPPED and place > _MOST_UNZIPPED * max(1, cast("BinaryIO", self.fileobj).tell()):
            raise _bomb(self.name)
        return data


def _bomb(name: str) -> InputError:
    return InputError(
        f"{name} unzips to more than {_MOST_UNZIPPED} times its size.", hint="Unzip it first, if it is whole."
    )


def _only_member(name: str, stream: BinaryIO) -> zipfile.ZipInfo | None:
    """Return the file in a zip file; None where the zip file is a spreadsheet."""
    try:
        with zipfile.ZipFile(stream) as archive:
            members = [entry for entry in archive.infolist() if not entry.is_dir() and not _is_litter(entry.filename)]
    except (zipfile.BadZipFile, NotImplementedError, ValueError, IndexError) as error:
        raise InputError(f"{name} is a damaged zip file: {error}.", hint="Copy or download it again.") from error
    if any(entry.filename in _SHEET_PARTS for entry in members):
        for entry in members:
            _refuse_bomb(name, entry)
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
    _refuse_bomb(name, member)
    return member


def _refuse_bomb(name: str, member: zipfile.ZipInfo) -> None:
    if member.file_size > max(_LEAST_UNZIPPED, _MOST_UNZIPPED * member.compress_size):
        raise _bomb(name)


def _is_litter(name: str) -> bool:
    return name.startswith(_NO_MEMBERS[0]) or PurePath(name).name in _NO_MEMBERS


def _member(name: str, stream: BinaryIO, member: zipfile.ZipInfo) -> BinaryIO:
    try:
        return cast("BinaryIO", zipfile.ZipFile(stream).open(member))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{name} cannot be unzipped: {error}.", hint="Unzip it first.") from error
