"""A question as examples taught it: a head maps the question's vectors and the base encoder's to new ones.

Where the base encoder was fine-tuned for the question, the head takes its vectors in the place of the base view's; they
stand in a hidden view of their own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from retriever.core.protocols import Encoder, Tuning
from retriever.core.results import Held as Share
from retriever.core.results import Lessons
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings, Ids
from retriever.index.sources.encoders import Encoders
from retriever.index.sources.source import Guesses, Held, Source, State, Stored
from retriever.index.teaching.head import Head, from_stored
from retriever.store.sources import StoredSource
from retriever.store.vectors import StoredVectors
from retriever.store.views import ViewKey

if TYPE_CHECKING:
    from retriever.index.sources.catalog import Sources
    from retriever.index.sources.making import Making


class Tuned(Source):
    """What the base encoder makes of the texts of a question's view once it was fine-tuned for that question."""

    kind = "tuned"
    reads = True
    hidden = True

    def __init__(self, question: Source, base: Source, tuning: Tuning, encoders: Encoders) -> None:
        own = sha256("\0".join([tuning.digest(), *map(str, astuple(question.key))]).encode()).hexdigest()
        fingerprint = f"{self.kind}:{own}:{base.key.fingerprint}"
        super().__init__(replace(base.key, fingerprint=fingerprint), [question, base])
        self.tuning = tuning
        self._encoders = encoders

    @classmethod
    def opened(cls, key: ViewKey, needs: Sequence[Source], stored: StoredSource, sources: "Sources") -> Source:
        """Return the source of a stored fine-tuning."""
        question, base = needs
        return cls(question, base, Tuning(stored.arrays, dict(stored.state)), sources.encoders)

    @property
    def reader(self) -> Encoder:
        """The tuned encoder."""
        return self._encoders.tuned(self.tuning)

    def contents(self, held: Held) -> Ids:
        """Return those of the question's view."""
        return held(self.needs[0])

    def state(self) -> State:
        """Return the fine-tuning."""
        return State(self.tuning.description, self.tuning.arrays)


class Taught(Source):
    """A question's vectors as a head maps them.

    Args:
        question: whose vectors it maps.
        beside: the base view's source, or a tuned one.
        head: the map.
        document: JSON with the examples it was learned from and their scores.
    """

    kind = "taught"
    leads = 1

    def __init__(self, question: Source, beside: Source, head: Head, document: Mapping[str, Any]) -> None:
        parts = [question.key.fingerprint, beside.key.fingerprint, head.digest()]
        fingerprint = f"{self.kind}:{sha256(chr(0).join(parts).encode()).hexdigest()}"
        super().__init__(replace(question.key, fingerprint=fingerprint, dim=head.dim), [question, beside])
        self.head = head
        self.document = document

    @classmethod
    def opened(cls, key: ViewKey, needs: Sequence[Source], stored: StoredSource, sources: "Sources") -> Source:
        """Return the source of a stored head."""
        question, beside = needs
        head = from_stored(stored.arrays, stored.state.get("head"))
        if [question.key.dim, beside.key.dim] != [len(head.mean), len(head.plain_mean)]:
            raise ValueError("it does not fit its vectors")
        taught = cls(question, beside, head, stored.state)
        taught.lessons(0, "")  # raises where they cannot be read
        return taught

    @property
    def examples(self) -> dict[int, str]:
        """Answers by content id, also of texts that are gone."""
        return {int(example["content"]): str(example["answer"]) for example in self.document["examples"]}

    def combine(self, needed: Sequence[Embeddings]) -> Embeddings:
        """Map the question's vectors and those beside."""
        question, beside = needed
        return self.head.map(question, beside)

    def derive(self, stored: Stored, ids: Ids) -> StoredVectors:
        """Map the vectors of texts that both views hold; the first of a text's words is its likeliest answer."""
        own, beside = self._needed(stored, ids)
        probable = self.head.probabilities(own.embeddings, beside.embeddings)
        words = []
        for number, said in zip(probable.argmax(axis=1).tolist(), own.words, strict=True):
            answer = self.head.answers[number]
            words.append([answer, *(word for word in said if word != answer)])
        return StoredVectors(own.content_ids, self.combine([own.embeddings, beside.embeddings]), words)

    def contents(self, held: Held) -> Ids:
        """Return those of the question's view."""
        return held(self.needs[0])

    def state(self) -> State:
        """Return the head, and what it was learned from."""
        return State({**self.document, "head": self.head.describe()}, self.head.to_bytes())

    def lessons(self, view_id: int, created: str) -> Lessons:
        """Return what the examples taught."""
        known = self.document
        before, after = (
            Share(*(float(known[when][end]) for end in ("value", "low", "high"))) for when in ("before", "after")
        )
        counts = Counter(self.examples.values())
        answers = {answer: counts[answer] for answer in self.head.answers}
        tuned = None if "tuned" not in known else bool(known["tuned"])
        right = dict(zip(self.head.answers, map(float, known.get("right", ())), strict=False))  # older ones have none
        unlearned = {str(answer): int(count) for answer, count in known.get("unlearned", {}).items()}
        held_out = int(known["held_out"])
        return Lessons(view_id, answers, before, after, held_out, created, tuned, right, unlearned)

    def guesses(self, stored: Stored, ids: Ids) -> Guesses:
        """Return how probable the learned answers are."""
        own, beside = self._needed(stored, ids)
        return Guesses(self.head.answers, self.head.probabilities(own.embeddings, beside.embeddings))

    def alone(self, names: Sequence[str], vectors: Embeddings) -> Embeddings | None:
        """Return the learned answers of those names: what a name looks like has been learned from."""
        numbers = {answer.casefold(): number for number, answer in enumerate(self.head.answers)}
        if not {name.casefold() for name in names} <= numbers.keys():
            return None
        learned = vectors.copy()
        for row, name in enumerate(names):
            learned[row, : len(numbers)] = 0
            learned[row, numbers[name.casefold()]] = np.sqrt(self.head.share)
        return normalise(learned)

    def made_again(self, sources: "Sources", making: "Making") -> "Source | None":
        """Learn from the same examples under other encoders; those whose documents are gone are left out."""
        from retriever.index.teaching.teacher import taught_again

        return taught_again(self, sources, making)

    def _needed(self, stored: Stored, ids: Ids) -> tuple[StoredVectors, StoredVectors]:
        """Return the vectors of both views, of texts that have both."""
        question, beside = self.needs
        own = stored(question, ids)
        other = stored(beside, own.content_ids)
        if len(other.content_ids) < len(own.content_ids):  # a damaged index; `verify` says what the base view lacks
            own = stored(question, other.content_ids)
        return own, other
