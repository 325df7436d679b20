"""Windows of long texts: their vectors, which stand behind the text's own in its row, and their ids in vector indexes.

A text's own vector has the text's id in a vector index. The id of a window lies above `FIRST` and holds the text's id
and the window's number, so that both can be had from an array of ids, and ids ascend with texts and then with windows.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retriever.core.errors import IndexDamagedError
from retriever.core.types import Embeddings, Ids, Span
from retriever.store.connection import REPAIR

FIRST = 1 << 62
"""Ids from here on are of windows."""

MOST = 1 << 20
"""Windows of a text, at most."""

_NUMBER_BITS = 20


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of one text.

    Attributes:
        spans: m places in the text, in order.
        embeddings: (m, dim) their vectors.
    """

    spans: Sequence[Span]
    embeddings: Embeddings

    def __post_init__(self) -> None:
        """Raise ValueError where there are not as many vectors as places, or where a place is none."""
        if len(self.spans) != len(self.embeddings) or not all(map(_is_place, self.spans)):
            raise ValueError(f"{len(self.embeddings)} vectors come with windows at {list(self.spans)[:3]}")


def window_ids(content_id: int, count: int) -> Ids:
    """Return the ids (count,) of the windows of a text."""
    return np.arange(count, dtype=np.int64) + (FIRST + (content_id << _NUMBER_BITS))


def texts_of(ids: Ids) -> Ids:
    """Return the text that each id of a vector index (any shape) is of, or of a window of; -1 stays."""
    return np.asarray(np.where(ids >= FIRST, (ids - FIRST) >> _NUMBER_BITS, ids))


def own_ids(ids: Ids) -> Ids:
    """Return those of some ids (n,), ascending, that are of texts and not of windows."""
    return ids[: int(np.searchsorted(ids, FIRST))]


def windows_among(ids: Ids, texts: Ids) -> Ids:
    """Return those of some ids (n,), ascending, that are of windows of some texts (m,), in m log n steps."""
    windows = ids[len(own_ids(ids)) :]
    if not len(windows):
        return windows
    starts = FIRST + (texts << _NUMBER_BITS)
    first, behind = np.searchsorted(windows, starts), np.searchsorted(windows, starts + MOST)
    counts = behind - first
    places = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
    chosen: Ids = windows[places]
    return chosen


@dataclass(frozen=True, slots=True)
class IndexedVectors:
    """The rows of a vector index: (n,) ids and (n, dim) rows."""

    ids: Ids
    rows: Embeddings


def spans_as_json(spans: Sequence[Span]) -> str:
    """Return places in a text as they are stored."""
    return json.dumps([[span.start, span.end] for span in spans], separators=(",", ":"))


def spans_of_json(text: str) -> list[Span]:
    """Return places in a text as `spans_as_json` wrote them.

    Raises:
        IndexDamagedError: it wrote no such text.
    """
    try:
        spans = [Span(start, end) for start, end in json.loads(text)]
    except (ValueError, TypeError, RecursionError):
        spans = []
    if not spans or not all(map(_is_place, spans)):
        raise IndexDamagedError(f"The database is damaged: windows are at {text[:40]!r}.", hint=REPAIR)
    return spans


def _is_place(span: Span) -> bool:
    """Return whether a place in a text can be one."""
    return type(span.start) is int and type(span.end) is int and 0 <= span.start < span.end
