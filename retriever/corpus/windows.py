"""Divides long texts into windows: sentences that stand together, as many as a short text has.

An encoder reads a limited number of tokens, and one vector of many sentences is near to none of them. A window is what
it reads best, and a search finds a text by the best of its windows.
"""

from collections.abc import Iterable

from retriever.core.languages import count_words
from retriever.core.types import Span
from retriever.corpus.sentences import sentences

WORDS = 45
"""Words of a window, at most, where a sentence does not have more; docs/decisions/windows.md has what others give."""


def windows(text: str, most: int, language: str = "en") -> list[Span]:
    """Divide a text of more than `WORDS` words into windows, in order; a shorter one has none.

    Together they hold all of the text but white space between them. Where there would be more than ``most``, they are
    longer.
    """
    longest = max(WORDS, count_words(text) * 2 // most)
    if count_words(text) <= WORDS:
        return []
    together = list(_together(text, sentences(text, language), longest))
    return together if len(together) > 1 else []


def _together(text: str, spans: Iterable[Span], longest: int) -> Iterable[Span]:
    """Yield sentences in groups of at most ``longest`` words."""
    held: Span | None = None
    size = 0
    for span in spans:
        words = count_words(text[span.start : span.end])
        if held is not None and size + words <= longest:
            held, size = Span(held.start, span.end), size + words
            continue
        if held is not None:
            yield held
        held, size = span, words
    if held is not None:
        yield held
