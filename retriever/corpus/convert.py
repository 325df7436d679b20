"""From a row to a document: which field is what, and everything that makes a row bad."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import cast
from uuid import UUID

from retriever.core.fields import leaves
from retriever.core.fingerprint import json_hash
from retriever.core.text import is_blank
from retriever.core.types import JSON, BadRow, Document
from retriever.corpus.fields import FieldNames, keys_to, value_at, without
from retriever.corpus.plain import Plain
from retriever.corpus.rows import LONGEST_ID, LONGEST_TEXT, Notes, ReadingOptions, Row, kind_of, raw_excerpt
from retriever.corpus.survey import Interpretation
from retriever.corpus.values import is_missing

_LARGEST = 1 << 63  # of whole numbers that ids are taken for
_MOST_FILES = 1 << 20


class _RowError(Exception):
    """A row cannot become a document; the message is the reason."""


class Converter:
    """Turns the rows of one input, of one file after another, into documents with distinct ids."""

    def __init__(self, options: ReadingOptions) -> None:
        self._options = options
        self._files: list[str] = []
        self._places: dict[str, int] = {}  # by id: line and file in one integer, which is small
        self._derived: Counter[str] = Counter()
        self.begin_file("", Interpretation(FieldNames()), Notes(""))

    def begin_file(self, file: str, interpretation: Interpretation, notes: Notes) -> None:
        """Begin another file, whose rows are next; changes are noted in ``notes``."""
        self._file, self._notes = file, notes
        self._fields, self._markup = interpretation.fields, interpretation.markup
        self._files.append(file)
        self._plain = Plain(notes.add, composes=not self._options.raw)
        self._derives_ids: bool | None = None

    def convert(self, row: Row) -> Document | BadRow:
        """Return the row's document, or what is wrong with the row."""
        try:
            if row.values is None:
                raise _RowError(row.problem)
            document = self._document(row, row.values)
            self._claim(document.id, row.line)
        except _RowError as error:
            return BadRow(self._file, row.line, self._readable_id(row), str(error), row.excerpt())
        return document

    def _readable_id(self, row: Row) -> str | None:
        values = row.values or {}
        keys = keys_to(values, self._fields.find_id(values))
        value = value_at(values, keys) if keys else None
        readable = isinstance(value, str | int | float)
        return raw_excerpt(self._plain.text(str(value)), LONGEST_ID) if readable else None

    def _document(self, row: Row, values: Mapping[str, object]) -> Document:
        id_keys = keys_to(values, self._fields.find_id(values))
        text_keys = keys_to(values, self._fields.find_text(values))
        if self._derives_ids is None:
            self._derives_ids = id_keys is None and self._fields.id is None
        text = self._plain.text(self._cleaned(self._text(values, text_keys)))
        left = values
        for keys in {id_keys, text_keys} - {None}:
            left = without(left, keys or ())
        metadata = cast("dict[str, JSON]", self._plain.fields(left))
        if row.sparse:
            metadata = {name: value for name, value in metadata.items() if value is not None}
        if id_keys is not None:
            identifier = self._id(value_at(values, id_keys), ".".join(id_keys))
        elif self._derives_ids:
            identifier = self._derive_id(text, metadata)
        elif self._fields.id:
            raise _RowError(f"no id: the field {self._fields.id!r} is missing; {_seen(values)}")
        else:
            raise _RowError(f"no id, though the rows before have one; {_seen(values)}; name the field with --id-field")
        return Document(identifier, text, metadata, file=self._file, line=row.line)

    def _text(self, values: Mapping[str, object], keys: tuple[str, ...] | None) -> str:
        if keys is None:
            missing = f"the field {self._fields.text!r} is missing" if self._fields.text else "no usual text field"
            raise _RowError(f"no text: {missing}; {_seen(values)}; name the field with --text-field")
        field, title_field = ".".join(keys), self._fields.find_title(values)
        text, title = value_at(values, keys), values[title_field] if title_field else None
        has_title = isinstance(title, str) and field != title_field and not self._why_empty(title)
        why_empty = self._why_empty(text) if isinstance(text, str) else ""
        if has_title and (text is None or why_empty):
            text = title
        elif text is None:
            raise _RowError(f"the text in {field!r} is empty: null")
        elif not isinstance(text, str):
            inside = [leaf.name for leaf in leaves(text)][:5] if isinstance(text, Mapping) else []
            hint = f"; --text-field {field}.{inside[0]} names a field in it" if inside else ""
            raise _RowError(f"the text in {field!r} is {kind_of(text)}, not a string{hint}")
        elif why_empty:
            raise _RowError(f"the text in {field!r} is empty{why_empty.rstrip()}")
        elif has_title and not text.startswith(f"{title}\n"):  # as in what an index gives back
            text = f"{title}\n{text}"
        text = str(text)
        if len(text) > LONGEST_TEXT:
            raise _RowError(
                f"the text has {len(text):,} characters, more than {LONGEST_TEXT:,}; split it into documents"
            )
        return text

    def _why_empty(self, text: str) -> str:
        """Return how a text is empty, "" where it is not."""
        if is_missing(text) and not self._options.raw:
            return f": {text.strip()!r} stands for a missing value"
        if not is_blank(text):
            return ""
        return ": its characters are invisible" if text.strip() else " "

    def _cleaned(self, text: str) -> str:
        """Return a text without markup, where the file's texts have such."""
        plain = self._markup.cleaned(text)
        if plain != text:
            self._notes.add("HTML entities and tags decoded" if self._markup.tags else "HTML entities decoded")
            if is_blank(plain):
                raise _RowError("the text holds markup alone")
        return plain

    def _id(self, value: object, field: str) -> str:
        value = str(value) if isinstance(value, UUID) else value
        if value is None:
            raise _RowError(f"the id in {field!r} is empty: null")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise _RowError(f"the id in {field!r} is {kind_of(value)}, not a string or number")
        if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST and not self._options.raw:
            value = int(value)
        identifier = self._plain.text(str(value))
        if is_blank(identifier):
            raise _RowError(f"the id in {field!r} is empty")
        if len(identifier) > LONGEST_ID:
            raise _RowError(f"the id in {field!r} has {len(identifier):,} characters, more than {LONGEST_ID}")
        return identifier

    def _derive_id(self, text: str, metadata: Mapping[str, JSON]) -> str:
        digest = json_hash({"text": text, "metadata": metadata})[:16]
        self._derived[digest] += 1
        return digest if self._derived[digest] == 1 else f"{digest}-{self._derived[digest]}"

    def _claim(self, identifier: str, line: int) -> None:
        if identifier in self._places:
            line, file = divmod(self._places[identifier], _MOST_FILES)
            taken = f"{self._files[file]}:{line}"
            raise _RowError(f"the id {identifier!r} is taken by {taken}; ids must differ within one input")
        self._places[identifier] = line * _MOST_FILES + len(self._files) - 1


def _seen(values: Mapping[str, object]) -> str:
    try:
        names = [leaf.name for leaf in islice(leaves(cast("Mapping[str, JSON]", values)), 20)]
    except RecursionError:
        names = list(values)[:20]
    return f"the row has {', '.join(map(repr, names))}" if names else "the row is empty"
