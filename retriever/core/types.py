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
class Span:
    """A part of a text: the characters from ``start`` up to ``end``, which is the first behind it."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Part:
    """The place of a document that is a part of another one, such as a sentence of a review.

    Its ``parent`` has that id, it is the part of that ``number``, from 1, and stands at ``span`` in the parent's text.
    """

    parent: str
    number: int
    span: Span


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a corpus.

    >>> document = Document("r-17", "The lid broke.", {"stars": 2})
    >>> document.metadata["stars"], document.parent_id, document.number
    (2, 'r-17', 0)

    Attributes:
        id: unique within the corpus.
        text: what is embedded and searched; a title, where there is one, is its first line.
        metadata: everything else the row held, as JSON values; a part has that of its parent.
        file: that it was read from; empty where it was not. Not compared, nor is ``line``.
        line: in that file, as `BadRow` has it.
        part: its place in its parent; None for a whole document.
    """

    id: str
    text: str
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    file: str = field(default="", compare=False, repr=False, kw_only=True)
    line: int = field(default=0, compare=False, repr=False, kw_only=True)
    part: Part | None = field(default=None, repr=False, kw_only=True)

    @property
    def parent_id(self) -> str:
        """The id of the document that it is a part of; a whole document is its own."""
        return self.id if self.part is None else self.part.parent

    @property
    def number(self) -> int:
        """Which of its parent's parts it is, from 1; 0 for a whole document."""
        return 0 if self.part is None else self.part.number


def child_id(parent: str, number: int) -> str:
    """Return the id of a part of a document: ``r-17#2`` is the second of ``r-17``."""
    return f"{parent}#{number}"


@dataclass(frozen=True, slots=True)
class Encoded:
    """Embeddings (n, dim) of n texts, and for each a list of the words the model answered with, best first."""

    embeddings: Embeddings
    words: list[list[str]]


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
