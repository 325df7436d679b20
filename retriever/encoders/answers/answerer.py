"""The promise of what answers questions about texts, and the records that travel with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, TypeVar

from retriever.encoders.answers.places import Place

if TYPE_CHECKING:
    from retriever.encoders.answers.call import Call

MOST_WORDS = 12
"""Words of an answer at most; a longer one is no answer."""

MOST_CHARACTERS = 160
"""Characters of an answer at most, for scripts that put no spaces between words."""


class Unread(StrEnum):
    """Reasons why a text has no answer, each with the sentence that tells it.

    >>> print(explained({Unread.CUT: 1, Unread.BLANK: 2}))
    The answer is blank. (2) The reply was cut at the limit of tokens. (1)
    """

    sentence: str

    LEFT_OUT = "left out", "The model left the text out of its reply."
    MIXED = "mixed ids", "The reply has an id that no text of the call has, or an id twice."
    COUNT = "number of answers", "The reply does not have one answer for the text."
    LONG = "long answer", f"The answer has more than {MOST_WORDS} words or {MOST_CHARACTERS} characters."
    BLANK = "blank answer", "The answer is blank."
    BROKEN = "broken reply", "The reply does not have the form that was asked for."
    EMPTY = "empty reply", "The reply is empty."
    CUT = "cut reply", "The reply was cut at the limit of tokens."
    REFUSED = "refused", "The model or its server refused to answer."
    THINKING = "unfinished thinking", "The reply ends in the middle of the model's thinking."
    REASONING = "answer in the reasoning", "The reply is empty; all the model wrote stands in its reasoning."
    BLOCKED = "blocked", "The server does not let the model read the text."
    ODD = "odd reply", "The server failed at the text, or sent something that is no reply."
    LATE = "late reply", "The reply did not come in time."

    def __new__(cls, value: str, sentence: str = "") -> Self:
        """Make a member of its value and the sentence that tells it."""
        made = str.__new__(cls, value)
        made._value_, made.sentence = value, sentence
        return made


def explained(failures: Mapping[Unread, int]) -> str:
    """Return a sentence for each reason of failure, most frequent first, with its number."""
    ordered = sorted(failures.items(), key=lambda item: (-item[1], item[0]))
    return " ".join(f"{reason.sentence} ({count})" for reason, count in ordered if count)


class CheckedReply(Protocol):
    """A checked reply; ``whole`` is the reason where nothing of it could be used."""

    @property
    def whole(self) -> Unread | None:
        """The reason; None where something could be used."""


C = TypeVar("C", bound=CheckedReply)


@dataclass(frozen=True, slots=True)
class Answer:
    """A final result for the text at ``row``: its checked answer, or the reason why asking again is pointless."""

    row: int
    answer: str | Unread


@dataclass(frozen=True, slots=True)
class Answered:
    """All that came of a request.

    Attributes:
        answers: of each text; None where there is none, or nobody was asked. Nothing is guessed.
        failures: by reason, how many answers are missing for it; texts that were not asked about are not among them.
    """

    answers: list[str | None]
    failures: Mapping[Unread, int] = field(default_factory=dict)


OnAnswers = Callable[[list[Answer]], None]
"""Gets the final results of a call, failures too, on the caller's thread; what it raises ends the work and cancels
the calls in flight."""


class Spend(Protocol):
    """Counts tokens, on the thread of the requests."""

    def before(self, tokens: int) -> None:
        """Count the tokens of a request's messages, by estimate, before it is sent.

        What it raises is raised in the place of the request, and of all after it; calls in flight are kept.
        """

    def after(self, tokens: int) -> None:
        """Count what a reply adds: its tokens, and where the server counts those of the messages, the difference."""


class Waiting:
    """Tells a person what takes long: ``Waiting.on_wait`` gets a sentence, on any thread. Says nothing unless set."""

    on_wait: ClassVar[Callable[[str], None]] = staticmethod(lambda sentence: None)


class Answerer(Protocol):
    """Answers a question about texts, each text from itself alone."""

    @property
    def spec(self) -> Place:
        """Name and place; asks nothing of anybody."""

    def probe(self, *, spend: Spend | None = None) -> str:
        """Return the hex SHA-256 over all that answers depend on; eight probes are asked for it.

        Raises:
            EncoderError: the endpoint cannot be asked.
        """

    def answer(
        self,
        texts: Sequence[str],
        question: str,
        *,
        keep: OnAnswers | None = None,
        spend: Spend | None = None,
        until: float | None = None,
    ) -> Answered:
        """Answer a question for every text, in at most twelve words.

        Args:
            texts: n different ones, each with a visible character.
            question: not blank.
            keep: called with results as they come, before this returns or raises.
            spend: called with tokens.
            until: a `time.monotonic` after which no call begins and those in flight are cancelled; then this returns
                the answers that came.

        Raises:
            EncoderError: the model cannot be asked; results until then have been kept.
        """

    def send(self, call: "Call[C]", *, spend: Spend | None = None) -> C:
        """Send a call and return its checked reply.

        Raises:
            EncoderError: the model cannot be asked.
        """
