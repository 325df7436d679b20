"""A question as examples taught it: a head maps the question's vectors and the base encoder's to new ones.

Where the base encoder was fine-tuned for the question, the head takes its vectors in the place of the base view's; they
stand in a hidden view of their own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from retriever.core.lessons import Held as Share
from retriever.core.lessons import Lessons
from retriever.core.protocols import Encoder, Tuning
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings, Ids
from retriever.index.sources.head import Head, from_stored
from retriever.index.sources.source import Held, Source, State, Stored
from retriever.store.sources import StoredSource
from retriever.store.vectors import StoredVectors
from retriever.store.views import ViewKey


@dataclass(frozen=True, slots=True)
class Guesses:
    """The learned answers of n texts.

    Attributes:
        answers: k of them.
        probable: (n, k) how probable each is; rows sum to 1.
    """

    answers: Sequence[str]
    probable: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Lesson:
    """The lesson: the map, JSON with its examples and their scores, and when it was stored (empty: not yet)."""

    head: Head
    document: Mapping[str, Any]
    created: str

    @property
    def examples(self) -> dict[int, str]:
        """Answers by content id, also of texts that are gone."""
        return {int(example["content"]): str(example["answer"]) for example in self.document["examples"]}

    def told(self, view_id: int) -> Lessons:
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
        return Lessons(view_id, answers, before, after, held_out, self.created, tuned, right, unlearned)


class Tuned(Source):
    """The vectors that the base encoder makes of a question's texts once it was fine-tuned for that question."""

    kind = "tuned"
    reads = True
    hidden = True

    @classmethod
    def by(cls, question: Source, base: Source, tuning: Tuning) -> Self:
        """Return what a fine-tuning of the base encoder makes, not stored yet."""
        source = cls(base.context, _tuned_key(question, base, tuning), [question, base])
        source.tuning = tuning
        return source

    @cached_property
    def tuning(self) -> Tuning:
        """The fine-tuning."""

        def parse(stored: StoredSource) -> tuple[ViewKey, Tuning]:
            tuning = Tuning(stored.arrays, dict(stored.state))
            return _tuned_key(self.needs[0], self.needs[1], tuning), tuning

        return self._stored(parse)

    @property
    def encoder(self) -> Encoder:
        """The tuned encoder."""
        return self.context.encoders.tuned(self.tuning)

    def contents(self, held: Held) -> Ids:
        """Return those of the question's view."""
        return held(self.needs[0])

    def state(self) -> State:
        """Return the fine-tuning."""
        return State(self.tuning.description, self.tuning.arrays)


class Taught(Source):
    """A question's vectors as a head maps them."""

    kind = "taught"
    answer_words = 1

    @classmethod
    def learned(cls, question: Source, beside: Source, head: Head, document: Mapping[str, Any]) -> Self:
        """Return what was learned of a question, not stored yet.

        The head maps the question's vectors and those ``beside``: of the base view's source, or of a tuned one. The
        document is JSON with the examples it was learned from and their scores.
        """
        source = cls(question.context, _taught_key(question, beside, head), [question, beside])
        source._lesson = _Lesson(head, document, "")
        return source

    @cached_property
    def _lesson(self) -> "_Lesson":
        question, beside = self.needs

        def parse(stored: StoredSource) -> tuple[ViewKey, _Lesson]:
            head = from_stored(stored.arrays, stored.state.get("head"))
            if [question.key.dim, beside.key.dim] != [len(head.mean), len(head.plain_mean)]:
                raise ValueError("it does not fit its vectors")
            lesson = _Lesson(head, stored.state, stored.created)
            lesson.told(0)  # raises where it cannot be read
            return _taught_key(question, beside, head), lesson

        return self._stored(parse)

    @property
    def head(self) -> Head:
        """The map."""
        return self._lesson.head

    @property
    def document(self) -> Mapping[str, Any]:
        """The examples it was learned from, and their scores, as JSON."""
        return self._lesson.document

    @property
    def examples(self) -> dict[int, str]:
        """Answers by content id, also of texts that are gone."""
        return self._lesson.examples

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
        """Return those of the question's view; the base view may lack texts that no document has."""
        question, beside = self.needs
        return held(question) if beside.hidden else np.intersect1d(held(question), held(beside))

    def state(self) -> State:
        """Return the head, and what it was learned from."""
        return State({**self.document, "head": self.head.describe()}, self.head.to_bytes())

    def lessons(self) -> Lessons:
        """Return what the examples taught."""
        return self._lesson.told(0 if self.view is None else self.view.view_id)

    def guesses(self, stored: Stored, ids: Ids) -> Guesses:
        """Return how probable the learned answers of some contents are, of those that both views hold."""
        own, beside = self._needed(stored, ids)
        return Guesses(self.head.answers, self.head.probabilities(own.embeddings, beside.embeddings))

    def class_prototypes(self, names: Sequence[str], vectors: Embeddings) -> Embeddings | None:
        """Return the vectors (n, dim) that stand for the learned answers of some names; None where some is not learned.

        ``vectors`` (n, dim) are `combine` of the names.
        """
        numbers = {answer.casefold(): number for number, answer in enumerate(self.head.answers)}
        if not {name.casefold() for name in names} <= numbers.keys():
            return None
        learned = vectors.copy()
        for row, name in enumerate(names):
            learned[row, : len(numbers)] = 0
            learned[row, numbers[name.casefold()]] = np.sqrt(self.head.share)
        return normalise(learned)

    def _needed(self, stored: Stored, ids: Ids) -> tuple[StoredVectors, StoredVectors]:
        """Return the vectors of both views, of texts that have both."""
        question, beside = self.needs
        own = stored(question, ids)
        other = stored(beside, own.content_ids)
        if len(other.content_ids) < len(own.content_ids):  # a damaged index; `verify` says what the base view lacks
            own = stored(question, other.content_ids)
        return own, other


def _tuned_key(question: Source, base: Source, tuning: Tuning) -> ViewKey:
    own = sha256("\0".join([tuning.digest(), *map(str, astuple(question.key))]).encode()).hexdigest()
    return replace(base.key, fingerprint=f"{Tuned.kind}:{own}:{base.key.fingerprint}")


def _taught_key(question: Source, beside: Source, head: Head) -> ViewKey:
    parts = [question.key.fingerprint, beside.key.fingerprint, head.digest()]
    fingerprint = f"{Taught.kind}:{sha256(chr(0).join(parts).encode()).hexdigest()}"
    return replace(question.key, fingerprint=fingerprint, dim=head.dim)
