"""Reads a corpus: files of several formats become one stream of documents and bad rows, in constant memory per row.

Every input is looked through before its first row is given: columns are typed as a whole, fields and header rows are
recognised, and what is no corpus at all is refused.
"""

import zipfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TypeAlias, cast

from retriever.core.errors import InputError
from retriever.core.types import JSON, BadRow, Document
from retriever.corpus.cells import Cells
from retriever.corpus.convert import Converter
from retriever.corpus.delimited import Delimited
from retriever.corpus.fields import FieldNames
from retriever.corpus.json_files import JsonFile, is_json
from retriever.corpus.parquet import Parquet
from retriever.corpus.plain import Plain
from retriever.corpus.rows import Notes, Reading, ReadingOptions, Row, first_of
from retriever.corpus.sheets import open_sheets
from retriever.corpus.sources import DELIMITERS, FORMATS, STDIN, Source
from retriever.corpus.survey import SAMPLE, Interpretation, survey
from retriever.corpus.tables import Table

_HEAD = 1 << 16  # characters by which a format is recognised
_Content: TypeAlias = Table | Parquet | JsonFile


def read_documents(
    paths: Sequence[str | Path],
    *,
    id_field: str | None = None,
    text_field: str | None = None,
    encoding: str | None = None,
    options: ReadingOptions | None = None,
) -> Reading[Document | BadRow]:
    """Read files one after the other as one corpus; ids are distinct within it.

    The id is the field ``_id``, ``id``, ``docid`` or ``doc_id``, the text ``text``, ``contents``, ``body``,
    ``review`` or ``content``, in any case, unless named here; without one of these, a field with a wider name that
    holds distinct keys or long texts (`retriever.corpus.fields`). A ``title`` becomes the text's first line and stays
    in the metadata, as all other fields do. Numeric ids become strings. A row whose id was met before is bad; the first
    one stands.

    Every file is looked through first, standard input and pipes by way of a temporary file: columns are typed as a
    whole, ratings and dates are rewritten where they can be read, header rows and encodings are recognised
    (docs/corpus.md).

    In a file whose first row has no id field, a row's id is derived from its text and metadata: the same whenever the
    file is read again, whatever was added or moved around it; equal rows count up (``...-2``). An edited row is thus
    a new document, and only a synchronising run removes the old one.

    Args:
        paths: files, or ``-`` for JSON on standard input.
        id_field: the field that holds the id, or the path of keys to it; a row without it is bad.
        text_field: the field that holds the text, or the path of keys to it.
        encoding: what files other than Parquet are in, a name that Python knows. None means UTF-8 or UTF-16, and a
            file that is neither is refused; named ``utf-8``, it is read and its lines that are not become bad rows.
        options: how far values are interpreted.

    Returns:
        An iterator over documents and bad rows, in the order of the files. It remembers the ids it met, and its
        ``notes`` say what was recognised or changed in each file, and its ``count`` how many rows have values.

    Raises:
        UsageError: Python knows no such encoding.
        EncodingError: a file is neither UTF-8 nor UTF-16 and no encoding was named.
        InputError: a file is missing, unreadable, of unknown format, or has no good row or no text column: raised by
            this call, as `EncodingError` is, before the first document. Damage further down, such as a truncated .gz,
            is raised by the iterator when it gets there.
    """
    options = options or ReadingOptions()
    files = [_File(str(path), FieldNames(id_field, text_field), encoding, options) for path in paths]
    if not files:
        raise InputError("No file was given.", hint=FORMATS)
    for file in files:
        file.require_good_row()
    count = None if options.raw else sum(file.interpretation.count for file in files)
    return Reading(_documents(files, Converter(options)), [file.notes for file in files], count)


def read_given(documents: Iterable[Document | BadRow]) -> Reading[Document | BadRow]:
    """Read documents that a program gives: ratings and dates are rewritten as the first thousand of them show.

    Args:
        documents: in any number; bad rows pass, and an error among them is raised behind those before it.
    """
    first, rest = first_of(documents, SAMPLE)
    metadata = (document.metadata for document in first if isinstance(document, Document))
    interpretation = survey(metadata, FieldNames(id="id", text="text"), ReadingOptions())
    notes = Notes("documents", list(interpretation.notes))
    plain = Plain(notes.add)

    def read(given: Document | BadRow) -> Document | BadRow:
        if isinstance(given, BadRow):
            return given
        values = interpretation.interpreted(Row(given.line, "", given.metadata)).values or {}
        metadata = cast("dict[str, JSON]", plain.fields(values))
        return replace(given, id=plain.text(given.id), text=plain.text(given.text), metadata=metadata)

    return Reading(map(read, chain(first, rest)), [notes])


def read_fields(
    path: str | Path,
    fields: FieldNames,
    *,
    encoding: str | None = None,
    options: ReadingOptions | None = None,
) -> Reading[Row]:
    """Read one file, in any of the formats, as rows of fields that are not yet anything more and can be stored.

    Args:
        path: a file, or ``-`` for JSON on standard input.
        fields: which columns a table must have, and which of them stay text.
        encoding: as for `read_documents`.
        options: as for `read_documents`; raw values stay as the file has them.

    Raises:
        InputError: as `read_documents` does.
    """
    options = options or ReadingOptions()
    file = _File(str(path), fields, encoding, options)
    with closing(file.rows()) as rows:
        next(rows)
    plain = Plain(file.notes.add)

    def stored(row: Row) -> Row:
        return row if row.values is None else replace(row, values=plain.fields(row.values))

    if options.raw:
        return Reading(file.rows(), [file.notes])
    return Reading(map(stored, file.rows()), [file.notes], file.interpretation.count)


def _documents(files: Sequence["_File"], converter: Converter) -> Iterator[Document | BadRow]:
    for file in files:
        converter.begin_file(file.name, file.interpretation, file.notes)
        yield from map(converter.convert, file.rows())


class _File:
    """An input that was looked through.

    Raises:
        InputError: it cannot be read as a whole.
    """

    def __init__(self, name: str, fields: FieldNames, encoding: str | None, options: ReadingOptions) -> None:
        self.name = name
        self.notes = Notes("standard input" if name == STDIN else name)
        self._fields, self._options = fields, options
        with _input_errors(name):
            source = Source(name, encoding)
            self._content = self._open(source)
            self.interpretation = self._survey(self._content)
        for note in [*source.notes, *self._content.notes, *self.interpretation.notes]:
            self.notes.add(note)

    def rows(self) -> Generator[Row, None, None]:
        """Yield the file's rows; at least one, or `InputError`."""
        empty = True
        with _input_errors(self.name):
            for row in self._content.rows():
                empty = False
                yield row if isinstance(self._content, Table) else self.interpretation.interpreted(row)
        if empty:
            raise InputError(f"{self.name} has no rows.", hint="Was it written completely?")

    def require_good_row(self) -> None:
        """Raise `InputError` where no row can become a document."""
        converter = Converter(self._options)
        converter.begin_file(self.name, self.interpretation, Notes(self.name))
        first: BadRow | None = None
        with closing(self.rows()) as rows:
            for row in map(converter.convert, rows):
                if isinstance(row, Document):
                    return
                first = first or row
        if first is not None:
            problem = f"{self.name}: no row can be read; line {first.line}: {first.reason}."
            raise InputError(problem, hint="Nothing was indexed of it.")

    def _open(self, source: Source) -> _Content:
        if source.is_parquet():
            return Parquet(source, self._fields)
        if source.is_sheet:
            return self._table_of(open_sheets(source, self._options.sheet))
        with closing(source.text()) as text:
            head = text.read(_HEAD)
        if source.suffix in DELIMITERS and not is_json(head):
            known = {self._fields.id, self._fields.text}
            return self._table_of([Delimited(source, known=known, raw=self._options.raw)])
        content = JsonFile(source, head, raw=self._options.raw)
        return self._table_of([Cells(content.lists)]) if content.has_lists else content

    def _table_of(self, candidates: Iterable[Cells | Delimited]) -> Table:
        """Return the first table with a text column; where none is needed, else the first."""
        tables: list[Table] = []
        problems: list[InputError] = []
        for records in candidates:
            try:
                tables.append(Table(records, self.name, self._fields, self._options))
            except InputError as error:
                problems.append(error)
            else:
                if tables[-1].has_text:
                    return tables[-1]
        if not tables:
            raise next(iter(problems), InputError(f"{self.name} has no rows.", hint="Was it saved completely?"))
        return tables[0]

    def _survey(self, content: _Content) -> Interpretation:
        if isinstance(content, Table):
            return content.interpretation
        if self._options.raw:
            return Interpretation(self._fields)
        with closing(content.rows()) as rows:
            seen = survey((row.values for row in rows if row.values is not None), self._fields, self._options)
        if isinstance(content, Parquet):
            seen.fields.check_columns(self.name, content.columns, nested=True)
        return seen


@contextmanager
def _input_errors(name: str) -> Iterator[None]:
    """Turn what goes wrong with a file into `InputError`."""
    try:
        yield
    except EOFError as error:
        raise InputError(f"{name} is cut off in the middle.", hint="Copy or download it again.") from error
    except (zlib.error, zipfile.BadZipFile, OSError, UnicodeError) as error:
        raise InputError(f"{name} cannot be read: {error}.", hint="Check the file.") from error
