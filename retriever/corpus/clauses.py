"""Divides sentences further, where a clause begins that can speak of something else. English alone is known.

"The food was great, but the waiter was rude" says two things. A border is a semicolon, a dash, or a conjunction that
begins a clause; both sides have to be long enough to be one, so that lists of things stay together.
"""

import re

from retriever.core.types import Span
from retriever.corpus.sentences import sentences

FEWEST_WORDS = 4
"""Words of a clause."""

_CONTRAST = r"but|however|although|though|yet|while|whereas|except|unfortunately|luckily"
_SUBJECT = r"the|my|our|his|her|their|its|it|we|they|he|she|i|you|there|this|that|these|those"
_BORDER = re.compile(
    rf"[;\u2014]\s*|\s+(?:--?|\u2013)\s+|,?\s+(?=(?:{_CONTRAST})\b)|,\s+(?=(?:and|so|or)\b)|\s+(?=and\s+(?:{_SUBJECT})\s)",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+(?:['\u2019]\w+)?")


def clauses(text: str) -> list[Span]:
    """Divide a text into clauses, in order; together they hold all of it but white space between them."""
    return [part for sentence in sentences(text) for part in _parts(text, sentence)]


def _parts(text: str, sentence: Span) -> list[Span]:
    parts, start = [], sentence.start
    for border in _BORDER.finditer(text, sentence.start, sentence.end):
        if _long(text, start, border.start()) and _long(text, border.end(), sentence.end):
            end = len(text[: border.end()].rstrip())
            parts.append(Span(start, end))
            start = border.end()
    return [*parts, Span(start, sentence.end)]


def _long(text: str, start: int, end: int) -> bool:
    return len(_WORD.findall(text, start, end)) >= FEWEST_WORDS
