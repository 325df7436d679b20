"""Lists of words for people, without those that say nothing new."""

from collections.abc import Iterable


def without_beginnings(words: Iterable[str], most: int) -> list[str]:
    """Return the first ``most`` words that begin no word before them, in their order.

    A model's vocabulary holds words and the pieces that others begin with: behind "charging", "charg" says nothing.
    """
    kept: list[str] = []
    for word in words:
        if len(kept) == most:
            break
        if not any(one.startswith(word) for one in kept):
            kept.append(word)
    return kept
