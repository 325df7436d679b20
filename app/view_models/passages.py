"""Why a review is a hit, in its own words: those it shares with the query, and the sentence that says most of them."""

import re
from collections.abc import Collection, Iterable, Sequence

from retriever.core.stopwords import STOPWORDS
from retriever_app.view_models.text import plain

Span = tuple[int, int]
"""Where something begins and ends in a text."""

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?…]+[\"'\u201d\u2019)]*(?=\s)|(?=\n)|\Z)")
_ENDINGS = ("ingly", "edly", "ings", "ing", "ied", "ies", "est", "ed", "es", "er", "ly", "s", "e", "y")
_DOUBLING = ("ingly", "edly", "ings", "ing", "est", "ed", "er")  # before which a word doubles its last letter
_LEAST_STEM = 3  # letters that are left of a word
_OF_ANSWER = 0.5  # what a word the model answered counts, where one of the query counts 1


def stem(word: str) -> str:
    """Return a word without an English ending, so that `stopped`, `stops` and `stopping` are alike."""
    folded = word.casefold().replace("\u2019", "'").removesuffix("'s")
    for ending in _ENDINGS:
        if folded.endswith(ending) and len(folded) - len(ending) >= _LEAST_STEM:
            cut = folded.removesuffix(ending)
            doubled = ending in _DOUBLING and len(cut) > _LEAST_STEM and cut[-1] == cut[-2] and cut[-1] not in "aeiouls"
            return cut[:-1] if doubled else cut
    return folded


def words(text: str) -> set[str]:
    """Return the words of a text as they are written."""
    return set(_WORD.findall(text))


def stems(text: str) -> set[str]:
    """Return the stems of a text's words, stop words left out."""
    return {stem(word) for word in words(text) if word.casefold() not in STOPWORDS}


def sentences(text: str) -> list[Span]:
    """Return where a text's sentences are, spaces around them left out; a line's end ends one."""
    found = []
    for match in _SENTENCE.finditer(text):
        said = match[0]
        start = match.start() + len(said) - len(said.lstrip())
        if stripped := said.strip():
            found.append((start, start + len(stripped)))
    return found


def answering(text: str, query: str, answers: Iterable[str]) -> Span | None:
    """Return the sentence that says most of the query's words, and of those the model answered, in few words.

    None where the text is one sentence, or no sentence says any.
    """
    asked = stems(query)
    weights = {**dict.fromkeys(stems(" ".join(answers)), _OF_ANSWER), **dict.fromkeys(asked, 1.0)}
    found = sentences(text)
    if len(found) < 2 or not weights:
        return None
    scores = []
    for start, end in found:
        said = stems(text[start:end])
        scores.append(sum(weights.get(one, 0.0) for one in said) / max(len(said), 4) ** 0.25)
    best = max(range(len(found)), key=scores.__getitem__)
    return found[best] if scores[best] > 0 else None


def shared(text: str, wanted: Collection[str]) -> list[Span]:
    """Return where the words of a text are whose stems are wanted."""
    return [match.span() for match in _WORD.finditer(text) if stem(match[0]) in wanted]


def marked(text: str, spans: Sequence[Span]) -> str:
    """Return Markdown that shows a text as it is, line by line, with what is in the spans marked."""
    lines, start = [], 0
    for line in text.split("\n"):
        inside = [(a - start, b - start) for a, b in spans if start <= a and b <= start + len(line)]
        lines.append(_marked_line(line, inside))
        start += len(line) + 1
    return "  \n".join(lines)


def _marked_line(line: str, spans: Sequence[Span]) -> str:
    parts, at = [], 0
    for start, end in spans:
        parts += [_kept(line[at:start]), f":blue-background[{plain(line[start:end])}]"]
        at = end
    return "".join([*parts, _kept(line[at:])])


def _kept(piece: str) -> str:
    """Return a piece of a line as Markdown, with the spaces around it that part it from what is marked."""
    if not piece.strip():
        return " " if piece else ""
    return f"{' ' if piece[0].isspace() else ''}{plain(piece)}{' ' if piece[-1].isspace() else ''}"
