"""Labelled rows of a data folder, checked as they are read: an error names file and row."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from retriever.core.errors import InputError
from retriever.core.types import Document
from retriever.corpus.beside import read_beside

Split: TypeAlias = Literal["train", "dev", "test"]


def split_of(name: str) -> Split:
    """Return the split of a text, or of the story or document it is from.

    SHA-256 of the name in lower case with single spaces, the first 8 hex digits modulo 10: 8 is dev, 9 is test, the
    rest train.
    """
    digest = hashlib.sha256(" ".join(name.lower().split()).encode()).hexdigest()
    bucket = int(digest[:8], 16) % 10
    return "test" if bucket == 9 else "dev" if bucket == 8 else "train"


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """One row of a data file, which is called as the user named it; lines count from 1."""

    file: str
    line: int
    values: Mapping[str, Any]

    def get(self, key: str, kind: type) -> Any:  # noqa: ANN401 - `kind` says what it is
        """Return the value under a key such as ``labels.category``, which must be there and of a kind.

        Raises:
            InputError: it is missing, of another kind, or an empty string; file, row and key are named.
        """
        value: Any = self.values
        first, *inner = key.split(".")
        for part in (first.casefold(), *inner):  # as `read_rows` names the fields of a row
            if not isinstance(value, Mapping) or part not in value:
                raise self.problem(f"{key!r} is missing")
            value = value[part]
        wanted: tuple[type, ...] = (int, float) if kind is float else (kind,)
        if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
            raise self.problem(f"{key!r} is not {_KINDS.get(kind, kind.__name__)}")
        if isinstance(value, str) and not value.strip():
            raise self.problem(f"{key!r} is empty")
        return value

    @property
    def split(self) -> str:
        """The split the row names, else the one its text falls into (`split_of`)."""
        return str(self.values.get("split") or split_of(self.get("text", str)))

    def relevant(self, known: Collection[str], corpus: str) -> list[str]:
        """Return the ids of the documents of a corpus that the row says are relevant.

        Raises:
            InputError: there is none, or one is not known.
        """
        named: list[str] = self.get("relevant", list)
        if not named:
            raise self.problem("'relevant' is empty")
        if unknown := [name for name in named if not isinstance(name, str) or name not in known]:
            raise self.problem(f"'relevant' names {unknown[0]!r}, which {corpus} lacks")
        return named

    def problem(self, what: str) -> InputError:
        """Return the error to raise when this row cannot be used."""
        return InputError(f"{self.file}, row {self.line}: {what}.", hint="Correct or remove the row.")


def read_rows(folder: Path, name: str) -> list[LabelledRow]:
    """Return all rows of one file.

    Raises:
        InputError: the file is missing or empty, or a row is not a JSON object.
    """
    path = folder / name
    if not path.is_file():
        raise InputError(f"There is no file {path}.", hint="--data names the folder with the suite's files.")
    return [LabelledRow(row.file, row.line, row.values) for row in read_beside(path)]


def documents_of(rows: Sequence[LabelledRow]) -> list[Document]:
    """Return the documents of rows with ``id`` and ``text``, in their order.

    Raises:
        InputError: a row lacks a key, or two have one id.
    """
    documents: dict[str, Document] = {}
    for row in rows:
        document = Document(row.get("id", str), row.get("text", str))
        if documents.setdefault(document.id, document) is not document:
            raise row.problem(f"the id {document.id!r} is there twice")
    return list(documents.values())


def held_out(rows: Sequence[LabelledRow]) -> list[LabelledRow]:
    """Return the test rows of a file whose other rows may be trained on.

    Raises:
        InputError: no row is a test row.
    """
    chosen = [row for row in rows if row.split == "test"]
    if not chosen:
        raise InputError(
            f"{rows[0].file} has no row of the test split.",
            hint='The task scores held-out rows alone; give rows a "split": "test".',
        )
    return chosen


def sample(rows: Sequence[Any], limit: int | None, *, seed: int) -> list[Any]:
    """Return at most ``limit`` rows, the same ones for a seed whatever runs before or after, in file order.

    A smaller limit gives a subset of what a larger one gives.
    """
    if limit is None or limit >= len(rows):
        return list(rows)
    keys = [hashlib.sha256(f"{seed}:{position}".encode()).digest() for position in range(len(rows))]
    chosen = sorted(range(len(rows)), key=keys.__getitem__)[:limit]
    return [rows[position] for position in sorted(chosen)]


_KINDS: dict[type, str] = {str: "a string", float: "a number", int: "a whole number", list: "a list", dict: "an object"}
