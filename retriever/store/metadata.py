"""Metadata as SQLite keeps it: JSON text, and the names and paths by which a filter reaches its leaves."""

import json
from collections.abc import Iterator
from functools import lru_cache

from retriever.core.errors import InputError
from retriever.core.fields import MAX_DEPTH, json_text, leaves
from retriever.core.types import Document


def dump(document: Document) -> str:
    """Return the document's metadata as JSON text.

    Raises:
        InputError: a value is no JSON (NaN and infinities included).
    """
    try:
        text = json_text(dict(document.metadata))
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
    """Yield (name, JSON path) for every field of the metadata (`retriever.core.fields`).

    Raises:
        InputError: the metadata nests deeper than `MAX_DEPTH`.
    """
    try:
        for field in leaves(document.metadata):
            yield field.name, _path(field.keys)
    except RecursionError:
        raise InputError(
            f"The metadata of document {document.id!r} nests deeper than {MAX_DEPTH} levels.", hint="Flatten it."
        ) from None


@lru_cache(maxsize=10_000)
def _path(keys: tuple[str, ...]) -> str:
    return "$" + "".join(f".{json_text(key)}" for key in keys)


def _sorted(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)
