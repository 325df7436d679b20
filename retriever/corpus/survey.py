"""The first pass over a file: which field holds what, of which kind every column is, and what is said of it."""

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import cast

from retriever.core.errors import InputError
from retriever.core.fields import leaves
from retriever.core.types import JSON
from retriever.corpus.fields import ID_FIELDS, TEXT_FIELDS, Columns, FieldNames, changed, is_named, recognise, value_at
from retriever.corpus.kinds import ColumnSurvey, Convert, number, settle_orders
from retriever.corpus.markup import NO_MARKUP, Markup, MarkupSurvey
from retriever.corpus.rows import Item, ReadingOptions, Row

DAMAGE = (InputError, EOFError, OSError, zlib.error)
"""Errors of a file that is damaged further down."""

SAMPLE = 1000
"""Rows by which fields are recognised."""

_UNNAMED = re.compile(r"column 1|Unnamed: 0(?:\.\d+)?")
_WHOLE = re.compile(r"-?[0-9]+(?:\.0+)?")
_WHOLE_IDS = "ids that are whole numbers, as 1.0, read as 1"
_MANY = 6  # names that are listed in full
_MOST_COLUMNS = 1000  # of rows that are no cells


@dataclass(frozen=True, slots=True)
class Interpretation:
    """How the rows of a file are read.

    Attributes:
        fields: which field holds id and text, those included that were recognised.
        converts: what makes a value of the file's, by field.
        paths: what makes a value of the file's, by the keys that lead to it; for rows that are no cells.
        dropped: columns that are left out.
        markup: what the texts have of HTML.
        notes: statements for the user.
    """

    fields: FieldNames
    converts: Mapping[str, Convert] = field(default_factory=dict)
    paths: Mapping[tuple[str, ...], Convert] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    markup: Markup = NO_MARKUP
    notes: Sequence[str] = ()

    def interpreted(self, row: Row) -> Row:
        """Return a row whose values are converted where `paths` says so."""
        if row.values is None:
            return row
        values = row.values
        for keys, convert in self.paths.items():
            value = value_at(values, keys)
            if isinstance(value, str | int | float) and (plain := convert(value)) is not value:
                values = changed(values, keys, plain)
        return row if values is row.values else replace(row, values=values)


def survey(
    rows: Iterable[Mapping[str, object]],
    fields: FieldNames,
    options: ReadingOptions,
    *,
    names: Sequence[str] = (),
    named: bool = True,
    quoted: Collection[str] = (),
) -> Interpretation:
    """Look at all rows of a file; fields are recognised by the first ones. Damage ends the rows.

    Args:
        rows: values by the names of their fields.
        fields: as the user named them.
        options: columns that a person corrected.
        names: of the columns of a table, whose values are texts; empty for rows whose values have types.
        named: whether a table has a header, in which a column that only counts the rows has no name.
        quoted: columns whose numbers the file marks as texts.
    """
    flat, cells = _Flat(), bool(names)
    chunks = _chunks(sound(rows) if cells else map(flat, sound(rows)), SAMPLE)
    sample = next(chunks, [])
    names = names or list(flat.paths)
    fields = recognised(names, sample, fields)
    identifier, text, taken = fields.find_id(names), fields.find_text(names), fields.as_text(names)
    keys = {
        name: _Keys(cells, distinct=name == fields.spare_id)
        for name in names
        if name == identifier or (cells and named and _UNNAMED.fullmatch(name))
    }
    columns: dict[str, ColumnSurvey] = {}
    markup = MarkupSurvey()
    for chunk in chain([sample] if sample else [], chunks):
        for name, key in keys.items():
            key.see([row.get(name) for row in chunk])
        for row in chunk:
            markup.see(row.get(text or ""))
        for name in names if cells else islice(flat.paths, _MOST_COLUMNS):
            if name not in columns and name not in taken:
                columns[name] = ColumnSurvey(name, cells=cells, quoted=name in quoted, role=_role(name, options))
            if name in columns and not columns[name].settled:
                columns[name].see([row.get(name) for row in chunk])
    fields = _without_repeated_id(fields, keys)
    seen = _interpretation(list(names if cells else flat.paths), list(columns.values()), fields, keys)
    if cells:
        return replace(seen, markup=markup.markup())
    paths = {flat.paths[name]: convert for name, convert in seen.converts.items()}
    return replace(seen, converts={}, paths=paths, markup=markup.markup())


def sound(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items up to where their file is damaged, which reading the rows reports."""
    with suppress(*DAMAGE):
        yield from items


def recognised(names: Sequence[str], sample: Sequence[Mapping[str, object]], fields: FieldNames) -> FieldNames:
    """Return the fields, with id and text by their wider names and values where none has a usual name."""
    columns = recognise(sample) if sample else Columns()
    text = "" if fields.find_text(names) or fields.text or '"' in columns.text else columns.text
    wide = is_named(columns.id, "id") and columns.id != text and '"' not in columns.id
    identifier = "" if fields.find_id(names) or fields.id or not wide else columns.id
    return replace(fields, spare_id=identifier, spare_text=text)


def _without_repeated_id(fields: FieldNames, keys: Mapping[str, "_Keys"]) -> FieldNames:
    """Return the fields without a recognised id that some rows share or lack."""
    key = keys.get(fields.spare_id)
    return replace(fields, spare_id="") if key is not None and not key.unique else fields


def _interpretation(
    names: Sequence[str], columns: Sequence[ColumnSurvey], fields: FieldNames, keys: Mapping[str, "_Keys"]
) -> Interpretation:
    """Return what the columns seen amount to."""
    settle_orders(columns)
    identifier = fields.find_id(names)
    dropped = frozenset(name for name, key in keys.items() if key.counts and name != identifier)
    kinds = {column.name: column.kind() for column in columns if column.name not in dropped}
    converts = {name: kind.convert for name, kind in kinds.items() if kind.convert}
    notes = [_fields_note(names, fields), *(kind.note for kind in kinds.values())]
    converted = [column for column in columns if column.missing and column.name in converts]
    if words := list(dict.fromkeys(word for column in converted for word in column.missing)):
        quoted = ", ".join(f"'{word}'" for word in words)
        notes.append(f"{quoted} in {_listed([column.name for column in converted])} read as missing")
    if numbers := [name for name, kind in kinds.items() if kind.convert is number]:
        notes.append(f"{_listed(numbers)} read as {'numbers' if len(numbers) > 1 else 'a number'}")
    if dropped:
        notes.append(f"the row numbers in {_listed(sorted(dropped))} left out")
    if identifier and identifier in keys and keys[identifier].floats:
        converts[identifier] = _without_decimals
        notes.append(_WHOLE_IDS)
    return Interpretation(fields, converts, dropped=dropped, notes=[note for note in notes if note])


def _fields_note(names: Sequence[str], fields: FieldNames) -> str:
    """Say which fields hold id and text, where that is not as usual."""
    identifier, text = fields.find_id(names), fields.find_text(names)
    parts = [f"id from {identifier!r}"] if identifier and not fields.id and identifier not in ID_FIELDS else []
    if text and not fields.text and text not in TEXT_FIELDS:
        parts.append(f"text from {text!r}")
    if identifier is None and not fields.id:
        parts.append("ids made from the rows")
    return ", ".join(parts)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_MANY]))
    return shown if len(names) <= _MANY else f"{shown} and {len(names) - _MANY} more"


def _without_decimals(value: object) -> object:
    return str(value).strip().partition(".")[0]


class _Keys:
    """Sees whether the values of a column are distinct, whole, or only the numbers of the rows.

    Args:
        cells: whether all values are texts.
        distinct: whether to find out if the values are.
    """

    def __init__(self, cells: bool, *, distinct: bool) -> None:
        self._cells = cells
        self.unique, self.counts = distinct, True
        self._whole, self._decimals = True, False
        self._rows = 0
        self._start: int | None = None
        self._hashes: set[int] = set()

    @property
    def floats(self) -> bool:
        """Whether all are whole numbers, some of them as 1.0."""
        return self._whole and self._decimals

    def see(self, values: Sequence[object]) -> None:
        """See the next values, at least one."""
        texts = ["" if value is None else str(value).strip() for value in values]
        if self.unique:
            self._hashes.update(map(hash, filter(None, texts)))
            self.unique = "" not in texts and len(self._hashes) == self._rows + len(texts)
            if not self.unique:
                self._hashes = set()
        if self._whole:
            self._whole = all(not text or _WHOLE.fullmatch(text) for text in texts)
            self._decimals |= any(
                "." in text if self._cells else isinstance(value, float)
                for text, value in zip(texts, values, strict=True)
            )
        if self.counts:
            if self._start is None:
                self._start = 1 if texts[0].startswith("1") else 0
            begin = self._start + self._rows
            self.counts = texts == list(map(str, range(begin, begin + len(texts))))
        self._rows += len(texts)


def _role(name: str, options: ReadingOptions) -> str:
    columns = options.columns
    return next((role for role in ("stars", "date") if columns and name and getattr(columns, role) == name), "")


class _Flat:
    """Gives the values of a row by the names of their fields, and remembers which keys lead to a name."""

    def __init__(self) -> None:
        self.paths: dict[str, tuple[str, ...]] = {}
        self._plain: set[str] = set()  # names that are keys of a row themselves

    def __call__(self, row: Mapping[str, object]) -> Mapping[str, object]:
        if row.keys() <= self._plain and not any(isinstance(value, dict) for value in row.values()):
            return row
        flat: dict[str, object] = {}
        try:
            for leaf in leaves(cast("Mapping[str, JSON]", row)):
                flat[leaf.name] = leaf.value
                if leaf.name not in self.paths:
                    self.paths[leaf.name] = leaf.keys
                    self._plain.update([leaf.name] if leaf.keys == (leaf.name,) else [])
        except RecursionError:  # a bad row
            return {}
        return flat


def _chunks(records: Iterable[Item], size: int) -> Iterator[list[Item]]:
    records = iter(records)
    while chunk := list(islice(records, size)):
        yield chunk
