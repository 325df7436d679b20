"""Rows of the files beside a corpus: answers, examples, categories, pairs, data of suites.

They have any format of a corpus, and the names of their fields count in any case. Values stay as the file has them. A
bad row is an error, since what such a file says is taken whole or not at all.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from retriever.core.errors import InputError
from retriever.corpus.encodings import EncodingError
from retriever.corpus.fields import FieldNames
from retriever.corpus.readers import read_fields
from retriever.corpus.rows import ReadingOptions


@dataclass(frozen=True, slots=True)
class BesideRow:
    """One row.

    Attributes:
        file: as the user named it.
        line: its line in the file, from 1; in Parquet its row number.
        values: its fields, their names in lower case.
        of_table: whether a field that is null or missing is an empty cell.
    """

    file: str
    line: int
    values: Mapping[str, object]
    of_table: bool = False

    @property
    def place(self) -> str:
        """File and line, for messages."""
        return f"{self.file}, line {self.line}"


def read_beside(
    file: str | Path, *, needed: Collection[str] = (), hint: str = "Correct or remove the row."
) -> list[BesideRow]:
    """Return all rows of a file, or of JSON on standard input for ``-``.

    Args:
        file: in any format that `retriever.corpus.readers.read_fields` takes.
        needed: names that a row at least must have.
        hint: the next step where a row cannot be read.

    Raises:
        InputError: the file cannot be read, holds no rows or lacks a name, or a row is bad; file and line are named.
    """
    rows = []
    try:
        for row in read_fields(file, FieldNames(text_needed=False), options=ReadingOptions(raw=True)):
            if row.values is None:
                raise InputError(f"{file}, line {row.line}: {row.problem}.", hint=hint)
            rows.append(BesideRow(str(file), row.line, lower_names(row.values), row.sparse))
    except EncodingError as error:
        raise InputError(error.message, hint="Save it as UTF-8.") from error
    names = {name: None for row in rows for name in row.values}
    if missing := next((name for name in needed if name not in names), None):
        fields = ", ".join(map(repr, names)) or "none"
        raise InputError(f"{file} has no field {missing!r}.", hint=f"It has {fields}.")
    return rows


def lower_names(values: Mapping[str, object]) -> dict[str, object]:
    """Return fields by their names in lower case without blanks around; of two alike, the one that is so already."""
    lowered = {name.strip().casefold(): value for name, value in values.items()}
    return lowered | {name: value for name, value in values.items() if name in lowered}


def number_as_text(value: object) -> object:
    """Return a number as people write it, 7 for the 7.0 of a spreadsheet; any other value as it is."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
