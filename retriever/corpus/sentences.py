"""Divides texts into sentences, each with its place in the text.

Where sentences end is sentencex's to say (Wikimedia's rules for abbreviations, numbers, quotes and many scripts). Ours
is what reviews need besides: lines of a list are sentences, what says nothing alone is joined to its neighbour, and
what no encoder would read to its end is cut.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from retriever.core.languages import WIDE
from retriever.core.types import Span

LONGEST = 400
"""Characters of a unit, about seventy words: encoders cut longer texts. Half as many in scripts without spaces."""

_BORDERS = re.compile(
    r"\n\s*\n|\n(?=\s*(?:[-*•·\u2013\u2014]|\d{1,3}[.)])\s)|(?<=:)\s*\n"
)  # an empty line, a list's next line
_WORD = re.compile(r"[^\W\d_]{2,}")
_WIDE_LETTERS = 3  # that say something
_PLACES = (
    re.compile(r"[;:,\uff0c\u3001\uff1b\uff1a\u2014]+\s*|\s[-\u2013]\s"),
    re.compile(r"\s+"),
)  # where a long one is cut, the best first


def sentences(text: str, language: str = "en") -> list[Span]:
    """Divide a text into sentences, in order; together they hold all of it but white space between them.

    A text without any is one sentence. Each has at least two words, where the text has as many, and at most `LONGEST`
    characters; offsets are of characters and leave out white space at either end. The language, by its code, tells
    abbreviations; the marks that end a sentence are those of all scripts.
    """
    spans = [piece for span in _joined(text, _borders(text, language)) for piece in _cut(text, span)]
    return spans or [Span(0, len(text))]


def _borders(text: str, language: str) -> list[Span]:
    """Return sentences as they end, with lines of lists apart, whatever they say."""
    from sentencex import segment

    ends = {0, len(text)}
    ends.update(match.end() for match in _BORDERS.finditer(text))
    at = 0
    for sentence in segment(language, text):
        at += len(sentence)
        ends.add(min(at, len(text)))
    return _stripped(text, pairwise(sorted(ends)))


def _joined(text: str, spans: list[Span]) -> list[Span]:
    """Join what says nothing alone to what is before it; the first, and a heading, to what is behind."""
    joined: list[Span] = []
    for span in spans:
        heading = text[span.start : span.end].endswith(":")
        if joined and (not _says(text, joined[-1]) or not (heading or _says(text, span))):
            joined[-1] = Span(joined[-1].start, span.end)
        else:
            joined.append(span)
    if len(joined) > 1 and not _says(text, joined[-1]):  # a heading of nothing
        joined[-2:] = [Span(joined[-2].start, joined[-1].end)]
    return joined


def _says(text: str, span: Span) -> bool:
    """Return whether a part of a text is more than a word, a number or a mark."""
    part = text[span.start : span.end]
    wide = len(WIDE.findall(part))
    return wide >= _WIDE_LETTERS or len(_WORD.findall(WIDE.sub(" ", part))) + wide >= 2


def _cut(text: str, span: Span) -> Iterator[Span]:
    """Yield a sentence, in pieces where it is too long, cut where a part of it ends or else between words."""
    start, end = span.start, span.end
    longest = LONGEST // 2 if len(WIDE.findall(text, start, end)) > (end - start) // 2 else LONGEST
    while end - start > longest:
        middle, most = start + longest // 2, start + longest
        ends = [[match.end() for match in place.finditer(text, middle, most)] for place in _PLACES]
        at = next((cuts[-1] for cuts in ends if cuts), most)
        yield from _stripped(text, [(start, at)])
        start = at
    yield from _stripped(text, [(start, end)])


def _stripped(text: str, parts: Iterable[tuple[int, int]]) -> list[Span]:
    """Return parts of a text without the white space around them; blank ones are left out."""
    spans = []
    for start, end in parts:
        part = text[start:end]
        if kept := part.strip():
            first = start + len(part) - len(part.lstrip())
            spans.append(Span(first, first + len(kept)))
    return spans
