"""Whole words in the place of tokens that only begin one: "charg" is "charging" where the texts say that.

A model's answers are words that one token begins, and a token does not say whether it ends its word. Those known to be
fragments stand in ``core/fragments.txt`` (made by docs/tools/word_fragments.py).
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources

_WORD = re.compile(r"[^\W\d_]+")


def in_whole_words(words: Sequence[str], text: str) -> list[str]:
    """Return a model's words for a text with fragments completed from it, or left out where it does not say how."""
    return WholeWords([set(_WORD.findall(text.casefold()))]).of(words) if words else []


@cache
def fragments() -> frozenset[str]:
    """Return the tokens of the shipped model's vocabulary that look like a word and only begin one."""
    text = resources.files("retriever.core").joinpath("fragments.txt").read_text(encoding="utf-8")
    return frozenset(text.split())


class WholeWords:
    """Completes fragments from what some texts say.

    Args:
        texts: the different words of every text, in lower case.
    """

    def __init__(self, texts: Iterable[Iterable[str]]) -> None:
        self._counts = Counter(word for words in texts for word in words)
        self._sorted = sorted(self._counts)
        self._known: dict[str, str | None] = {}

    def of(self, words: Iterable[str]) -> list[str]:
        """Return words with the fragments among them completed, or left out where no text says how; each once."""
        return list(dict.fromkeys(whole for word in words if (whole := self._whole(word)) is not None))

    def _whole(self, word: str) -> str | None:
        if word not in fragments():
            return word
        if word not in self._known:
            self._known[word] = self._completed(word)
        return self._known[word]

    def _completed(self, fragment: str) -> str | None:
        """Return the commonest word that a fragment begins, itself among them; the first of the alphabet of equals."""
        found = []
        for place in range(bisect_left(self._sorted, fragment), len(self._sorted)):
            if not self._sorted[place].startswith(fragment):
                break
            found.append(self._sorted[place])
        return max(found, key=lambda word: self._counts[word], default=None)
