"""Answers as whole phrases: how often each was given, and which one names a group of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.unanswered import EMPTY


@dataclass(frozen=True, slots=True)
class Phrase:
    """An answer, and how many rows have it."""

    text: str
    rows: int

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"phrase": self.text, "rows": self.rows}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Phrase":
        """Return the phrase of a JSON object that `to_json` made."""
        return cls(document["phrase"], document["rows"])

    def __str__(self) -> str:
        """Return the phrase with its number, for people."""
        return f"{self.text} ({self.rows})"


def counted(answers: Sequence[str]) -> list[Phrase]:
    """Return the different answers, commonest first, each as it is spelled most often; capitals make no difference."""
    spellings: dict[str, Counter[str]] = {}
    for answer in answers:
        spellings.setdefault(answer.casefold(), Counter())[answer] += 1
    phrases = [Phrase(of.most_common(1)[0][0], of.total()) for of in spellings.values()]
    return sorted(phrases, key=lambda phrase: -phrase.rows)


def title(answers: Sequence[str], cosines: NDArray[np.float32]) -> str:
    """Return the answer that names a group: `NOT_SAID` or `NOTHING` where half of it or more is that.

    Else it is the one nearest to the group's centre among those that name something, the commonest of equals.

    Args:
        answers: of the group's rows, one or more.
        cosines: (n,) of the rows with the centre.
    """
    phrases = counted(answers)
    by_key = {phrase.text.casefold(): phrase for phrase in phrases}
    for empty in EMPTY:
        if empty in by_key and 2 * by_key[empty].rows >= len(answers):
            return empty
    nearest: dict[str, float] = {}
    for answer, cosine in zip(answers, cosines.tolist(), strict=True):
        key = answer.casefold()
        if key not in EMPTY:
            nearest[key] = max(nearest.get(key, cosine), cosine)
    if not nearest:  # as many say nothing as do not say
        return phrases[0].text
    return by_key[max(nearest, key=lambda key: (round(nearest[key], 4), by_key[key].rows))].text
