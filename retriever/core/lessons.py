"""The lessons that examples taught of a question, and how sure they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Held:
    """A share of examples that were answered rightly, the balanced accuracy, with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Lessons:
    """The lessons that examples taught of a question.

    Attributes:
        view: id of the taught view.
        answers: examples of each answer.
        before: how many examples the untaught view answers, each by the answer whose other examples are nearest.
        after: how many the head answers that it did not learn from.
        held_out: examples that both are measured on.
        created: UTC time.
        tuned: whether the base encoder was fine-tuned for the question; False where that was tried and did not help,
            None where it was not tried.
        right: by answer, how many of its held-out examples the head answers rightly, the mean of several divisions;
            empty where it was taught before this was counted.
        unlearned: answers of the question that were not learned, with the examples that they have: too few.
    """

    view: int
    answers: Mapping[str, int]
    before: Held
    after: Held
    held_out: int
    created: str
    tuned: bool | None = None
    right: Mapping[str, float] = field(default_factory=dict)
    unlearned: Mapping[str, int] = field(default_factory=dict)

    @property
    def warns(self) -> bool:
        """Whether the gain may be chance, or there is none."""
        return self.after.low <= self.before.value

    @property
    def gained(self) -> bool:
        """Whether more examples are answered rightly than before, in whole percents."""
        return round(100 * self.after.value) > round(100 * self.before.value)

    @property
    def sentence(self) -> str:
        """Both scores with the interval; whether there was a gain, and whether it may be chance."""
        before, after = self.before.value, self.after
        tuned = " and an encoder fine-tuned for it" if self.tuned else ""
        examples = f"{sum(self.answers.values())} examples{tuned}"
        begins = f"Taught with {examples}" if self.gained else f"{examples} gave no gain"
        chance = " The gain may be chance." if self.gained and self.warns else ""
        return (
            f"{begins}: {after.value:.0%} of the examples set aside for testing get the right answer "
            f"({after.low:.0%} to {after.high:.0%}), {before:.0%} before.{chance}"
        )
