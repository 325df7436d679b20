"""The labels of a question: its answers, the texts that are examples of them, and the texts that are not offered again.

They are kept with the index, in one setting a question. Every change is a transaction of its own on what is kept by
then, so that people who label for one question at the same time keep each other's labels.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from retriever.store.database import Store

NONE_OF_THESE = "none of these"
"""The answer of texts that give none of the others; it is learned like these."""

_LABELS = "labels "  # begins the name of a question's setting


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a question by document.

    Attributes:
        answers: the description of every answer by its name; empty where it has none.
        examples: answers by document id, `NONE_OF_THESE` among them; of equal texts, the first id.
        skipped: ids of documents that are not offered for this question again.
    """

    answers: Mapping[str, str]
    examples: Mapping[str, str]
    skipped: Collection[str]


@dataclass(slots=True)
class KeptLabels:
    """The labels of a question by content id, as an index keeps them.

    Attributes:
        answers: the description of every answer by its name.
        examples: answers by content id.
        skipped: content ids.
    """

    answers: dict[str, str] = field(default_factory=dict)
    examples: dict[int, str] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)

    def spelled(self, answer: str) -> str:
        """Return an answer as it is spelled already, by its examples first, where only capitals and spaces differ."""
        known = {_folded(other): other for other in [*self.answers, *self.examples.values(), NONE_OF_THESE]}
        return known.get(_folded(answer), answer)

    def name(self, answers: Mapping[str, str]) -> None:
        """Take these answers with their descriptions in the place of those before; answers with examples stay."""
        before, self.answers = self.answers, {}
        for answer, description in [
            *answers.items(),
            *((name, before.get(name, "")) for name in self.examples.values()),
        ]:
            if (spelled := self.spelled(answer)) != NONE_OF_THESE:
                self.answers.setdefault(spelled, description)

    def add(self, content_id: int, answer: str) -> None:
        """Take a text as an example of an answer."""
        self.examples[content_id] = self.spelled(answer)
        self.skipped.discard(content_id)
        self.name(self.answers)

    def skip(self, content_id: int) -> None:
        """Leave a text out for good."""
        self.remove(content_id)
        self.skipped.add(content_id)

    def remove(self, content_id: int) -> None:
        """Take back what was said of a text."""
        self.examples.pop(content_id, None)
        self.skipped.discard(content_id)

    def replace_examples(self, examples: Mapping[int, str]) -> None:
        """Take these examples in the place of those before; answers stay, and get those of the examples."""
        self.examples = dict(examples)
        self.examples = {content_id: self.spelled(answer) for content_id, answer in examples.items()}
        self.skipped -= examples.keys()
        self.name(self.answers)


def are_kept(store: Store, question: str) -> bool:
    """Return whether labels of a question were ever kept."""
    return store.settings.get(_LABELS + question) is not None


def kept_labels(store: Store, question: str, taught: Mapping[int, str]) -> KeptLabels:
    """Return the labels of a question; where none were ever kept, the examples that it was taught by."""
    stored: Any = store.settings.get(_LABELS + question)
    if not isinstance(stored, dict):
        labels = KeptLabels()
        labels.replace_examples(taught)
        return labels
    return KeptLabels(
        dict(stored["answers"]),
        {int(content_id): answer for content_id, answer in stored["examples"].items()},
        set(stored["skipped"]),
    )


def change_labels(
    store: Store, question: str, taught: Mapping[int, str], change: Callable[[KeptLabels], object]
) -> None:
    """Change the labels of a question as they are by then; ``taught`` as in `kept_labels`."""
    with store.transaction():
        labels = kept_labels(store, question, taught)
        change(labels)
        store.settings.set(
            _LABELS + question,
            {
                "answers": labels.answers,
                "examples": {str(content_id): answer for content_id, answer in labels.examples.items()},
                "skipped": sorted(labels.skipped),
            },
        )


def _folded(answer: str) -> str:
    return " ".join(answer.split()).casefold()
