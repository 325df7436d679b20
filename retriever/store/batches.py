"""Ids as statements take and give them: in lists of a bounded length, and back as arrays."""

import json
from collections.abc import Iterator, Sequence

import numpy as np

from retriever.core.errors import IndexDamagedError
from retriever.core.types import Ids
from retriever.store.checksums import REPAIR
from retriever.store.connection import Rows

BATCH = 10_000
"""Ids per statement, so that no statement grows with the corpus."""


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
    ids = list(dict.fromkeys(np.asarray(content_ids, dtype=np.int64).tolist()))
    for start in range(0, len(ids), BATCH):
        yield json.dumps(ids[start : start + BATCH])


def id_batches(ids: Sequence[str]) -> Iterator[str]:
    """Yield documents' ids as JSON lists, in order, for json_each."""
    # SQLite's json_each ends a string at NUL, so that "a\0b" would find "a"; no stored id holds one.
    known = [id for id in ids if "\0" not in id]
    for start in range(0, len(known), BATCH):
        yield json.dumps(known[start : start + BATCH])
