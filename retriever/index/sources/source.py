"""The interface of a source: a view, and what its vectors come from."""

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from retriever.core.errors import IndexDamagedError
from retriever.core.protocols import Encoder
from retriever.core.types import JSON, Embeddings, Ids
from retriever.index.sources.encoders import Encoders
from retriever.store.connection import REPAIR
from retriever.store.database import Store
from retriever.store.sources import StoredSource
from retriever.store.vectors import StoredVectors
from retriever.store.views import View, ViewKey

T = TypeVar("T")

Stored = Callable[["Source", Ids], StoredVectors]
"""Gives the stored vectors of a source's view: those that exist among some contents."""

Held = Callable[["Source"], Ids]
"""Gives the contents that a source's view has vectors of, ascending."""


@dataclass(frozen=True, slots=True)
class State:
    """The state that a source is opened with again: JSON, and its numbers as the source wrote them."""

    document: Mapping[str, Any]
    arrays: bytes = b""


@dataclass(frozen=True, slots=True)
class Context:
    """The context of all sources of an index: its database, and its encoders, of which none is loaded yet."""

    store: Store
    encoders: Encoders


class Source(ABC):
    """A view, and what its vectors come from. It never changes; two of one key are equal.

    Either an encoder reads texts for it (`reads`), or its vectors are made (`derive`) of what is stored.

    Attributes:
        kind: its name in `catalog.KINDS`.
        reads: whether an encoder reads texts for it.
        hidden: whether only other sources look at its view, which is neither searched nor listed.
        windowed: whether long texts also have vectors of their windows.
        in_words: whether its vectors are those of answers in words, which cost money or minutes each.
        answer_words: how many of the words of a text, from the first, are answers and no tokens.
        context: of the index.
        key: of its view.
        needs: sources whose vectors it takes.
        view: as it was stored when the source was listed; None before it is.

    It reads what was stored of it (``load``) when that is first asked for.
    """

    kind: ClassVar[str]
    reads: ClassVar[bool] = False
    hidden: ClassVar[bool] = False
    windowed: ClassVar[bool] = False
    in_words: ClassVar[bool] = False
    answer_words: ClassVar[int] = 0

    def __init__(
        self,
        context: Context,
        key: ViewKey,
        needs: Sequence["Source"] = (),
        view: View | None = None,
        load: Callable[[], StoredSource] | None = None,
    ) -> None:
        self.context = context
        self.key = key
        self.needs = tuple(needs)
        self.view = view
        self._load = load

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def view_id(self) -> int:
        """Id of its view.

        Raises:
            IndexDamagedError: it has none.
        """
        if self.view is None:
            raise IndexDamagedError(f"There is no view of {self.key.instruction!r}.", hint=REPAIR)
        return self.view.view_id

    @property
    def instruction(self) -> str:
        """The question that its view answers; empty for the base view."""
        return self.key.instruction

    @property
    def query_instruction(self) -> str:
        """The instruction that queries are read under."""
        return self.instruction

    @property
    def root(self) -> "Source":
        """The source of the view whose texts it has: its own, where it is made of no view of a question."""
        first = self.needs[0] if self.needs else None
        return first.root if first is not None and first.instruction else self

    @property
    def encoder(self) -> Encoder:
        """The encoder that reads texts for it, under its instruction; loaded when it is first asked for."""
        raise NotImplementedError(f"No encoder reads for a source of kind {self.kind}.")

    @property
    def name(self) -> str:
        """Name of the encoder, or of who answers; empty where it has none."""
        return ""

    @property
    def evidence(self) -> bool:
        """Whether the base view's ranking counts beside its own."""
        return False

    def describe(self) -> Mapping[str, JSON] | None:
        """Describe `encoder`, as `encoding.describe` does, for a worker to load; None where it cannot be loaded."""
        return None

    def combine(self, needed: Sequence[Embeddings]) -> Embeddings:
        """Return the vectors (n, dim) of texts or queries, given those that each of `needs` has of them."""
        raise NotImplementedError(f"The vectors of a source of kind {self.kind} are read.")

    def derive(self, stored: Stored, ids: Ids) -> StoredVectors | None:
        """Make the vectors of those of some contents that they can be made of; None where texts are read for them."""
        return None

    def confirmed(self, made: StoredVectors) -> StoredVectors:
        """Return those of the vectors that `derive` made which still hold, in the transaction that stores them."""
        return made

    def contents(self, held: Held) -> Ids | None:
        """Return the contents whose vectors it can have, ascending; None for any that are read."""
        return None

    def state(self) -> State:
        """Return what is stored of it besides its key and what it needs."""
        return State({})

    def check(self) -> None:
        """Look at what is stored of it.

        Raises:
            IndexDamagedError: it is not what was stored, or makes no source of this kind.
        """
        for need in self.needs:
            need.check()
        if self._load is not None:
            self.state()

    def _stored(self, parse: Callable[[StoredSource], tuple[ViewKey, T]]) -> T:
        """Return what is stored of it, parsed, with the key that it gives.

        Raises:
            IndexDamagedError: it is gone, not what was stored, or gives another key.
        """
        if self._load is None:
            raise IndexDamagedError(f"Nothing is stored of {self.instruction!r}.", hint=REPAIR)
        try:
            key, parsed = parse(self._load())
            if key != self.key:
                raise ValueError("it does not fit its vectors")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            problem = f"What makes view {self.view_id} cannot be read: {error}."
            raise IndexDamagedError(problem, hint=REPAIR) from error
        return parsed
