"""The first pass over a file: which field holds what, of which kind every column is, and what is said of it."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import cast

from retriever.core.fields import leaves
from retriever.core.types import JSON
from retriever.corpus.fields import ID_FIELDS, TEXT_FIELDS, Columns, FieldNames, changed, is_named, recognise, value_at
from retriever.corpus.kinds import ColumnSurvey, Convert, number, settle_orders
from retriever.corpus.markup import NO_MARKUP, Markup, MarkupSurvey
from retriever.corpus.rows import Item, ReadingOptions, Row

SAMPLE = 1000
"""Rows by which fields are recognised."""

_UNNAMED = re.compile(r"column 1|Unnamed: 0(?:\.\d+)?")
_WHOLE = re.compile(r"-?[0-9]+(?:\.0+)?")
WHOLE_IDS = "ids that are whole numbers, as 1.0, read as 1"
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


def survey_cells(
    names: Sequence[str],
    records: Iterable[Sequence[str]],
    fields: FieldNames,
    options: ReadingOptions,
    quoted: Callable[[], Collection[str]],
    *,
    named: bool = True,
) -> Interpretation:
    """Look at all records of a table.

    Args:
        names: of its columns.
        records: their cells, as many as there are columns.
        fields: as the user named them.
        options: columns that a person corrected.
        quoted: gives the columns whose numbers the file marks as texts, when all records were seen.
        named: whether the table has a header, in which a column that only counts the rows has no name.
    """
    chunks = _chunks(records, SAMPLE)
    first = next(chunks, [])
    sample = [dict(zip(names, (cell or None for cell in record), strict=True)) for record in first]
    fields = recognised(names, sample, fields)
    columns = {name: ColumnSurvey(name, cells=True, role=_role(name, options)) for name in names}
    keys = {
        name: _Keys(distinct=name == fields.spare_id)
        for name in names
        if name == fields.find_id(names) or (named and _UNNAMED.fullmatch(name))
    }
    as_text, markup = fields.as_text(names), MarkupSurvey()
    text = fields.find_text(names)
    for chunk in chain([first] if first else [], chunks):
        for name, cells in zip(names, zip(*chunk, strict=True), strict=True):
            if name in keys:
                keys[name].see(cells)
            if name == text:
                for cell in cells:
                    markup.see(cell)
            if name not in as_text:
                columns[name].see(cells)
    fields = _without_repeated_id(fields, keys)
    for name in quoted():
        columns[name].quoted = True
    columns_left = [columns[name] for name in names if name not in as_text]
    return replace(_interpretation(names, columns_left, fields, keys), markup=markup.markup())


def survey_rows(rows: Iterable[Mapping[str, object]], fields: FieldNames, options: ReadingOptions) -> Interpretation:
    """Look at all rows, whose values have types already; fields are recognised by the first ones."""
    rows, flat = iter(rows), _Flat()
    first = list(islice(rows, SAMPLE))
    sample = [flat(row) for row in first]
    names = list(flat.paths)
    fields = recognised(names, sample, fields)
    identifier, taken = fields.find_id(names), fields.as_text(names)
    whole = any(isinstance(value := row.get(identifier or ""), float) and value.is_integer() for row in sample)
    columns: dict[str, ColumnSurvey] = {}
    key, markup = _Keys(distinct=bool(fields.spare_id)), MarkupSurvey()
    for chunk in chain([first] if first else [], _chunks(rows, SAMPLE)):
        for row in chunk:
            markup.see(fields.text_of(row))
        flattened = [flat(row) for row in chunk]
        if key.unique:
            key.see([row.get(fields.spare_id) for row in flattened])
        for name in islice(flat.paths, _MOST_COLUMNS):
            if name not in columns and name not in taken:
                columns[name] = ColumnSurvey(name, cells=False, role=_role(name, options))
            if name in columns and not columns[name].settled:
                columns[name].see([row.get(name) for row in flattened])
        first, sample = [], []  # which hold as much memory as a chunk
    fields = _without_repeated_id(fields, {fields.spare_id: key})
    interpretation = _interpretation(names, list(columns.values()), fields, {})
    notes = [*interpretation.notes, *([WHOLE_IDS] if whole and identifier == fields.find_id(names) else [])]
    paths_to = {flat.paths[name]: convert for name, convert in interpretation.converts.items()}
    return replace(interpretation, converts={}, paths=paths_to, notes=notes, markup=markup.markup())


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
        notes.append(WHOLE_IDS)
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
        distinct: whether to find out if the values are.
    """

    def __init__(self, *, distinct: bool) -> None:
        self.unique, self.counts = distinct, True
        self._whole, self._decimals = True, False
        self._rows = 0
        self._start: int | None = None
        self._hashes: set[int] = set()

    @property
    def floats(self) -> bool:
        """Whether all are whole numbers, some of them written as 1.0."""
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
            self._decimals |= any("." in text for text in texts)
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
