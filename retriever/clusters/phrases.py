"""Answers as whole phrases: how often each was given, which mean the same, and a title that is true of a group."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.naming import HALF, SUCH_AS, text_words
from retriever.core.languages import ENGLISH, Language
from retriever.core.unanswered import empty_answer, folded

_NAMED = 3  # answers in such a title
_WORD = re.compile("[\\w'\u2019]+")
_SAYING_LITTLE = frozenset("a an the it its it's is was are were very really just quite".split())
_SAME = {"not": "no", "n't": "no"}


@dataclass(frozen=True, slots=True)
class Phrase:
    """An answer, and how many rows have it."""

    text: str
    rows: int

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"phrase": self.text, "rows": self.rows}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Phrase":
        """Return the phrase of a JSON object that `to_json` made."""
        return cls(document["phrase"], document["rows"])

    def __str__(self) -> str:
        """Return the phrase with its number, for people."""
        return f"{self.text} ({self.rows})"


@lru_cache(100_000)
def key_of(answer: str) -> str:
    """Return what all spellings of an answer share.

    >>> key_of("Probably not."), key_of('"probably no"'), key_of("N/A"), key_of("It is the battery")
    ('probably no', 'probably no', 'not said', 'battery')
    """
    if (empty := empty_answer(answer)) is not None:
        return empty
    words = [_SAME.get(word, word) for word in _WORD.findall(folded(answer))]
    return " ".join(word for word in words if word not in _SAYING_LITTLE) or folded(answer)


def counted(answers: Sequence[str]) -> list[Phrase]:
    """Return the different answers, commonest first, each as it is spelled most often; empty ones as `empty_answer`."""
    spellings: dict[str, Counter[str]] = {}
    for answer in answers:
        spellings.setdefault(key_of(answer), Counter())[empty_answer(answer) or answer] += 1
    phrases = [Phrase(of.most_common(1)[0][0], of.total()) for of in spellings.values()]
    return sorted(phrases, key=lambda phrase: -phrase.rows)


@dataclass(frozen=True, slots=True)
class Title:
    """A title of a group, and the share of its members that it holds for; of examples, that of the commonest."""

    text: str
    holds: float


def title(answers: Sequence[str], cosines: NDArray[np.float32], language: Language = ENGLISH) -> Title:
    """Return a title that is true of half of a group or more, or that names some of its answers as examples.

    It is the answer that most members gave, be it with more words, where these are half of them; else ``such as`` with
    up to three answers, the commonest, and of equals those nearest to the centre. An answer with a "not" is not the one
    without it, and one that says nothing is no example.

    Args:
        answers: of the group's rows, one or more.
        cosines: (n,) of the rows with the group's centre.
        language: of the answers.
    """
    phrases, bags = counted(answers), [(_roots(answer, language), _denies(answer, language)) for answer in answers]
    covered = {
        phrase: sum(roots <= bag and denies == denied for bag, denies in bags) if roots else phrase.rows
        for phrase in phrases
        for roots, denied in [(_roots(phrase.text, language), _denies(phrase.text, language))]
    }
    widest = max(phrases, key=lambda phrase: covered[phrase])  # the commonest of equals
    if covered[widest] >= HALF * len(answers):
        return Title(widest.text, covered[widest] / len(answers))
    return _such_as(answers, phrases, cosines)


def _roots(answer: str, language: Language) -> frozenset[str]:
    """Return the roots of the words of an answer that say something; none of an empty answer."""
    return frozenset() if empty_answer(answer) else frozenset(map(language.stem, text_words(answer, language)))


def _denies(answer: str, language: Language) -> bool:
    return ENGLISH.denies(folded(answer)) or language.denies(folded(answer))


def _such_as(answers: Sequence[str], phrases: Sequence[Phrase], cosines: NDArray[np.float32]) -> Title:
    near: dict[str, float] = {}
    for answer, cosine in zip(answers, cosines.tolist(), strict=True):
        near[key_of(answer)] = max(near.get(key_of(answer), cosine), cosine)
    said = [phrase for phrase in phrases if not empty_answer(phrase.text)]
    named = sorted(said, key=lambda phrase: (-phrase.rows, -near[key_of(phrase.text)], phrase.text))[:_NAMED]
    return Title(SUCH_AS + ", ".join(phrase.text for phrase in named), named[0].rows / len(answers))
