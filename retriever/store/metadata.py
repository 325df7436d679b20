"""Metadata as SQLite keeps it: JSON text, and the names and paths by which a filter reaches its leaves."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from retriever.core.errors import InputError
from retriever.core.types import JSON, Document

MAX_DEPTH = 32


def dump(document: Document) -> str:
    """Return the document's metadata as JSON text.

    Raises:
        InputError: a value is no JSON (NaN and infinities included).
    """
    try:
        text = _encode(dict(document.metadata))
        text.encode()  # a lone surrogate is no text
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"The metadata of document {document.id!r} is not JSON: {error}.",
            hint="Use strings, finite numbers, true, false, null, lists and objects only.",
        ) from error
    return text


def same(old: str, new: str) -> bool:
    """Whether two metadata texts hold the same values; the order of keys does not matter."""
    return old == new or _sorted(old) == _sorted(new)


def fields(document: Document) -> Iterator[tuple[str, str]]:
    """Yield (name, JSON path) for every leaf of the metadata; lists are leaves.

    A name joins nested keys with dots. A key that holds a dot or begins with a double quote stands in double quotes,
    so that no two paths share a name: ``{"a": {"b": 1}}`` has ``a.b`` and ``{"a.b": 1}`` has ``"a.b"``.

    Raises:
        InputError: the metadata nests deeper than `MAX_DEPTH`.
    """
    try:
        yield from _leaves(document.metadata, "", "$", MAX_DEPTH)
    except RecursionError:
        raise InputError(
            f"The metadata of document {document.id!r} nests deeper than {MAX_DEPTH} levels.", hint="Flatten it."
        ) from None


def _leaves(node: Mapping[str, JSON], prefix: str, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth == 0:
        raise RecursionError
    for key, value in node.items():
        name, step = _spelling(str(key))
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.", path + step, depth - 1)
        else:
            yield prefix + name, path + step


def keys_of(path: str) -> list[str]:
    """Return the keys that a JSON path of `fields` leads through."""
    return [json.loads(step) for step in re.findall(r'"[^"]*"', path)]


@lru_cache(maxsize=10_000)
def _spelling(key: str) -> tuple[str, str]:
    """Return a key's part of a field name and of a JSON path."""
    encoded = _encode(key)
    return (encoded if "." in key or key.startswith('"') else key), f".{encoded}"


def _encode(value: object) -> str:
    # SQLite ends a quoted path step at the first double quote, even an escaped one, and compares keys as they are
    # written: so a quote inside a string is written \u0022, here and in paths alike.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub(r"\\(.)", _spell_out_quote, text) if "\\" in text else text


def _spell_out_quote(escape: re.Match[str]) -> str:
    return "\\u0022" if escape[1] == '"' else escape[0]


def _sorted(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)
