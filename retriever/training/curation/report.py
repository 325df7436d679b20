"""Report the rows that each step of a curation dropped, with examples, as JSON and as text."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from retriever.core.text import shortened
from retriever.training.rows import TrainingRow

EXAMPLES_OF_A_REASON = 3
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Dropped:
    """A row that a step dropped, and why."""

    row: TrainingRow
    reason: str


@dataclass(frozen=True, slots=True)
class StepReport:
    """The report of one step.

    Attributes:
        before: rows that came in.
        reasons: how many by reason, the most frequent first.
        examples: the first few of every reason.
        skipped: why the step did not run, or nothing.
    """

    step: str
    before: int
    dropped: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    examples: list[Dropped] = field(default_factory=list)
    skipped: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def after(self) -> int:
        """Rows that are left."""
        return self.before - self.dropped

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        examples = [
            {"file": one.row.file, "line": one.row.line, "reason": one.reason, "row": one.row.to_json()}
            for one in self.examples
        ]
        return {
            "step": self.step,
            "before": self.before,
            "dropped": self.dropped,
            "after": self.after,
            "reasons": self.reasons,
            "skipped": self.skipped or None,
            "notes": self.notes,
            "examples": examples,
        }

    def lines(self) -> list[str]:
        """Return the step in words, one line a fact."""
        if self.skipped:
            return [f"{self.step}: skipped, {self.skipped}"]
        lines = [f"{self.step}: {self.dropped} of {self.before} rows dropped, {self.after} left"]
        for reason, count in self.reasons.items():
            lines.append(f"  {count} x {reason}")
            lines += [f"    {_short(one.row)}" for one in self.examples if one.reason == reason]
        return [*lines, *(f"  {note}" for note in self.notes)]


def step_report(step: str, before: int, dropped: Sequence[Dropped], *, notes: Iterable[str] = ()) -> StepReport:
    """Return the report of a step that ran, with the first examples of every reason."""
    reasons = Counter(one.reason for one in dropped)
    shown: Counter[str] = Counter()
    examples = []
    for one in dropped:
        if shown[one.reason] < EXAMPLES_OF_A_REASON:
            shown[one.reason] += 1
            examples.append(one)
    return StepReport(step, before, len(dropped), dict(reasons.most_common()), examples, notes=list(notes))


def _short(row: TrainingRow) -> str:
    """Return a row's place and the beginnings of question, text and answer on one line."""
    parts = [shortened(part, _SHOWN_CHARACTERS) for part in (row.instruction, row.text, row.answer) if part]
    return f"{row.file}, row {row.line}: {' | '.join(parts)}"
