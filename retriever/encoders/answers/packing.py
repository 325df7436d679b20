"""Texts cut to what a call has room for, and packed into calls."""

from collections.abc import Sequence
from dataclasses import dataclass

from retriever.core.errors import UsageError
from retriever.encoders.answers.endpoint import estimated_tokens
from retriever.encoders.answers.wire import AnswersCall, Format, addresses_reader

CALL_TOKENS = 3000
"""Tokens of a call's messages at most, by their estimate; servers with a small context cut longer ones silently."""

LEAST_ROOM = 500
"""Tokens that questions must leave for texts."""

_AROUND_TEXT = 12
"""Tokens of id and quotation marks around a text."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Texts as they are sent, and calls of them.

    Attributes:
        texts: each cut to the room of a call.
        calls: positions of texts, as they go into a call together.
    """

    texts: list[str]
    calls: list[tuple[int, ...]]


def packed(texts: Sequence[str], questions: Sequence[str], most: int) -> Packed:
    """Pack texts in their order, at most ``most`` in a call; those that address their reader get a call each.

    Raises:
        UsageError: the questions leave too little room.
    """
    around = sum(estimated_tokens(part["content"]) for part in AnswersCall([], questions).messages(Format.SCHEMA))
    room = CALL_TOKENS - around
    if room < LEAST_ROOM:
        raise UsageError("The questions are too long for one call.", hint="Ask fewer at a time, or shorter ones.")
    sent = [beginning(text, room - _AROUND_TEXT) for text in texts]
    calls: list[tuple[int, ...]] = []
    together: list[int] = []
    used = 0
    for row, text in enumerate(sent):
        if addresses_reader(text):
            calls.append((row,))
            continue
        tokens = estimated_tokens(text) + _AROUND_TEXT
        if together and (len(together) == most or used + tokens > room):
            calls.append(tuple(together))
            together, used = [], 0
        together.append(row)
        used += tokens
    if together:
        calls.append(tuple(together))
    return Packed(sent, calls)


def beginning(text: str, tokens: int) -> str:
    """Return as much of a text as is estimated at so many tokens, without half a character at its end."""
    if estimated_tokens(text) <= tokens:
        return text
    return text.encode(errors="replace")[: 4 * (tokens - 1)].decode(errors="ignore")
