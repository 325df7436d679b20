"""Whether a model follows a question: the verdict as everything that shows answers tells it, in one sentence."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

Level = Literal["followed", "unclear", "hardly"]

LEVELS: tuple[Level, ...] = ("followed", "unclear", "hardly")

_SHOWN = 8  # of the answers


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one question.

    Attributes:
        instruction: the question.
        level: followed; hardly followed; or unclear, where chances are too even to say.
        chance: 0 to 1, how likely it is followed, by the kinds of question that the measurement was made on.
        texts: how many were looked at.
        answers: what the model answers most often, with the number of those texts.
        measured: whether the chance was measured with this very model; with another it is an estimate.
    """

    instruction: str
    level: Level
    chance: float
    texts: int
    answers: Sequence[tuple[str, int]]
    measured: bool

    @property
    def saying(self) -> str:
        """What to think of answers to this question, and what to do, in one sentence."""
        sentence = {
            "followed": "This model follows this question.",
            "unclear": "It is unclear whether this model follows this question",
            "hardly": "This model hardly follows this question",
        }[self.level]
        return f"{sentence}: let a language model read for it, or teach it." if self.warns else sentence

    @property
    def sentence(self) -> str:
        """The same, with the option and the command that do it."""
        if not self.warns:
            return self.saying
        command = f"retriever teach --instruction {shlex.quote(self.instruction)} EXAMPLES.jsonl"
        return f"{self.saying} With --reader chat:MODEL, or with {command}"

    @property
    def warns(self) -> bool:
        """Whether answers are not to be trusted as they are."""
        return self.level != "followed"

    def words(self, most: int = _SHOWN) -> str:
        """Return the most frequent answers with their numbers, to be read: ``book (12), kettle (9)``."""
        return ", ".join(f"{word} ({count})" for word, count in self.answers[:most])

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        answers = [{"word": word, "texts": count} for word, count in self.answers]
        return {**asdict(self), "answers": answers, "sentence": self.sentence}


def verdict_of(document: Mapping[str, Any]) -> Verdict:
    """Return the verdict of a JSON object that `Verdict.to_json` made.

    Raises:
        ValueError: it is not one.
    """
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
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no verdict: {error}") from error
