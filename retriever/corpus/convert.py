"""From a row to a document: which field is what, and everything that makes a row bad."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from retriever.core.fingerprint import json_hash
from retriever.core.types import JSON, BadRow, Document
from retriever.corpus.lines import raw_excerpt
from retriever.corpus.rows import TITLE_FIELD, FieldNames, Limits, Row


class _RowError(Exception):
    """A row cannot become a document; the message is the reason."""


@dataclass(frozen=True, slots=True)
class RowSource:
    """Where a document came from: the file as the user named it, and the line from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Converter:
    """Turns the rows of one input, of one file after another, into documents with distinct ids."""

    def __init__(self, fields: FieldNames, limits: Limits) -> None:
        self._fields = fields
        self._limits = limits
        self._sources: dict[str, RowSource] = {}
        self._derived: Counter[str] = Counter()
        self._file = ""
        self._derives_ids: bool | None = None

    def begin_file(self, file: str) -> None:
        """Say that the next rows come from another file."""
        self._file = file
        self._derives_ids = None

    def convert(self, row: Row) -> Document | BadRow:
        """Return the row's document, or what is wrong with the row."""
        identifier = self._readable_id(row)
        try:
            if row.values is None:
                raise _RowError(row.problem)
            document = self._document(row, row.values)
            self._claim(document.id, RowSource(self._file, row.line))
        except _RowError as error:
            raw = row.raw if isinstance(row.raw, bytes | str) else json.dumps(row.raw, ensure_ascii=False, default=str)
            return BadRow(self._file, row.line, identifier, str(error), raw_excerpt(raw, self._limits.raw_chars))
        return document

    def _readable_id(self, row: Row) -> str | None:
        field = self._fields.find_id(row.values or ())
        value = row.values[field] if row.values and field else None
        return raw_excerpt(str(value), self._limits.id_chars) if isinstance(value, str | int | float) else None

    def _document(self, row: Row, values: Mapping[str, object]) -> Document:
        id_field, text_field = self._fields.find_id(values), self._fields.find_text(values)
        if self._derives_ids is None:
            self._derives_ids = id_field is None and self._fields.id is None
        _check(values, self._limits.depth)
        text = self._text(values, text_field)
        metadata = {
            name: cast("JSON", value)
            for name, value in values.items()
            if name not in (id_field, text_field) and not (row.sparse and value is None)
        }
        if id_field is not None:
            return Document(self._id(values[id_field], id_field), text, metadata, file=self._file, line=row.line)
        if self._derives_ids:
            return Document(self._derive_id(text, metadata), text, metadata, file=self._file, line=row.line)
        if self._fields.id:
            raise _RowError(f"no id: the field {self._fields.id!r} is missing; {_seen(values)}")
        raise _RowError(f"no id, though the rows before have one; {_seen(values)}; name the field with --id-field")

    def _text(self, values: Mapping[str, object], field: str | None) -> str:
        if field is None:
            missing = f"the field {self._fields.text!r} is missing" if self._fields.text else "no usual text field"
            raise _RowError(f"no text: {missing}; {_seen(values)}; name the field with --text-field")
        text, title = values[field], values.get(TITLE_FIELD)
        if not isinstance(text, str):
            raise _RowError(f"the text in {field!r} is {_kind(text)}, not a string")
        if not text.strip():
            raise _RowError(f"the text in {field!r} is empty")
        if isinstance(title, str) and title.strip() and field != TITLE_FIELD:
            text = f"{title}\n{text}"
        if len(text) > self._limits.text_chars:
            raise _RowError(
                f"the text has {len(text):,} characters, more than {self._limits.text_chars:,}; split it into documents"
            )
        return text

    def _id(self, value: object, field: str) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise _RowError(f"the id in {field!r} is {_kind(value)}, not a string or number")
        identifier = str(value)
        if not identifier.strip():
            raise _RowError(f"the id in {field!r} is empty")
        if len(identifier) > self._limits.id_chars:
            raise _RowError(
                f"the id in {field!r} has {len(identifier):,} characters, more than {self._limits.id_chars}"
            )
        return identifier

    def _derive_id(self, text: str, metadata: Mapping[str, JSON]) -> str:
        digest = json_hash({"text": text, "metadata": metadata})[:16]
        self._derived[digest] += 1
        return digest if self._derived[digest] == 1 else f"{digest}-{self._derived[digest]}"

    def _claim(self, identifier: str, source: RowSource) -> None:
        first = self._sources.setdefault(identifier, source)
        if first is not source:
            raise _RowError(f"the id {identifier!r} is taken by {first}; ids must differ within one input")


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
        raise _RowError(f"{place!r} holds {_kind(value)}, which is not JSON")


def _check_string(text: str, place: str) -> None:
    if "\0" in text:
        raise _RowError(f"{place!r} holds a NUL character; remove it")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _RowError(f"{place!r} holds half a surrogate pair, which is not text; write it anew") from None


def _seen(values: Mapping[str, object]) -> str:
    names = ", ".join(repr(name) for name in list(values)[:20])
    return f"the row has {names}" if names else "the row is empty"


def _kind(value: object) -> str:
    """Name a value's JSON type, with its article."""
    if value is None:
        return "null"
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "a boolean"),
        ((int, float), "a number"),
        (str, "a string"),
        (list, "a list"),
        (Mapping, "an object"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), f"a value of type {type(value).__name__}")
