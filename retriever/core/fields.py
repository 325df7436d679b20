"""The fields of a document's metadata: one rule for their names, wherever values are stored, filtered or shown."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from retriever.core.text import composed
from retriever.core.types import JSON

MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Field:
    """A value in metadata, of any kind but an object, with its name as filters know it and the keys that lead to it."""

    name: str
    keys: tuple[str, ...]
    value: JSON


def leaves(metadata: Mapping[str, JSON]) -> Iterator[Field]:
    """Yield every field of some metadata in its order; raise `RecursionError` where it nests deeper than `MAX_DEPTH`.

    A name joins nested keys with dots. A key that holds a dot or begins with a double quote stands in double quotes,
    so that no two fields share a name: ``{"a": {"b": 1}}`` has ``a.b`` and ``{"a.b": 1}`` has ``"a.b"``.
    """
    return _leaves(metadata, (), MAX_DEPTH)


def values_by_name(metadata: Mapping[str, JSON]) -> dict[str, JSON]:
    """Flatten metadata: the value of every field under the name that filters know."""
    return {field.name: field.value for field in leaves(metadata)}


def names_of(value: JSON) -> list[str]:
    """Return the names that a value counts under, each once: its own, or those of a list's items; null has none.

    Lists and objects in a list have none either.
    """
    items = value if isinstance(value, list) else [value]
    return list(
        dict.fromkeys(
            composed(str(item)) for item in items if item is not None and not isinstance(item, Mapping | list)
        )
    )


def json_text(value: object) -> str:
    r"""Write a value as JSON in which a quote inside a string is ``\u0022``.

    SQLite ends a quoted path step at the first double quote, even an escaped one, and compares keys as
    they are written.

    Raises:
        TypeError: it is no JSON.
        ValueError: it holds NaN or an infinity.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub(r"\\(.)", _spell_out_quote, text) if "\\" in text else text


def _leaves(node: Mapping[str, JSON], above: tuple[str, ...], depth: int) -> Iterator[Field]:
    if depth == 0:
        raise RecursionError
    for key, value in node.items():
        keys = (*above, str(key))
        if isinstance(value, Mapping):
            yield from _leaves(value, keys, depth - 1)
        else:
            yield Field(".".join(map(_spelled, keys)), keys, value)


@lru_cache(maxsize=10_000)
def _spelled(key: str) -> str:
    return json_text(key) if "." in key or key.startswith('"') else key


def _spell_out_quote(escape: re.Match[str]) -> str:
    return "\\u0022" if escape[1] == '"' else escape[0]
