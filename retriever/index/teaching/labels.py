"""The labels of a question: its named answers, the texts that are examples of them, and texts that are skipped.

An example is an answer that a person or a program gave of a text, as any other (`store.answers`). Names with their
descriptions, and what is skipped, are kept in one setting a question. Every change is a transaction of its own, so that
people who label for one question at the same time keep each other's labels.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class KeptLabels:
    """The labels of a question by content id, as an index keeps them.

    Attributes:
        answers: the description of every answer by its name.
        examples: answers that were given, by content id; of named answers alone where some are named.
        skipped: content ids.
    """

    answers: Mapping[str, str]
    examples: Mapping[int, str]
    skipped: frozenset[int]

    def spelled(self, answer: str) -> str:
        """Return an answer as it is spelled already, where only capitals and spaces differ."""
        known = {_folded(other): other for other in [*self.examples.values(), *self.answers, NONE_OF_THESE]}
        return known.get(_folded(answer), answer)


def kept_labels(store: Store, question: str) -> KeptLabels:
    """Return the labels of a question."""
    stored: Any = store.settings.get(_LABELS + question)
    kept = stored if isinstance(stored, dict) else {}
    answers, given = dict(kept.get("answers", {})), store.answers.given(question)
    named = {_folded(answer) for answer in (*answers, NONE_OF_THESE)}
    examples = {content: answer for content, answer in given.items() if not answers or _folded(answer) in named}
    return KeptLabels(answers, examples, frozenset(kept.get("skipped", ())))


def labels_of(store: Store, question: str) -> Labels:
    """Return the labels of a question by document, of those that are still there."""
    kept = kept_labels(store, question)
    groups = store.documents.expand(sorted({*kept.examples, *kept.skipped}))
    ids = {content: min(document.id for document in group) for content, group in groups.items()}
    return Labels(
        kept.answers,
        {ids[content]: answer for content, answer in kept.examples.items() if content in ids},
        [ids[content] for content in sorted(kept.skipped) if content in ids],
    )


def name_answers(store: Store, question: str, answers: Mapping[str, str], *, add: bool = False) -> None:
    """Name the answers of a question, in the place of those before; those that have examples stay, with ``add`` all do.

    Answers are given with their descriptions, empty for none.
    """
    with store.writing(data=False):
        kept = kept_labels(store, question)
        used = {_folded(answer) for answer in kept.examples.values()}
        stay = {name: text for name, text in kept.answers.items() if add or _folded(name) in used}
        named: dict[str, tuple[str, str]] = {}  # spelling and description
        for name, text in (*stay.items(), *answers.items()) if add else (*answers.items(), *stay.items()):
            if _folded(name) != _folded(NONE_OF_THESE):
                named.setdefault(_folded(name), (kept.spelled(name), text))
        _store(store, question, dict(named.values()), kept.skipped)


def skip(store: Store, question: str, content_ids: Collection[int], *, back: bool = False) -> None:
    """Leave texts out of what is offered for a question, or offer them again (``back``)."""
    with store.writing(data=False):
        kept = kept_labels(store, question)
        skipped = kept.skipped.difference(content_ids) if back else kept.skipped.union(content_ids)
        if skipped != kept.skipped:
            _store(store, question, kept.answers, skipped)


def _store(store: Store, question: str, answers: Mapping[str, str], skipped: Collection[int]) -> None:
    store.settings.set(_LABELS + question, {"answers": dict(answers), "skipped": sorted(skipped)})


def _folded(answer: str) -> str:
    return " ".join(answer.split()).casefold()
