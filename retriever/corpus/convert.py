"""From a row to a document: which field is what, and everything that makes a row bad."""

import math
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import TypeVar, cast

from retriever.core.fields import leaves
from retriever.core.fingerprint import json_hash
from retriever.core.text import composed, is_blank
from retriever.core.types import JSON, BadRow, Document
from retriever.corpus.fields import FieldNames, keys_to, value_at, without
from retriever.corpus.markup import NO_MARKUP, Markup
from retriever.corpus.rows import DEEPEST, LONGEST_ID, LONGEST_TEXT, Notes, ReadingOptions, Row, kind_of, raw_excerpt

_LARGEST = 1 << 63  # of whole numbers that ids are taken for

Value = TypeVar("Value")


class _RowError(Exception):
    """A row cannot become a document; the message is the reason."""


class Converter:
    """Turns the rows of one input, of one file after another, into documents with distinct ids."""

    def __init__(self, options: ReadingOptions) -> None:
        self._options = options
        self._places: dict[str, str] = {}  # by id
        self._derived: Counter[str] = Counter()
        self.begin_file("", FieldNames(), Notes(""))

    def begin_file(self, file: str, fields: FieldNames, notes: Notes, markup: Markup = NO_MARKUP) -> None:
        """Begin another file, whose rows are next; changes are noted in ``notes``."""
        self._file, self._fields, self._notes, self._markup = file, fields, notes, markup
        self._derives_ids: bool | None = None

    def convert(self, row: Row) -> Document | BadRow:
        """Return the row's document, or what is wrong with the row."""
        identifier = self._readable_id(row)
        try:
            if row.values is None:
                raise _RowError(row.problem)
            document = self._document(row, row.values)
            self._claim(document.id, f"{self._file}:{row.line}")
        except _RowError as error:
            return BadRow(self._file, row.line, identifier, str(error), row.excerpt())
        return document

    def _readable_id(self, row: Row) -> str | None:
        values = row.values or {}
        keys = keys_to(values, self._fields.find_id(values))
        value = value_at(values, keys) if keys else None
        readable = isinstance(value, str | int | float)
        return raw_excerpt(self._composed(str(value)), LONGEST_ID) if readable else None

    def _composed(self, value: Value) -> Value:
        """Return a value with its texts in composed form, unless all stays as it is in the file."""
        if self._options.raw:
            return value
        plain = _composed(value)
        if plain is not value:
            self._notes.add("characters composed (NFC)")
        return plain

    def _document(self, row: Row, values: Mapping[str, object]) -> Document:
        id_field, text_field = self._fields.find_id(values), self._fields.find_text(values)
        id_keys, text_keys = keys_to(values, id_field), keys_to(values, text_field)
        if self._derives_ids is None:
            self._derives_ids = id_keys is None and self._fields.id is None
        _check(values, DEEPEST)
        text = self._composed(self._cleaned(self._text(values, text_keys)))
        left = values
        for keys in {id_keys, text_keys} - {None}:
            left = without(left, keys or ())
        metadata = self._composed(
            {name: cast("JSON", value) for name, value in left.items() if not (row.sparse and value is None)}
        )
        if id_field is not None and id_keys is not None:
            identifier = self._id(value_at(values, id_keys), id_field)
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
        has_title = isinstance(title, str) and bool(title.strip()) and field != title_field
        if has_title and (text is None or (isinstance(text, str) and is_blank(text))):
            text = title
        elif not isinstance(text, str):
            inside = [leaf.name for leaf in leaves(text)][:5] if isinstance(text, Mapping) else []
            hint = f"; --text-field {field}.{inside[0]} names a field in it" if inside else ""
            raise _RowError(f"the text in {field!r} is {kind_of(text)}, not a string{hint}")
        elif is_blank(text):
            invisible = ": its characters are invisible" if text.strip() else ""
            raise _RowError(f"the text in {field!r} is empty{invisible}")
        elif has_title and not text.startswith(f"{title}\n"):  # as in what an index gives back
            text = f"{title}\n{text}"
        text = str(text)
        if len(text) > LONGEST_TEXT:
            raise _RowError(
                f"the text has {len(text):,} characters, more than {LONGEST_TEXT:,}; split it into documents"
            )
        return text

    def _cleaned(self, text: str) -> str:
        """Return a text without markup, where the file's texts have such."""
        plain = self._markup.cleaned(text)
        if plain != text:
            self._notes.add("HTML entities and tags decoded" if self._markup.tags else "HTML entities decoded")
        if is_blank(plain):
            raise _RowError("the text holds markup alone")
        return plain

    def _id(self, value: object, field: str) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise _RowError(f"the id in {field!r} is {kind_of(value)}, not a string or number")
        if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST and not self._options.raw:
            value = int(value)
        identifier = self._composed(str(value))
        if is_blank(identifier):
            raise _RowError(f"the id in {field!r} is empty")
        if len(identifier) > LONGEST_ID:
            raise _RowError(f"the id in {field!r} has {len(identifier):,} characters, more than {LONGEST_ID}")
        return identifier

    def _derive_id(self, text: str, metadata: Mapping[str, JSON]) -> str:
        digest = json_hash({"text": text, "metadata": metadata})[:16]
        self._derived[digest] += 1
        return digest if self._derived[digest] == 1 else f"{digest}-{self._derived[digest]}"

    def _claim(self, identifier: str, place: str) -> None:
        first = self._places.setdefault(identifier, place)
        if first is not place:
            raise _RowError(f"the id {identifier!r} is taken by {first}; ids must differ within one input")


def _composed(value: Value) -> Value:
    """Return a value with its texts in composed form: itself where they are."""
    plain: object = value
    if isinstance(value, str):
        plain = composed(value)
    elif isinstance(value, list):
        plain = [_composed(item) for item in value]
    elif isinstance(value, Mapping):
        names = {name: composed(name) if isinstance(name, str) else name for name in value}
        plain = {
            name if names[name] != name and names[name] in value else names[name]: _composed(item)
            for name, item in value.items()
        }
    return value if plain == value else cast("Value", plain)


def _check(value: object, depth: int, place: str = "") -> None:
    """Refuse what cannot be stored, searched or shown, wherever in the row it stands."""
    if isinstance(value, str):
        _check_string(value, place)
    elif isinstance(value, Mapping | list):
        if depth == 0:
            raise _RowError(f"it nests too deeply at {place!r:.200}; flatten it")
        for name, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            inner = f"{place}.{name}" if place else str(name)
            if isinstance(name, str):
                _check_string(name, inner)
            _check(item, depth - 1, inner)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _RowError(f"the number in {place!r} is too large or not finite")
    elif value is not None and not isinstance(value, bool | int | float):
        raise _RowError(f"{place!r} holds {kind_of(value)}, which is not JSON")


def _check_string(text: str, place: str) -> None:
    if "\0" in text:
        raise _RowError(f"{place!r} holds a NUL character; remove it")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _RowError(f"{place!r} holds half a surrogate pair, which is not text; correct it") from None


def _seen(values: Mapping[str, object]) -> str:
    names = ", ".join(repr(leaf.name) for leaf in islice(leaves(cast("Mapping[str, JSON]", values)), 20))
    return f"the row has {names}" if names else "the row is empty"
