"""The promise of what answers questions about texts, and the records that travel with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

NOT_SAID = "not said"
"""The answer where a text does not answer the question."""

MOST_WORDS = 12
"""Words of an answer at most; a longer one is no answer."""

MOST_CHARACTERS = 160
"""Characters of an answer at most, for scripts that put no spaces between words."""


class Unread(StrEnum):
    """Reasons why a text has no answer."""

    LEFT_OUT = "left out"
    MIXED = "mixed ids"
    COUNT = "number of answers"
    LONG = "long answer"
    BLANK = "blank answer"
    BROKEN = "broken reply"
    EMPTY = "empty reply"
    CUT = "cut reply"
    REFUSED = "refused"
    THINKING = "unfinished thinking"
    REASONING = "answer in the reasoning"

    @property
    def sentence(self) -> str:
        """Return the reason as a sentence."""
        return _SENTENCES[self]


_SENTENCES = {
    Unread.LEFT_OUT: "The model left the text out of its reply.",
    Unread.MIXED: "The reply has an id that no text of the call has, or an id twice.",
    Unread.COUNT: "The reply has another number of answers than there are questions.",
    Unread.LONG: f"The answer has more than {MOST_WORDS} words or {MOST_CHARACTERS} characters.",
    Unread.BLANK: "The answer is blank.",
    Unread.BROKEN: "The reply does not have the form that was asked for.",
    Unread.EMPTY: "The reply is empty.",
    Unread.CUT: "The reply was cut at the limit of tokens.",
    Unread.REFUSED: "The model or its server refused to answer.",
    Unread.THINKING: "The reply ends in the middle of the model's thinking.",
    Unread.REASONING: "The reply is empty; all the model wrote stands in its reasoning.",
}


def explained(failures: Mapping[Unread, int]) -> str:
    """Return a sentence for each reason of failure, most frequent first, with its number."""
    ordered = sorted(failures.items(), key=lambda item: (-item[1], item[0]))
    return " ".join(f"{reason.sentence} ({count})" for reason, count in ordered if count)


@dataclass(frozen=True, slots=True)
class AnswererSpec:
    """What identifies an answerer and says where texts go; the hash over it is `Answerer.fingerprint`.

    Attributes:
        name: what `load_encoder` finds it by: ``chat:qwen3:8b``, ``chat:https://host/v1#MODEL``, ``inbedder:MODEL``.
        host: where texts are sent, with the port; empty where they stay in this process.
        loopback: whether texts are sent to no other machine by this process. A server on this machine can send them on.
        dtype: number format of a model in this process; empty for others.
    """

    name: str
    host: str = ""
    loopback: bool = True
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """One checked answer: of the text at ``row``, to the question at position ``question``."""

    row: int
    question: int
    answer: str


@dataclass(frozen=True, slots=True)
class Answered:
    """All that came of a request.

    Attributes:
        answers: ``answers[question][row]``; None where the text could not be read, which is never guessed.
        failures: by reason, how many answers are missing for it.
    """

    answers: list[list[str | None]]
    failures: Mapping[Unread, int] = field(default_factory=dict)


OnAnswers = Callable[[list[Answer]], None]
"""Gets the answers of one call as soon as they are checked, on the caller's thread; what it raises ends the work."""


class Answerer(Protocol):
    """Answers questions about texts, each text from itself alone."""

    @property
    def spec(self) -> AnswererSpec:
        """Name and place; asks nothing of anybody."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 over all that answers depend on; a remote model is asked eight probes when it is first needed.

        Raises:
            EncoderError: the endpoint cannot be asked.
        """
        ...

    def answer(self, texts: Sequence[str], questions: Sequence[str], *, keep: OnAnswers | None = None) -> Answered:
        """Answer every question for every text, in at most twelve words.

        Args:
            texts: n different ones, each with a visible character.
            questions: any number, none of them blank.
            keep: called with answers as they come, before this returns or raises.

        Raises:
            EncoderError: the model cannot be asked; answers until then have been kept.
        """
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count or estimate the tokens of each text, uncut."""
        ...
