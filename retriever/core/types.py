"""The values that travel between the layers: frozen, named, without behaviour that needs a model or a database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"

Embeddings: TypeAlias = NDArray[np.float32]
"""Shape (n, dim), each row l2-normalised."""

Ids: TypeAlias = NDArray[np.int64]
"""Content ids, the integers that stand for distinct texts inside one index."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a corpus.

    Attributes:
        id: unique within the corpus.
        text: what is embedded and searched; a title, where there is one, is its first line.
        metadata: everything else the row held, as JSON values.
        file: that it was read from; empty where it was not. Not compared, nor is ``line``.
        line: in that file, as `BadRow` has it.
    """

    id: str
    text: str
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    file: str = field(default="", compare=False, repr=False, kw_only=True)
    line: int = field(default=0, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text: the characters from ``start`` up to ``end``, which is the first behind it."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Unit(Document):
    """A part of a document that is embedded and found by itself, with its parent's metadata.

    Attributes:
        id: of the unit, as `unit_id` makes it.
        text: of the unit alone.
        parent: id of the document.
        number: which of the document's units it is, from 1.
        start: where it begins in the document's text, in characters.
        end: the first character behind it.
    """

    parent: str = ""
    number: int = 1
    start: int = 0
    end: int = 0


def unit_id(parent: str, number: int) -> str:
    """Return the id of a document's unit: ``r-17#2`` is the second of ``r-17``."""
    return f"{parent}#{number}"


def parent_of(unit: str) -> str:
    """Return the id of the document that the unit of an id is of."""
    return unit.rpartition("#")[0]


def parent_id(document: Document) -> str:
    """Return the id of the document that a unit is of; a whole document is its own."""
    return document.parent if isinstance(document, Unit) else document.id


@dataclass(frozen=True, slots=True)
class Encoded:
    """Embeddings of n texts and, for each, the words the model answered with (best first).

    Attributes:
        embeddings: (n, dim).
        words: n lists.
        unread: rows of texts that could not be read; they hold zeros and no words.
        reasons: sentences that say why texts could not be read, each with its number; empty where that is not known.
    """

    embeddings: Embeddings
    words: list[list[str]]
    unread: frozenset[int] = frozenset()
    reasons: str = ""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Result of a vector search.

    Attributes:
        ids: (queries, k) int64, best first; -1 where fewer than k vectors were found.
        scores: (queries, k) float32 cosines; -inf beside an id of -1.
    """

    ids: Ids
    scores: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row of an input that could not become a document; the run goes on without it.

    Attributes:
        file: the file as the user named it.
        line: the row's line in the file, from 1; in Parquet its row number.
        id: the row's id where one could be read.
        reason: what is wrong and what to do, for the user to read.
        raw: the beginning of the row as it stands in the file.
    """

    file: str
    line: int
    id: str | None
    reason: str
    raw: str
