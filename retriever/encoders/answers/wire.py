"""Texts on their way to a language model and back: measured, cut, put on a line. Pure, as `call` and `replies` are."""

import re
from dataclasses import dataclass
from enum import StrEnum

from retriever.core.text import printable


class Format(StrEnum):
    """The ladder: ways to ask for the form of a reply, the strictest first."""

    LIMITED = "json_schema with limits"
    SCHEMA = "json_schema"
    OBJECT = "json_object"
    LINES = "lines"

    @property
    def below(self) -> "Format | None":
        """Return the next rung down; None at the bottom."""
        rungs = list(Format)
        at = rungs.index(self) + 1
        return rungs[at] if at < len(rungs) else None


@dataclass(frozen=True, slots=True)
class Reply:
    """The part of a completion that is read.

    Attributes:
        content: of its message; None where there is none.
        finish: why it ended: ``stop``, ``length``, ``content_filter``.
        refusal: the model's, where it has one; else empty.
        reasoning: what the server gives as the model's reasoning; else empty.
        reasoning_tokens: of the reply that the server counted as reasoning.
    """

    content: str | None
    finish: str = "stop"
    refusal: str = ""
    reasoning: str = ""
    reasoning_tokens: int = 0

    @property
    def thinks(self) -> bool:
        """Whether the model wrote reasoning besides its answers."""
        return bool(self.reasoning.strip()) or self.reasoning_tokens > 0


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text at four bytes each: four letters of English, a Chinese character and a bit."""
    return 1 + len(text.encode(errors="replace")) // 4


def beginning(text: str, tokens: int) -> str:
    """Return as much of a text as is estimated at so many tokens, without half a character at its end."""
    if estimated_tokens(text) <= tokens:
        return text
    return text.encode(errors="replace")[: 4 * (tokens - 1)].decode(errors="ignore")


_ESCAPES = re.compile(  # of terminals: commands with their ends, titles of windows, two characters of older sets
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]).*?(?:\x07|\x1b\\|\x9c|$)|\x1b[ -/]*[0-~]",
    re.DOTALL,
)


def one_line(text: str) -> str:
    """Return a text on one line, without what cannot be printed and without commands to a terminal."""
    return " ".join(printable(_ESCAPES.sub("", text)).split())


_SUSPECT = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:above|previous|prior|earlier|all|any|every|other|this|that|instructions?)\b"
    r"|\b(?:instructions?|system|developer)\s*(?:prompt|message|note|override)?\s*:"
    r"|\b(?:system prompt|language model|chat ?bot|assistant|as an ai|jailbreak)\b"
    r"|\b(?:answer|reply|respond|output|print|write|return|say|label|classify)\b.{0,60}\b(?:all|every|each|other|both)\b"
    r"|\b(?:for|to|of) (?:all|every|each) (?:of the )?(?:texts?|items?|reviews?|entries|questions?|ids?)\b"
    r"|\"(?:id|answers?|texts?|questions?|role|content)\"\s*:"
    r"|<\|?/?\w*(?:system|user|assistant|im_start|im_end|inst|think)\w*\|?>|\[/?INST\]|^\s*#{2,}\s*(?:system|instruction|response)",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)


def addresses_reader(text: str) -> bool:
    """Return whether a text looks as if it spoke to the model that reads it; such a text gets a call of its own.

    A list of English patterns and of marks of chat formats: it misses other wordings and other languages.
    """
    return _SUSPECT.search(text) is not None
