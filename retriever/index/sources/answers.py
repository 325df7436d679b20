"""A question as answers in words: of a language model, of a program, of a person; the base encoder embeds them.

InBedder's re-encoding (2402.09642, section 4.1): a model answers the question for a text, and the answer is embedded.
Answers are kept apart from vectors (`store.answers`), so that none is paid for twice; those that were handed in go
before the reader's. A query under the question is taken as an answer. A text that nobody answered has no vector.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from retriever.core.protocols import Encoder
from retriever.core.types import Ids
from retriever.index.sources.source import Held, Source, State
from retriever.store.answers import GIVEN
from retriever.store.sources import StoredSource
from retriever.store.views import ViewKey

if TYPE_CHECKING:
    from retriever.index.sources.catalog import Sources
    from retriever.index.sources.making import Making

POOLING = "re-enc"
"""Name of re-encoding among InBedder's poolings."""


@dataclass(frozen=True, slots=True)
class Reader:
    """What answers a question.

    Attributes:
        name: as `retriever.load_encoder` takes it, ``chat:MODEL``; empty where answers are handed in alone.
        fingerprint: of model, prompt and probe answers: what answers are kept under.
    """

    name: str = ""
    fingerprint: str = GIVEN


class Answers(Source):
    """The answers to a question, embedded by the base encoder.

    Args:
        base: the base view's source, whose encoder embeds answers.
        question: what is answered.
        by: who answers.
        sources: of the index.
    """

    kind = "answers"
    reads = True
    leads = 1
    costly = True

    def __init__(self, base: Source, question: str, by: Reader, sources: "Sources") -> None:
        own = sha256(f"{by.fingerprint}\0{base.key.fingerprint}".encode()).hexdigest()
        key = replace(base.key, fingerprint=f"{self.kind}:{own}", instruction=question, pooling=POOLING)
        super().__init__(key, [base])
        self.by = by
        self._sources = sources

    @classmethod
    def opened(cls, key: ViewKey, needs: Sequence[Source], stored: StoredSource, sources: "Sources") -> Source:
        """Return the source of a stored reader."""
        (base,) = needs
        return cls(base, key.instruction, Reader(**stored.state), sources)

    @property
    def root(self) -> Source:
        """Itself: it is read under its own question."""
        return self

    @property
    def evidence(self) -> bool:
        """Whether the base view's ranking counts beside its own: always, since that holds what answers leave out."""
        return True

    @property
    def reader(self) -> Encoder:
        """What answers and embeds; a text whose answer is stored is not read again."""
        return self._sources.answering(self.by)

    @property
    def reader_name(self) -> str:
        """Name of who answers."""
        return self.by.name or GIVEN

    def contents(self, held: Held) -> Ids:
        """Return the texts that were answered."""
        return self._sources.answers.held(self.by.fingerprint, self.key.instruction)

    def state(self) -> State:
        """Return who answers."""
        return State(asdict(self.by))

    def made_again(self, sources: "Sources", making: "Making") -> "Source | None":
        """Return the same answers over another base encoder, which embeds those that are stored."""
        again = Answers(sources.base, self.key.instruction, self.by, sources)
        return None if again == self else again
