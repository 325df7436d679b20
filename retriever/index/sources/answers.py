"""A question as answers in words: of a language model, of a program, of a person; the base encoder embeds them.

InBedder's re-encoding (2402.09642, section 4.1): a model answers the question for a text, and the answer is embedded.
Answers are kept apart from vectors (`store.answers`), so that none is paid for twice; a person's go before a program's,
and those before a language model's. A query under the question is taken as an answer. A text that nobody answered has
no vector. Nothing here asks anybody: that is `index.asking`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Self

import numpy as np

from retriever.core.types import Embeddings, Ids
from retriever.index.sources.source import Held, Source, State, Stored
from retriever.store.answers import GIVEN
from retriever.store.sources import StoredSource
from retriever.store.vectors import StoredVectors
from retriever.store.views import ViewKey

POOLING = "re-enc"
"""Name of re-encoding among InBedder's poolings."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A language model as its answers are kept.

    Attributes:
        name: ``chat:MODEL`` or ``chat:URL#MODEL``; empty where answers are given alone.
        fingerprint: of model, prompt and probe answers: what answers are kept under.
    """

    name: str = ""
    fingerprint: str = GIVEN


class Answers(Source):
    """The answers to a question, embedded by the base encoder; it needs the base view's source."""

    kind = "answers"
    in_words = True
    answer_words = 1

    @classmethod
    def given_by(cls, base: Source, question: str, by: Reader) -> Self:
        """Return the answers to a question, which may not be stored yet."""
        source = cls(base.context, _key(base, question, by), [base])
        source.by = by
        return source

    @cached_property
    def by(self) -> Reader:
        """Who answers."""

        def parse(stored: StoredSource) -> tuple[ViewKey, Reader]:
            by = Reader(**stored.state)
            return _key(self.needs[0], self.instruction, by), by

        return self._stored(parse)

    @property
    def name(self) -> str:
        """Name of who answers."""
        return self.by.name or GIVEN

    @property
    def evidence(self) -> bool:
        """Whether the base view's ranking counts beside its own: always, since that holds what answers leave out."""
        return True

    def combine(self, needed: Sequence[Embeddings]) -> Embeddings:
        """Return what the base encoder makes of them: a query or a name is taken as an answer."""
        return needed[0]

    def derive(self, stored: Stored, ids: Ids) -> StoredVectors:
        """Embed the answers of those of some texts that have one; the one word of a text is its answer."""
        answers = self.answers(ids)
        known = [content for content in np.asarray(ids).tolist() if content in answers]
        said = [answers[content] for content in known]
        vectors = np.zeros((0, self.key.dim), dtype=np.float32)
        if said:
            vectors = self.context.encoders.base.encode_views(said, [""])[0].embeddings
        return StoredVectors(np.array(known, dtype=np.int64), vectors, [[answer] for answer in said])

    def confirmed(self, made: StoredVectors) -> StoredVectors:
        """Return the vectors of answers that nobody changed or took back while they were embedded."""
        now = self.answers(made.content_ids)
        pairs = enumerate(zip(made.content_ids.tolist(), made.words, strict=True))
        rows = [row for row, (content, words) in pairs if now.get(content) == words[0]]
        return StoredVectors(made.content_ids[rows], made.embeddings[rows], [made.words[row] for row in rows])

    def contents(self, held: Held) -> Ids:
        """Return the texts that were answered."""
        return self.context.store.answers.held(self.by.fingerprint, self.instruction)

    def answers(self, ids: Sequence[int] | Ids) -> dict[int, str]:
        """Return the answers that are known among some texts, by content id."""
        return self.context.store.answers.get(self.by.fingerprint, self.instruction, ids)

    def unasked(self, ids: Ids) -> Ids:
        """Return those of some texts that nobody was asked about, in their order."""
        asked = self.context.store.answers.asked(self.by.fingerprint, self.instruction)
        return np.asarray(ids, dtype=np.int64)[~np.isin(ids, asked)]

    def state(self) -> State:
        """Return who answers."""
        return State(asdict(self.by))


def of_model(source: Source) -> Answers | None:
    """Return a source that a language model answers for; None for any other."""
    return source if isinstance(source, Answers) and source.by.name else None


def _key(base: Source, question: str, by: Reader) -> ViewKey:
    own = sha256(f"{by.fingerprint}\0{base.key.fingerprint}".encode()).hexdigest()
    return replace(base.key, fingerprint=f"{Answers.kind}:{own}", instruction=question, pooling=POOLING)
