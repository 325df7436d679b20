"""Values as statements take and give them: ids in lists of a bounded length and back as arrays, and JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from retriever.core.errors import IndexDamagedError
from retriever.core.types import Ids
from retriever.store.connection import REPAIR, Rows

BATCH = 10_000
"""Ids per statement, so that no statement grows with the corpus."""

HASH_BATCH = 500
"""Hashes per statement; they are bound one by one."""


def as_ids(rows: Rows) -> Ids:
    """Return the first column as an array of ids.

    Raises:
        IndexDamagedError: one is no number, which a damaged index of SQLite's can give.
    """
    try:
        return np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
    except (TypeError, ValueError) as error:
        raise IndexDamagedError("The database is damaged: an id is no number.", hint=REPAIR) from error


def content_batches(content_ids: Sequence[int] | Ids) -> Iterator[str]:
    """Yield the distinct ids as JSON lists, in order, for json_each."""
    return _batches(list(dict.fromkeys(np.asarray(content_ids, dtype=np.int64).tolist())))


def id_batches(ids: Iterable[str]) -> Iterator[str]:
    """Yield documents' ids as JSON lists, in order, for json_each."""
    # SQLite's json_each ends a string at NUL, so that "a\0b" would find "a"; no stored id holds one.
    return _batches([id for id in ids if "\0" not in id])


def _batches(ids: Sequence[int] | Sequence[str]) -> Iterator[str]:
    return (json.dumps(ids[start : start + BATCH]) for start in range(0, len(ids), BATCH))


def stored_json(text: str | bytes) -> Any:  # noqa: ANN401 - whatever was stored
    """Return the value of a JSON text.

    Raises:
        IndexDamagedError: it is none, or nests without end.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise IndexDamagedError(f"The index holds JSON that cannot be read: {error}.", hint=REPAIR) from error


def stored_json_list(texts: Iterable[str]) -> list[Any]:
    """Return the values of many JSON texts, parsed in one go; errors as `stored_json`."""
    values: list[Any] = stored_json(f"[{','.join(texts)}]")
    return values
