"""The interface of a source: what the vectors of one view come from."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from retriever.core.protocols import Encoder
from retriever.core.results import Lessons
from retriever.core.types import JSON, Embeddings, Ids
from retriever.store.sources import StoredSource
from retriever.store.vectors import StoredVectors
from retriever.store.views import ViewKey

if TYPE_CHECKING:
    from retriever.index.sources.catalog import Sources
    from retriever.index.sources.making import Making

Stored = Callable[["Source", Ids], StoredVectors]
"""Gives the stored vectors of a source's view: those that exist among some contents."""

Held = Callable[["Source"], Ids]
"""Gives the contents that a source's view has vectors of, ascending."""


@dataclass(frozen=True, slots=True)
class State:
    """What a source is opened with again: JSON, and its numbers as the source wrote them."""

    document: Mapping[str, Any]
    arrays: bytes = b""


@dataclass(frozen=True, slots=True)
class Guesses:
    """What a source thinks the answers of n texts are.

    Attributes:
        answers: k of them.
        probable: (n, k) how probable each is; rows sum to 1.
    """

    answers: Sequence[str]
    probable: NDArray[np.float32]


class Source(ABC):
    """What the vectors of one view come from. It never changes; two of one key are equal.

    Either an encoder reads texts for it (`reader`), or its vectors are made (`derive`) of those of other sources.

    Attributes:
        kind: its name in `kinds.KINDS`.
        reads: whether an encoder reads texts for it.
        hidden: whether only other sources look at its view, which is neither searched nor listed.
        follows: whether its vectors are made in the transaction that stores those they are made of.
        windowed: whether long texts also have vectors of their windows.
        leads: how many of the words of a text, from the first, are answers as somebody named them.
        costly: whether each text costs money or seconds, so that none is read unasked.
        key: of its view.
        needs: sources whose vectors it takes.
    """

    kind: ClassVar[str]
    reads: ClassVar[bool] = False
    hidden: ClassVar[bool] = False
    follows: ClassVar[bool] = True
    windowed: ClassVar[bool] = False
    leads: ClassVar[int] = 0
    costly: ClassVar[bool] = False

    def __init__(self, key: ViewKey, needs: Sequence["Source"] = ()) -> None:
        self.key = key
        self.needs = tuple(needs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @classmethod
    @abstractmethod
    def opened(cls, key: ViewKey, needs: Sequence["Source"], stored: StoredSource, sources: "Sources") -> "Source":
        """Return the source that `state` describes; no encoder is loaded.

        Raises:
            KeyError, TypeError, ValueError, OverflowError: it describes none.
        """

    @property
    def root(self) -> "Source":
        """The source that is read under this one's instruction, or the first that its vectors come from."""
        return self.needs[0].root if self.needs else self

    @property
    def reader(self) -> Encoder:
        """The encoder that reads texts for it, under the instruction of `key`; loaded when it is first asked for."""
        raise NotImplementedError(f"No encoder reads for a source of kind {self.kind}.")

    @property
    def evidence(self) -> bool:
        """Whether the base view's ranking counts beside its own."""
        return False

    @property
    def reader_name(self) -> str:
        """Name of what reads texts for it."""
        return self.reader.spec.label

    def describe(self) -> Mapping[str, JSON] | None:
        """Describe `reader`, as `encoding.describe` does, for a worker to load; None where it cannot be loaded."""
        return None

    def combine(self, needed: Sequence[Embeddings]) -> Embeddings:
        """Return the vectors (n, dim) of texts or queries, given those that each of `needs` has of them."""
        raise NotImplementedError(f"The vectors of a source of kind {self.kind} are read.")

    def derive(self, stored: Stored, ids: Ids) -> StoredVectors | None:
        """Make the vectors of those of some contents that they can be made of; None where texts are read for them."""
        return None

    def contents(self, held: Held) -> Ids | None:
        """Return the contents whose vectors it can have, ascending; None for any that are read."""
        return None

    @abstractmethod
    def state(self) -> State:
        """Return what `opened` takes."""

    def lessons(self, view_id: int, created: str) -> Lessons | None:
        """Return what examples taught of the instruction, for a view stored at a time; None for nothing."""
        return None

    @property
    def examples(self) -> Mapping[int, str]:
        """Answers that were given of texts, by content id, also of texts that are gone."""
        return {}

    def guesses(self, stored: Stored, ids: Ids) -> Guesses | None:
        """Return how probable the answers of some contents are that it holds; None where it knows of none."""
        return None

    def alone(self, names: Sequence[str], vectors: Embeddings) -> Embeddings | None:
        """Return vectors (n, dim) that are nothing but the answers of some names; None where it does not know all.

        Args:
            names: of answers.
            vectors: what `combine` makes of them.
        """
        return None

    def made_again(self, sources: "Sources", making: "Making") -> "Source | None":
        """Return a source of the same kind for the same instruction over other encoders, not stored yet.

        Returns:
            None where these have one already, of the same given material.

        Raises:
            RetrieverError: it cannot be made, and why.
        """
        return None
