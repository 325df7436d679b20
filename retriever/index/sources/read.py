"""Sources that an encoder reads texts for: the base view, and the view of a question."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retriever.core.protocols import Encoder
from retriever.core.types import JSON
from retriever.index.encoding import describe
from retriever.index.sources.encoders import Encoders
from retriever.index.sources.source import Source, State
from retriever.store.sources import StoredSource
from retriever.store.views import ViewKey

if TYPE_CHECKING:
    from retriever.index.sources.catalog import Sources


class Plain(Source):
    """The base view: texts as they are, by the base encoder."""

    kind = "plain"
    reads = True
    windowed = True

    def __init__(self, key: ViewKey, encoders: Encoders) -> None:
        super().__init__(key)
        self._encoders = encoders

    @classmethod
    def opened(cls, key: ViewKey, needs: Sequence[Source], stored: StoredSource, sources: "Sources") -> Source:
        """Return it; nothing is stored of it."""
        return cls(key, sources.encoders)

    @property
    def reader(self) -> Encoder:
        """The encoder of its view."""
        return self._encoders.of(self.key.instruction)

    def describe(self) -> Mapping[str, JSON]:
        """Describe that."""
        return describe(self.reader)

    def state(self) -> State:
        """Return nothing: the key of its view tells it."""
        return State({})


class Question(Plain):
    """Texts as the instruction encoder reads them under a question."""

    kind = "question"
    windowed = False

    @property
    def evidence(self) -> bool:
        """Whether another encoder fills the base view."""
        return self._encoders.separate
