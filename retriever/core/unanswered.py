"""Answers that answer nothing: the spellings by which models, programs and people say so."""

import re
import unicodedata
from functools import lru_cache

from retriever.core.text import composed

NOT_SAID = "not said"
"""The answer where a text does not answer the question."""

NOTHING = "nothing"
"""The answer where a text says that there is none."""

EMPTY = (NOT_SAID, NOTHING)
"""The answers that name nothing."""

_EDGES = " .,;:!*_#()[]{}<>\"'`\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb"

_WHOM = "(?:(?:the )?(?:text|review|reviewer|writer|author|message|sender|document|post)|it|they|he|she)"
_SAID = "(?:said|mentioned|stated|specified|given|described|discussed|provided|indicated|answered|reported|applicable)"
_SAYS = "(?:say|tell|mention|state|specify|answer|indicate)"
_HOW = "(?:(?:explicitly|clearly|specifically|directly) )?"
_WHERE = f"(?: (?:in|by) {_WHOM}| at all| explicitly| here)?"

_SPELLINGS = {
    NOT_SAID: [
        "[-?/\u2013\u2014\u2026]*",
        "n ?[./]? ?a",
        f"(?:{_WHOM} )?(?:is |was |has )?(?:not |un-?){_HOW}{_SAID}{_WHERE}",
        f"{_WHOM} (?:does not|doesn't|did not|didn't) {_HOW}{_SAYS}{_WHERE}",
        f"(?:does not|doesn't|did not|didn't) {_HOW}{_SAYS}{_WHERE}",
        f"(?:nothing|none) (?:is |was )?{_SAID}{_WHERE}",
        f"no (?:answer|information|info|details?|mention)(?: {_SAID})?{_WHERE}",
        "null|nil|nan|undefined|unknown|unclear|unnamed|unsaid",
    ],
    NOTHING: ["nothing|none|nobody|no[ -]?one", "(?:nothing|none) (?:at all|really|in particular)"],
}
_PATTERNS = {empty: re.compile("|".join(spellings)) for empty, spellings in _SPELLINGS.items()}


def folded(answer: str) -> str:
    """Return an answer without what models add to it: capitals, quotation marks, asterisks, stops, blanks."""
    return " ".join(composed(answer).casefold().strip(_EDGES).split())


@lru_cache(100_000)
def empty_answer(answer: str) -> str | None:
    """Return which empty answer an answer is, `NOT_SAID` or `NOTHING`, in whatever spelling; None where it answers.

    >>> empty_answer("N/A."), empty_answer('"Not mentioned"'), empty_answer("None"), empty_answer("a torn cable")
    ('not said', 'not said', 'nothing', None)
    """
    plain = folded(unicodedata.normalize("NFKC", answer)).replace("\u2019", "'")
    return next((empty for empty, pattern in _PATTERNS.items() if pattern.fullmatch(plain)), None)
