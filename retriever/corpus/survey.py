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
from retriever.corpus.markup import Markup
from retriever.corpus.rows import ReadingOptions, Row

SAMPLE = 1000
"""Rows by which fields are recognised."""

_UNNAMED = re.compile(r"column 1|Unnamed: 0(?:\.\d+)?")
_WHOLE = re.compile(r"-?[0-9]+(?:\.0+)?")
_MANY = 6  # names that are listed in full
_MOST_COLUMNS = 1000  # of rows that are no cells


@dataclass(frozen=True, slots=True)
class Interpretation:
    """How the rows of a file are read.

    Attributes:
        fields: which field holds id and text, those included that were recognised.
        converts: what makes a value of the file's, by the keys that lead to it.
        dropped: columns that are left out.
        markup: what the texts have of HTML.
        notes: statements for the user.
        count: rows that were looked at.
    """

    fields: FieldNames
    converts: Mapping[tuple[str, ...], Convert] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    markup: Markup = field(default_factory=Markup)
    notes: Sequence[str] = ()
    count: int = 0

    def interpreted(self, row: Row) -> Row:
        """Return a row that is no table's with its values converted; tables convert their cells themselves."""
        if row.values is None:
            return row
        values = row.values
        for keys, convert in self.converts.items():
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
    flat, cells = _Flat(names), bool(names)
    values = iter(_sound(rows) if cells else map(flat, _sound(rows)))
    chunks = iter(lambda: list(islice(values, SAMPLE)), [])
    sample = next(chunks, [])
    names = list(flat.paths)
    fields = recognised(names, sample, fields)
    identifier, text, taken = fields.find_id(names), fields.find_text(names), fields.as_text(names)
    keys = {
        name: _Keys(cells, distinct=name == fields.spare_id)
        for name in names
        if name == identifier or (cells and named and _UNNAMED.fullmatch(name))
    }
    columns: dict[str, ColumnSurvey] = {}
    markup, count = Markup(), 0
    for chunk in chain([sample] if sample else [], chunks):
        count += len(chunk)
        for name, key in keys.items():
            key.see([row.get(name) for row in chunk])
        for row in chunk:
            markup.see(row.get(text or ""))
        for name in islice(flat.paths, None if cells else _MOST_COLUMNS):
            if name not in columns and name not in taken:
                role = next(
                    (role for role in ("stars", "date") if name and getattr(options.columns, role, "") == name), ""
                )
                columns[name] = ColumnSurvey(name, cells=cells, quoted=name in quoted, role=role)
            if name in columns and not columns[name].settled:
                columns[name].see([row.get(name) for row in chunk])
    if fields.spare_id in keys and not keys[fields.spare_id].unique:
        fields = replace(fields, spare_id="")
    return replace(_interpretation(flat.paths, list(columns.values()), fields, keys, markup), count=count)


def _sound(rows: Iterable[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield rows up to where their file is damaged, which reading it again reports."""
    with suppress(InputError, EOFError, OSError, zlib.error):
        yield from rows


def recognised(names: Sequence[str], sample: Sequence[Mapping[str, object]], fields: FieldNames) -> FieldNames:
    """Return the fields, with id and text by their wider names and values where none has a usual name."""
    columns = recognise(sample) if sample else Columns()
    text = "" if fields.find_text(names) or fields.text or '"' in columns.text else columns.text
    wide = is_named(columns.id, "id") and columns.id != text and '"' not in columns.id
    identifier = "" if fields.find_id(names) or fields.id or not wide else columns.id
    return replace(fields, spare_id=identifier, spare_text=text)


def _interpretation(
    paths: Mapping[str, tuple[str, ...]],
    columns: Sequence[ColumnSurvey],
    fields: FieldNames,
    keys: Mapping[str, "_Keys"],
    markup: Markup,
) -> Interpretation:
    """Return what the columns seen amount to."""
    settle_orders(columns)
    identifier = fields.find_id(paths)
    dropped = frozenset(name for name, key in keys.items() if key.counts and name != identifier)
    kinds = {column.name: column.kind() for column in columns if column.name not in dropped}
    converts = {name: kind.convert for name, kind in kinds.items() if kind.convert}
    notes = [_fields_note(list(paths), fields), *(kind.note for kind in kinds.values())]
    missing = {column.name: column.missing for column in columns if column.missing and column.name in converts}
    if missing:
        words = ", ".join(f"'{word}'" for word in dict.fromkeys(chain(*missing.values())))
        notes.append(f"{words} in {_listed(list(missing))} read as missing")
    if numbers := [name for name, kind in kinds.items() if kind.convert is number]:
        notes.append(f"{_listed(numbers)} read as {'numbers' if len(numbers) > 1 else 'a number'}")
    if dropped:
        notes.append(f"the row numbers in {_listed(sorted(dropped))} left out")
    if identifier and identifier in keys and keys[identifier].floats:
        converts[identifier] = _without_decimals
        notes.append("ids that are whole numbers, as 1.0, read as 1")
    by_keys = {paths[name]: convert for name, convert in converts.items()}
    return Interpretation(fields, by_keys, dropped, markup, list(filter(None, notes)))


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
        self.unique = distinct
        self._whole, self._decimals = True, False
        self._rows = 0
        self._starts = [0, 1]  # of the numbers of rows
        self._hashes: set[int] = set()

    @property
    def counts(self) -> bool:
        """Whether they are the numbers of the rows."""
        return bool(self._starts)

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
            self._decimals |= any("." in text for text in texts) if self._cells else float in map(type, values)
        numbers = range(self._rows, self._rows + len(texts))
        self._starts = [start for start in self._starts if texts == [str(start + number) for number in numbers]]
        self._rows += len(texts)


class _Flat:
    """Gives the values of a row by the names of its fields, and remembers which keys lead to a name."""

    def __init__(self, names: Iterable[str]) -> None:
        self.paths: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
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
