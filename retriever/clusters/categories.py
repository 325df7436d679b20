"""Categories that somebody names beforehand: "refund, repair, replacement, nothing", or a file of them."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retriever.core.errors import InputError, UsageError
from retriever.core.files import read_lines, read_text
from retriever.core.text import require_text
from retriever.corpus.beside import BesideRow, lower_names, number_as_text, read_beside

MOST = 200
"""Categories of one classification at most: more are no longer read through by anybody."""

_HINT = (
    'Each is a name, or an object such as {"name": "refund", "description": "wants money back", "examples": ["r1"]}.'
)
_LINES = (".jsonl", ".ndjson", ".txt")
_FILES = (*_LINES, ".json", ".csv", ".tsv", ".parquet", ".xlsx", ".xlsm", ".xls", ".xlsb", ".ods", ".gz", ".zip")
_KEYS = {"name", "description", "examples"}


@dataclass(frozen=True, slots=True)
class Category:
    """A category.

    Attributes:
        name: what it is called, and what it is recognised by.
        description: what belongs to it, in plain words; empty where the name says it.
        examples: ids of documents that belong to it.
    """

    name: str
    description: str = ""
    examples: tuple[str, ...] = ()


def as_categories(given: Iterable[str | Category]) -> list[Category]:
    """Return categories given as such or by their names."""
    return [category if isinstance(category, Category) else Category(" ".join(category.split())) for category in given]


def checked(categories: Iterable[Category]) -> list[Category]:
    """Return categories that can be told apart.

    Raises:
        UsageError: there are fewer than two or too many, or two have one name.
    """
    given = list(categories)
    if not 2 <= len(given) <= MOST:
        number = "is 1 category" if len(given) == 1 else f"are {len(given)} categories"
        raise UsageError(f"There {number}.", hint=f"Give 2 to {MOST}, such as refund, repair, nothing.")
    seen: set[str] = set()
    for entry in given:
        require_text(entry.name, entry.description, *entry.examples)
        if entry.name.casefold() in seen:
            raise UsageError(
                f"The category {entry.name!r} is there twice.", hint="Give every category a name of its own."
            )
        seen.add(entry.name.casefold())
    return given


def read_categories(*into: str) -> list[Category]:
    """Return the categories that options name: each a list with commas, or a file.

    A file has rows of ``name`` and perhaps ``description`` and ``examples``, in any format of a corpus; or names alone,
    one a line (.txt) or as strings of JSON.

    Raises:
        InputError: a file cannot be read, or holds something else; file and line are named.
        UsageError: they cannot be told apart, or one has no name.
    """
    return checked(category for given in into for category in _named(given))


def _named(given: str) -> list[Category]:
    path = Path(given)
    if path.suffix.lower() in _FILES:
        return _of_file(path)
    names = [" ".join(name.split()) for name in given.split(",")]
    if not all(names):
        raise UsageError("A category has no name.", hint='Write them as "refund, repair, replacement".')
    return [Category(name) for name in names]


def category(value: object, where: str = "") -> Category:
    """Return the category that a JSON value says.

    Args:
        value: a name, or an object with ``name`` and perhaps ``description`` and ``examples``.
        where: it stands, for the error.

    Raises:
        InputError: it says none.
    """
    given: dict[str, Any] = {"name": value} if isinstance(value, str) else value if isinstance(value, dict) else {}
    name, description, examples = (
        given.get(key, rest) for key, rest in (("name", ""), ("description", ""), ("examples", []))
    )
    said = isinstance(name, str) and isinstance(description, str) and isinstance(examples, list)
    if not said or not name.strip() or not all(isinstance(text, str) for text in examples) or given.keys() - _KEYS:
        raise InputError(f"{where}{': ' * bool(where)}this is no category: {str(value)[:80]!r}.", hint=_HINT)
    return Category(" ".join(name.split()), " ".join(description.split()), tuple(examples))


def _of_file(path: Path) -> list[Category]:
    suffix = path.suffix.lower()
    if suffix == ".json":
        value = _parsed(read_text(path), str(path))
        if not isinstance(value, list):
            raise InputError(f"{path} holds no list of categories.", hint=_HINT)
        return [_of_json(entry, f"{path}, category {number}") for number, entry in enumerate(value, start=1)]
    if suffix in _LINES:
        lines = [(f"{path}, line {number}", line) for number, line in enumerate(read_lines(path), 1) if line.strip()]
        return [category(line) if suffix == ".txt" else _of_json(_parsed(line, place), place) for place, line in lines]
    return [_of_table(row) for row in read_beside(path, needed=("name",))]


def _of_json(value: object, place: str) -> Category:
    return category(lower_names(value) if isinstance(value, dict) else value, place)


def _of_table(row: BesideRow) -> Category:
    """Return the category of a row, in whose cell of examples commas or semicolons stand between ids."""
    values = {name: number_as_text(value) for name, value in row.values.items() if value is not None}
    examples = values.get("examples")
    if isinstance(examples, str):
        values["examples"] = list(filter(None, map(str.strip, re.split("[,;]", examples))))
    return category(values, row.place)


def _parsed(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: this is no JSON: {error}.", hint=_HINT) from error
