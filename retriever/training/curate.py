"""The GEDI pipeline: from raw rows to rows worth learning from, with a report of what every step dropped.

Source: "General-Purpose Instruction-Aware Text Embeddings via Dual-Level Contrastive Learning". The steps, in order:
length, language, duplicates, votes of expert encoders, a judge, hard negatives. A step that lacks what it needs is
skipped, and the report says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from retriever.training.curation.filters import LengthLimits, duplicates, language_problem, length_problem
from retriever.training.curation.report import Dropped, StepReport, step_report
from retriever.training.curation.votes import Expert, vote
from retriever.training.negatives import MiningOptions
from retriever.training.row_negatives import mine_answers
from retriever.training.rows import TrainingRow

Judge: TypeAlias = Callable[[TrainingRow], bool]
"""Whether a row's output follows its instruction."""

Announce: TypeAlias = Callable[[str], None]

_NO_EXPERTS = "no expert encoder was named"


@dataclass(frozen=True, slots=True)
class CurationOptions:
    """Settings of how rows are curated.

    Attributes:
        judge: asked about every row that came so far; None skips the step.
        announce: called with the name of each step as it begins.
    """

    lengths: LengthLimits = field(default_factory=LengthLimits)
    mining: MiningOptions = field(default_factory=MiningOptions)
    judge: Judge | None = None
    announce: Announce = lambda step: None


@dataclass(frozen=True, slots=True)
class Curated:
    """The rows that are left, with hard negatives, and what each step did."""

    rows: list[TrainingRow]
    steps: list[StepReport]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the steps as JSON objects."""
        return [step.to_json() for step in self.steps]

    def lines(self) -> list[str]:
        """Return the steps in words."""
        return [line for step in self.steps for line in step.lines()]


def curate(
    rows: Sequence[TrainingRow], experts: Sequence[Expert] = (), options: CurationOptions | None = None
) -> Curated:
    """Return the rows worth learning from; the experts vote, and the first of them mines the hard negatives."""
    chosen = options or CurationOptions()
    steps: dict[str, Callable[[list[TrainingRow]], tuple[list[TrainingRow], StepReport]]] = {
        "length": lambda left: _filter("length", left, lambda row: length_problem(row, chosen.lengths)),
        "language": lambda left: _filter("language", left, language_problem),
        "duplicates": lambda left: _drop("duplicates", left, list(duplicates(left))),
        "experts": lambda left: _votes(left, experts),
        "judge": lambda left: _judge(left, chosen.judge),
        "hard negatives": lambda left: _negatives(left, experts, chosen.mining),
    }
    left, reports = list(rows), []
    for name, step in steps.items():
        chosen.announce(name)
        left, report = step(left)
        reports.append(report)
    return Curated(left, reports)


def _filter(
    step: str, rows: list[TrainingRow], problem: Callable[[TrainingRow], str]
) -> tuple[list[TrainingRow], StepReport]:
    return _drop(step, rows, [Dropped(row, reason) for row in rows if (reason := problem(row))])


def _drop(
    step: str, rows: list[TrainingRow], dropped: Sequence[Dropped], notes: Sequence[str] = ()
) -> tuple[list[TrainingRow], StepReport]:
    gone = {id(one.row) for one in dropped}
    return [row for row in rows if id(row) not in gone], step_report(step, len(rows), dropped, notes=notes)


def _votes(rows: list[TrainingRow], experts: Sequence[Expert]) -> tuple[list[TrainingRow], StepReport]:
    """Keep the rows that lie above every expert's median over the rows that came so far."""
    if not experts or not rows:
        return rows, StepReport("experts", len(rows), skipped=_NO_EXPERTS if rows else "no rows are left")
    votes = [vote(rows, expert) for expert in experts]
    dropped = []
    for place, row in enumerate(rows):
        against = [one.expert for one in votes if not one.approves[place]]
        if against:
            dropped.append(Dropped(row, f"not above the median of {' and '.join(against)}"))
    notes = [f"{one.expert}: median {one.median:.3f}" for one in votes]
    return _drop("experts", rows, dropped, notes)


def _judge(rows: list[TrainingRow], judge: Judge | None) -> tuple[list[TrainingRow], StepReport]:
    if judge is None:
        return rows, StepReport("judge", len(rows), skipped="no judge was given")
    return _filter("judge", rows, lambda row: "" if judge(row) else "the judge found that the answer does not follow")


def _negatives(
    rows: list[TrainingRow], experts: Sequence[Expert], options: MiningOptions
) -> tuple[list[TrainingRow], StepReport]:
    """Give every row hard negatives beside its own; no row is dropped."""
    if not experts or not rows:
        return rows, StepReport("hard negatives", len(rows), skipped=_NO_EXPERTS if rows else "no rows are left")
    mined = mine_answers(rows, experts[0].encoder, options)
    filled = [
        replace(
            row,
            negatives=tuple(dict.fromkeys((*row.negatives, *found.answers)))[: max(options.count, len(row.negatives))],
        )
        for row, found in zip(rows, mined.rows, strict=True)
    ]
    counts = [len(row.negatives) for row in filled]
    notes = [
        f"{sum(counts)} negatives for {sum(map(bool, counts))} rows, mined by {experts[0].name}",
        f"{mined.skipped} candidates over {options.margin:.0%} of the right answer's similarity were skipped",
    ]
    return filled, step_report("hard negatives", len(rows), [], notes=notes)
