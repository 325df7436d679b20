"""User text as an FTS5 query that is always valid: words only, quoted, any of them may match."""

import re
from dataclasses import dataclass

from retriever.core.stopwords import QUERY_STOPWORDS

MAX_WORDS = 256
"""Distinct words of a query that are looked for."""

_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class LexicalHit:
    """A text found by its words; a higher score is better, and scores of two queries do not compare."""

    content_id: int
    score: float


def phrases(query: str) -> list[str]:
    """Return what is looked for of a query, each as an FTS5 expression of its own; none if it has no words.

    Very common English words are left out unless the query has no others. A hyphenated word is looked for as a phrase.
    """
    words = dict.fromkeys(word.lower() for word in _WORD.findall(query))
    telling = [word for word in words if word not in QUERY_STOPWORDS] or list(words)
    return [f'"{word}"' for word in telling[:MAX_WORDS]]


def match_expression(query: str) -> str:
    """Return an FTS5 expression that matches any word of the query (`phrases`), or "" if it has none."""
    return " OR ".join(phrases(query))
