"""Whether a model follows a question: the verdict as everything that shows answers tells it, in one sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

Level = Literal["followed", "unclear", "not followed"]

LEVELS: tuple[Level, ...] = ("followed", "unclear", "not followed")
"""The levels, best first."""

_WAYS = "Word the question differently, teach it with examples, or let a language model read the texts."
_OTHER_WAYS = "Let a language model read the texts, or teach the question with examples."

_SHOWN = 8  # of the answers
_NAMED = 3  # of them, in a sentence


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one question.

    Attributes:
        instruction: the question.
        level: followed, not followed, or unclear, where chances are too even to say.
        chance: 0 to 1, how likely it is followed, by the kinds of question that the measurement was made on.
        texts: how many were looked at.
        answers: what the model answers most often, with the number of those texts.
        measured: whether the chance was measured with this very model; with another it is an estimate.
        another_question: whether the answers go by the topics of the texts, for which the question does not ask.
        language: name of the language of the texts, where the model was not made for it; else empty.
    """

    instruction: str
    level: Level
    chance: float
    texts: int
    answers: Sequence[tuple[str, int]]
    measured: bool
    another_question: bool = False
    language: str = ""

    @property
    def sentence(self) -> str:
        """Whether the model follows the question; where it may not, its commonest answers, and what to do."""
        if self.language:
            return f"{self.finding} {_OTHER_WAYS}"
        return f"{self.finding} {_WAYS}" if self.warns else self.finding

    @property
    def finding(self) -> str:
        """Whether the model follows the question; where it may not, its commonest answers."""
        if not self.warns:
            return "This model follows this question."
        named = ", ".join(word for word, _ in self.answers[:_NAMED])
        reason = f"; its commonest answers are {named}" if named else ""
        if self.another_question:
            reason = f": its answers ({named}) go by the topics of the texts"
        if self.language:
            return (
                f"This model reads English, and the texts are {self.language}: it may not follow this question{reason}."
            )
        if self.level == "unclear":
            return f"It is unclear whether this model follows this question{reason}."
        return f"This model does not follow this question{reason}."

    @property
    def warns(self) -> bool:
        """Whether answers are not to be trusted as they are."""
        return self.level != "followed"

    @property
    def answered(self) -> bool:
        """Whether the answers may be the question's own."""
        return self.level != "not followed" and not self.another_question

    def words(self, most: int = _SHOWN) -> str:
        """Return the most frequent answers with their numbers, to be read: ``book (12), kettle (9)``."""
        return ", ".join(f"{word} ({count})" for word, count in self.answers[:most])

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        answers = [{"word": word, "texts": count} for word, count in self.answers]
        return {**asdict(self), "answers": answers, "sentence": self.sentence}


def worse(first: Level, second: Level) -> Level:
    """Return the worse of two levels."""
    return max(first, second, key=LEVELS.index)


def verdict_of(document: Mapping[str, Any]) -> Verdict:
    """Return the verdict of a JSON object that `Verdict.to_json` made; raise `ValueError` for another object."""
    try:
        level = cast("Level", document["level"])
        if level not in LEVELS:
            raise ValueError(f"no level: {level!r}")
        return Verdict(
            instruction=str(document["instruction"]),
            level=level,
            chance=float(document["chance"]),
            texts=int(document["texts"]),
            answers=[(str(answer["word"]), int(answer["texts"])) for answer in document["answers"]],
            measured=bool(document["measured"]),
            another_question=bool(document["another_question"]),
            language=str(document.get("language", "")),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no verdict: {error}") from error
