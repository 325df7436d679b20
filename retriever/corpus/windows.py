"""Divides long texts into windows: sentences that stand together, as many as a short text has.

An encoder reads a limited number of tokens, and one vector of many sentences is near to none of them. A window is what
it reads best, and a search finds a text by the best of its windows.
"""

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
    words = count_words(text)
    if words <= WORDS:
        return []
    longest = max(WORDS, words * 2 // most)
    together: list[Span] = []
    size = 0
    for span in sentences(text, language):
        words = count_words(text[span.start : span.end])
        if together and size + words <= longest:
            together[-1], size = Span(together[-1].start, span.end), size + words
        else:
            together.append(span)
            size = words
    return together if len(together) > 1 else []
