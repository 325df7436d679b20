"""The GEDI pipeline: from raw rows to rows worth learning from, with a report of what every step dropped.

Source: "General-Purpose Instruction-Aware Text Embeddings via Dual-Level Contrastive Learning". The steps, in order:
length, language, duplicates, votes of expert encoders, a judge, hard negatives. A step that lacks what it needs is
skipped, and the report says so; there is no judge yet.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import InputError, OutputError, UsageError
from retriever.core.paths import atomic_write, writing
from retriever.core.protocols import Encoder
from retriever.core.results import SCHEMA_VERSION
from retriever.core.text import counted
from retriever.training.curation_filters import (
    LEAST_CHARACTERS,
    MOST_CHARACTERS,
    Dropped,
    StepReport,
    duplicates,
    language_problem,
    length_problem,
    step_report,
)
from retriever.training.negatives import MiningOptions, embed_queries, mine_answers
from retriever.training.rows import TrainingRow, TrainingRows, read_training_rows


def vote(rows: Sequence[TrainingRow], expert: Encoder) -> NDArray[np.float32]:
    """Score rows (rows,) by an expert encoder: sim(instruction + input, output).

    The text is read under the row's instruction, in the way the encoder reads instructions; the answer, or first
    positive, under the default one.

    Source: "General-Purpose Instruction-Aware Text Embeddings via Dual-Level Contrastive Learning", GEDI pipeline.
    """
    outputs = expert.encode([row.answer for row in rows])
    return np.asarray((embed_queries(rows, expert) * outputs).sum(axis=1), dtype=np.float32)


Experts: TypeAlias = Mapping[str, Encoder]
"""Encoders by the names that their votes are reported by."""

Announce: TypeAlias = Callable[[str], None]

_NO_EXPERTS = "no expert encoder was named"


@dataclass(frozen=True, slots=True)
class CurationOptions:
    """Settings of how rows are curated.

    Attributes:
        most_characters: of a question, text or answer.
        announce: called with the name of each step as it begins.
    """

    most_characters: int = MOST_CHARACTERS
    mining: MiningOptions = field(default_factory=MiningOptions)
    announce: Announce = lambda step: None

    def __post_init__(self) -> None:
        if self.most_characters < LEAST_CHARACTERS:
            limits = f"{LEAST_CHARACTERS} to {self.most_characters}"
            raise UsageError(f"A field cannot have {limits} characters.", hint="The usual limits are 4 and 1024.")


@dataclass(frozen=True, slots=True)
class Curated:
    """The rows that are left, with hard negatives, and what each step did."""

    rows: list[TrainingRow]
    steps: list[StepReport]

    def lines(self) -> list[str]:
        """Return the steps in words."""
        return [line for step in self.steps for line in step.lines()]


def curate(rows: Sequence[TrainingRow], experts: Experts, options: CurationOptions) -> Curated:
    """Return the rows worth learning from; the experts vote, and the first of them mines the hard negatives."""
    steps: dict[str, Callable[[list[TrainingRow]], tuple[list[TrainingRow], StepReport]]] = {
        "length": lambda left: _filter("length", left, lambda row: length_problem(row, options.most_characters)),
        "language": lambda left: _filter("language", left, language_problem),
        "duplicates": lambda left: _drop("duplicates", left, list(duplicates(left))),
        "experts": lambda left: _votes(left, experts),
        "judge": lambda left: (left, StepReport("judge", len(left), skipped="no judge was given")),
        "hard negatives": lambda left: _negatives(left, experts, options.mining),
    }
    left, reports = list(rows), []
    for name, step in steps.items():
        options.announce(name)
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
    gone = {id(drop.row) for drop in dropped}
    return [row for row in rows if id(row) not in gone], step_report(step, len(rows), dropped, notes=notes)


def _votes(rows: list[TrainingRow], experts: Experts) -> tuple[list[TrainingRow], StepReport]:
    """Keep the rows that lie above every expert's median over the rows that came so far."""
    if not experts or not rows:
        return rows, StepReport("experts", len(rows), skipped=_NO_EXPERTS if rows else "no rows are left")
    votes = {name: vote(rows, expert) for name, expert in experts.items()}
    medians = {name: float(np.median(scores)) for name, scores in votes.items()}
    dropped = []
    for place, row in enumerate(rows):
        against = [name for name, scores in votes.items() if not scores[place] > medians[name]]
        if against:
            dropped.append(Dropped(row, f"not above the median of {' and '.join(against)}"))
    notes = [f"{name}: median {median:.3f}" for name, median in medians.items()]
    return _drop("experts", rows, dropped, notes)


def _negatives(
    rows: list[TrainingRow], experts: Experts, options: MiningOptions
) -> tuple[list[TrainingRow], StepReport]:
    """Give every row hard negatives beside its own; no row is dropped."""
    if not experts or not rows:
        return rows, StepReport("hard negatives", len(rows), skipped=_NO_EXPERTS if rows else "no rows are left")
    name, encoder = next(iter(experts.items()))
    mined = mine_answers(rows, encoder, options)
    filled = [
        replace(
            row,
            negatives=tuple(dict.fromkeys((*row.negatives, *hard)))[: max(options.count, len(row.negatives))],
        )
        for row, hard in zip(rows, mined.rows, strict=True)
    ]
    counts = [len(row.negatives) for row in filled]
    notes = [
        f"{counted(sum(counts), 'negative')} for {counted(sum(map(bool, counts)), 'row')}, mined by {name}",
        f"skipped {counted(mined.skipped, 'candidate')} over {options.margin:.0%} of the right answer's similarity",
    ]
    return filled, step_report("hard negatives", len(rows), [], notes=notes)


SUFFIXES = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class CurationReport:
    """The report of a curation: the rows that were read, and those that are left of them and were written."""

    output: Path
    source: TrainingRows
    curated: Curated

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "schema_version": SCHEMA_VERSION,
            "output": str(self.output),
            "mappings": dict(self.source.mappings),
            "read": len(self.source.rows),
            "written": len(self.curated.rows),
            "skipped": self.source.skipped,
            "quarantined": [asdict(row) for row in self.source.bad],
            "steps": [step.to_json() for step in self.curated.steps],
        }


def curate_file(
    source: str | Path, output: Path, experts: Callable[[], Experts], options: CurationOptions, encoding: str | None
) -> CurationReport:
    """Curate one file of questions and answers, as `read_training_rows` reads them, into JSON Lines.

    The output, a .jsonl file, appears when it is complete; what an earlier run wrote there stays until then.
    ``experts`` gives the encoders that vote, the first of which mines hard negatives; it is called once the rows are
    read, since loading takes longer than finding a mistake in them.

    Raises:
        InputError: the source cannot be read or is the output, or no row is left.
        UsageError: the output is no .jsonl file.
        OutputError: the output cannot be written.
    """
    _check_output(source, output)
    rows = read_training_rows([source], encoding=encoding)
    curated = curate(rows.rows, experts(), options)
    if not curated.rows:
        most = max(curated.steps, key=lambda step: step.dropped)
        raise InputError(
            f"{source}: no row is left of {len(rows.rows)}; the step {most.step!r} dropped {most.dropped}"
            f"{''.join(f', {count} for {reason!r}' for reason, count in list(most.reasons.items())[:2])}.",
            hint=f"Nothing was written to {output}.",
        )
    with writing(output, "OUT"), atomic_write(output, private=False) as file:
        file.writelines(f"{json.dumps(row.to_json(), ensure_ascii=False)}\n".encode() for row in curated.rows)
    return CurationReport(output, rows, curated)


def _check_output(source: str | Path, output: Path) -> None:
    """Refuse an output that could not be written, before anything is read."""
    if output.suffix not in SUFFIXES:
        raise UsageError(f"{output} cannot be written: rows go to JSON Lines.", hint="Name a .jsonl file.")
    if output.is_dir():
        raise OutputError(f"{output} is a folder.", hint="Name a .jsonl file.")
    if not output.parent.is_dir():
        raise OutputError(f"{output} cannot be written: there is no folder {output.parent}.", hint="Make it first.")
    if output.exists() and Path(source).exists() and output.samefile(source):
        raise InputError(f"{output} is the input.", hint="Name another file, so that no row is lost.")
