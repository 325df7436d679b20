"""Reads a corpus: files of several formats become one stream of documents and bad rows, in constant memory per row."""

import gzip
import sys
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from retriever.core.errors import InputError
from retriever.core.types import BadRow, Document
from retriever.corpus.convert import Converter
from retriever.corpus.encodings import UTF8, EncodingError, find_foreign, require_encoding
from retriever.corpus.jsonl import read_jsonl
from retriever.corpus.parquet import read_parquet
from retriever.corpus.rows import FieldNames, Limits, Row
from retriever.corpus.tables import read_table

STDIN = "-"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LINES = (".jsonl", ".ndjson", *_DELIMITERS)
_LEAST_UNZIPPED, _MOST_UNZIPPED = 1 << 26, 200  # bytes, times; reviews shrink to a third or a tenth
_FORMATS = "Readable are .jsonl, .ndjson, .csv and .tsv (also with .gz), .parquet, and - for JSON Lines on stdin."


def read_documents(
    paths: Sequence[str | Path],
    *,
    id_field: str | None = None,
    text_field: str | None = None,
    encoding: str | None = None,
    limits: Limits | None = None,
) -> Iterator[Document | BadRow]:
    """Read files one after the other as one corpus; ids are distinct within it.

    The id is the field ``_id``, ``id``, ``docid`` or ``doc_id``, the text ``text``, ``contents``, ``body``,
    ``review`` or ``content``, unless named here. A ``title`` becomes the text's first line and stays in the metadata,
    as all other fields do. Numeric ids become strings. A row whose id was met before is bad; the first one stands.

    In a file whose first row has no id field, a row's id is derived from its text and metadata: the same whenever the
    file is read again, whatever was added or moved around it; equal rows count up (``...-2``). An edited row is thus
    a new document, and only a synchronising run removes the old one.

    Args:
        paths: files, or ``-`` for JSON Lines on standard input.
        id_field: the field that holds the id; a row without it is bad.
        text_field: the field that holds the text.
        encoding: what files other than Parquet are in, a name that Python knows. None means UTF-8, and a file that is
            not is refused; named ``utf-8``, it is read and its lines that are not become bad rows.
        limits: what a row may hold.

    Returns:
        An iterator over documents and bad rows, in the order of the files. It remembers the ids it met.

    Raises:
        UsageError: Python knows no such encoding.
        EncodingError: a file is not UTF-8 and no encoding was named.
        InputError: a file is missing, unreadable, of unknown format, or has no rows or no text column: raised by this
            call, as `EncodingError` is, before the first document. Damage further down, such as a truncated .gz, is
            raised by the iterator when it gets there.
    """
    fields = FieldNames(id_field, text_field)
    files = [_file(path, fields, limits, encoding) for path in paths]
    if not files:
        raise InputError("No file was given.", hint=_FORMATS)
    for file in files:
        file.check()
    return _documents(files, Converter(fields, limits or Limits()))


def read_fields(
    path: str | Path, fields: FieldNames, *, limits: Limits | None = None, encoding: str | None = None
) -> Iterator[Row]:
    """Read one file, in any of the formats, as rows of fields that are not yet anything more.

    Args:
        path: a file, or ``-`` for JSON Lines on standard input.
        fields: which columns a table must have, and which of them stay text.
        limits: what a row may hold.
        encoding: as for `read_documents`.

    Raises:
        InputError: as `read_documents` does.
    """
    file = _file(path, fields, limits, encoding)
    file.check()
    return file.rows()


def count_rows(paths: Sequence[str | Path]) -> int | None:
    """Return about how many rows files have, or None where counting is not cheap: zipped files and streams.

    Lines are counted, without the names of columns, so a CSV cell of several lines counts more than once.
    """
    total = 0
    for path in map(Path, paths):
        if not path.is_file() or path.suffix.lower() not in (*_LINES, ".parquet"):
            return None
        suffix = path.suffix.lower()
        total += _parquet_rows(path) if suffix == ".parquet" else max(0, _line_count(path) - (suffix in _DELIMITERS))
    return total


def _parquet_rows(path: Path) -> int:
    from pyarrow import parquet

    try:
        return int(parquet.read_metadata(path).num_rows)
    except (ValueError, OSError, MemoryError) as error:  # of which Arrow makes its own
        raise InputError(f"{path} cannot be read as Parquet: {error}.", hint="Copy or write it again.") from error


def _line_count(path: Path) -> int:
    lines, last = 0, b"\n"
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last != b"\n")


def _documents(files: Sequence["_File"], converter: Converter) -> Iterator[Document | BadRow]:
    for file in files:
        converter.begin_file(file.name)
        for row in file.rows():
            yield converter.convert(row)


class _Unzipped(gzip.GzipFile):
    """A zipped file, read line by line; one that unzips to hundreds of times its size is no corpus."""

    def read(self, size: int | None = -1) -> bytes:
        return self._checked(super().read(size))

    def readline(self, size: int | None = -1) -> bytes:
        return self._checked(super().readline(size))

    def _checked(self, data: bytes) -> bytes:
        place = self.tell()
        if place > _LEAST_UNZIPPED and place > _MOST_UNZIPPED * max(1, cast("BinaryIO", self.fileobj).tell()):
            raise InputError(
                f"{self.name} unzips to more than {_MOST_UNZIPPED} times its size.",
                hint="Unzip it first, if it is whole.",
            )
        return data


def _file(path: str | Path, fields: FieldNames, limits: Limits | None, encoding: str | None) -> "_File":
    return _File(str(path), fields, limits or Limits(), None if encoding is None else require_encoding(encoding))


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    fields: FieldNames
    limits: Limits
    encoding: str | None

    def check(self) -> None:
        """Raise `InputError` if the file as a whole cannot be read; standard input is looked at when its turn comes."""
        if self.name == STDIN:
            return
        path = Path(self.name)
        if path.is_dir():
            raise InputError(f"{path} is a folder.", hint=f"Name its files, e.g. {path}/*.jsonl.")
        if self._suffix() not in (*_LINES, ".parquet") or (self._is_zipped() and self._suffix() == ".parquet"):
            raise InputError(f"{path} has a format that is not known.", hint=_FORMATS)
        if path.is_file() or not path.exists():  # reading a pipe twice would lose its beginning
            if path.is_file() and self.encoding is None and self._suffix() != ".parquet":
                self._check_encoding()
            with closing(self.rows()) as rows:
                next(rows)

    def _check_encoding(self) -> None:
        try:
            with self._open() as stream:
                json_lines = self._suffix() not in _DELIMITERS
                found = find_foreign(stream, json_lines=json_lines, longest=self.limits.line_bytes)
        except (EOFError, OSError, zlib.error):  # whoever reads the rows meets it again, and tells it
            return
        if found:
            raise EncodingError(self.name, found)

    def rows(self) -> Generator[Row, None, None]:
        """Yield the file's rows; at least one, or `InputError`."""
        empty = True
        try:
            for row in self._parsed():
                empty = False
                yield row
        except EOFError as error:
            raise InputError(f"{self.name} is cut off in the middle.", hint="Copy or download it again.") from error
        except FileNotFoundError as error:
            raise InputError(
                f"There is no file {self.name}.", hint="Check the name and the folder you are in."
            ) from error
        except (zlib.error, OSError, UnicodeError) as error:
            raise InputError(f"{self.name} cannot be read: {error}.", hint="Check the file.") from error
        if empty:
            raise InputError(f"{self.name} has no rows.", hint="Was it written completely?")

    def _parsed(self) -> Iterator[Row]:
        suffix = self._suffix()
        if suffix == ".parquet":
            yield from read_parquet(Path(self.name), self.name, self.fields)
            return
        encoding = self.encoding or UTF8
        with ExitStack() as stack:
            stream = sys.stdin.buffer if self.name == STDIN else stack.enter_context(self._open())
            if suffix in _DELIMITERS:
                yield from read_table(stream, self.name, _DELIMITERS[suffix], self.fields, self.limits, encoding)
            else:
                yield from read_jsonl(stream, self.name, self.limits, encoding)

    def _open(self) -> BinaryIO:
        return cast("BinaryIO", _Unzipped(self.name)) if self._is_zipped() else Path(self.name).open("rb")

    def _suffix(self) -> str:
        path = Path(self.name)
        return (path.with_suffix("") if self._is_zipped() else path).suffix.lower()

    def _is_zipped(self) -> bool:
        return self.name.lower().endswith(".gz")
