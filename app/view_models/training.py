"""Describe the contents of the page about training."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from retriever.index.model_names import CatalogEntry
from retriever.training.run.checks import Findings, few_rows
from retriever.training.run.examples import Candidate
from retriever_app.trainings import Status, Told
from retriever_app.view_models import text

Beginning = Literal["table", "file", "example", "reviews"]
Level = Literal["good", "note", "problem"]

BEGINNINGS: dict[Beginning, str] = {
    "table": "An empty table",
    "file": "A file",
    "example": "The example",
    "reviews": "Reviews of the index",
}
MOST_LINES = 5  # rows that are told one by one
_SNIPPET = 60
_PACE_STEPS = 50
_MEASURES = {
    "held-out triplets": ("Your rows kept out", "How often a text is nearer to one of the same answer; chance is 50."),
    "held-out answers": ("Your rows kept out", "How high the right answer ranks among all: 100 is always first."),
    "mean": ("In general", "Plain search and likeness on a small general set, to see what was unlearned."),
    "nDCG@10": ("Plain search", "How high the right document ranks without an instruction, on the general set."),
    "Spearman": ("Likeness", "How well nearness agrees with people about pairs of sentences, on the general set."),
}


@dataclass(frozen=True, slots=True)
class ChosenTraining:
    """Which training the page shows, empty for a new one, and what a new one begins with."""

    training: str = ""
    begin: Beginning = "table"


@dataclass(frozen=True, slots=True)
class Badge:
    """The status of a training at a glance."""

    label: str
    icon: str
    colour: Literal["gray", "blue", "orange", "red", "green"]


BADGES: dict[Status, Badge] = {
    "draft": Badge("not started", ":material/edit_note:", "gray"),
    "running": Badge("training", ":material/model_training:", "blue"),
    "stopping": Badge("stopping", ":material/hourglass_top:", "blue"),
    "paused": Badge("stopped", ":material/pause:", "orange"),
    "failed": Badge("failed", ":material/error:", "red"),
    "finished": Badge("trained", ":material/check:", "green"),
}


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A sentence about the rows, and how grave it is."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The share of a training's steps that is done, 0 to 1, and the same in words."""

    share: float
    text: str


@dataclass(frozen=True, slots=True)
class Measure:
    """One score before and after, in percent, the change with its 95 % interval."""

    label: str
    help: str
    before: float
    after: float
    change: float
    low: float
    high: float

    @property
    def sentence(self) -> str:
        """Say how sure the change is."""
        sure = "more than chance" if self.low > 0 or self.high < 0 else "may be chance"
        return f"from {self.before:.1f}; {self.low:+.1f} to {self.high:+.1f} in 95 %, {sure}"


@dataclass(frozen=True, slots=True)
class Example:
    """A search of a row that was kept out, before and after."""

    query: str
    instruction: str
    answer: str
    before: Sequence[Candidate]
    after: Sequence[Candidate]


def lines(findings: Findings) -> list[ChartLine]:
    """Describe rows in lines: what can be learned from them, and which are left out."""
    said = []
    if findings.rows:
        texts = text.count(len({row.text_key for row in findings.rows}), "text")
        questions = text.count(len({row.group for row in findings.rows}), "question")
        usable = text.count(len(findings.rows), "row")
        said.append(ChartLine("good", f"{usable} can be used: {questions} about {texts}."))
    if findings.problem is not None:
        said.append(ChartLine("problem", f"{findings.problem.message} {findings.problem.hint}".strip()))
    else:
        said += [ChartLine("note", note) for note in few_rows(len(findings.rows))]
    shown = findings.bad[:MOST_LINES]
    said += [
        ChartLine("problem", f"Row {row.line} is left out: {row.reason}. {_snippet(row.raw)}".strip()) for row in shown
    ]
    if findings.skipped > len(shown):
        said.append(ChartLine("problem", f"{text.count(findings.skipped, 'row')} in all are left out."))
    return said


def progress(record: Sequence[Mapping[str, float]], steps: int, told: Told | None) -> TrainingProgress:
    """Compute the progress of a training from its record of every step so far."""
    doing = (told.doing if told else "") or "starting"
    if not record or not steps:
        return TrainingProgress(0.0, f"{doing.capitalize()} …")
    done = int(record[-1]["step"])
    if done >= steps:
        return TrainingProgress(
            1.0, f"All {steps} steps are done. {doing.capitalize() if doing != 'training' else 'Saving'} …"
        )
    left = text.seconds(_pace(record) * (steps - done))
    return TrainingProgress(done / steps, f"Step {done} of {steps}, about {left} left; then the model is measured.")


def losses(record: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return the points of the loss's curve: each step's loss, and the mean of a tenth of the steps up to it."""
    values = [row["loss"] for row in record]
    window = max(3, len(values) // 10)
    means = [fmean(values[max(0, place - window) : place]) for place in range(1, len(values) + 1)]
    return [{"step": row["step"], "loss": row["loss"], "mean": mean} for row, mean in zip(record, means, strict=True)]


def measures(report: Mapping[str, Any]) -> list[Measure]:
    """Return every score of a finished training before and after, the rows that were kept out first."""
    found = []
    for score in report["scores"]:
        label, explained = _MEASURES.get(score["task"]) or _MEASURES[score["metric"]]
        moved = score["difference"]
        values = (score["before"]["value"], score["after"]["value"], moved["value"], moved["low"], moved["high"])
        found.append(Measure(label, explained, *values))
    return found


def examples(report: Mapping[str, Any]) -> list[Example]:
    """Return the searches that a finished training shows."""
    return [
        Example(
            one["query"],
            one["instruction"],
            one["answer"],
            [Candidate(**found) for found in one["before"]],
            [Candidate(**found) for found in one["after"]],
        )
        for one in report.get("examples") or ()
    ]


def summary(report: Mapping[str, Any]) -> str:
    """Return in sentences whether the model got better, and what it was made of."""
    verdict = report["verdict"]["sentence"].replace("->", "→")
    data, steps = report["data"], report["steps"]
    learned, kept = text.count(data["train"], "row"), text.count(data["held_out"], "row")
    skipped = f" {text.count(data['skipped'], 'row')} could not be used." if data["skipped"] else ""
    return (
        f"{verdict} Learned from {learned} in {text.seconds(steps['seconds'])}, measured on {kept} kept out.{skipped}"
    )


def model_rows(entries: Mapping[str, CatalogEntry], own: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the rows of the table of models: named ones, and by folder and name those that were trained here."""
    named = [{"name": name, "stands for": one.spec, "what it is": one.summary} for name, one in entries.items()]
    return named + [{"name": name, "stands for": folder, "what it is": "trained here"} for folder, name in own.items()]


def _pace(record: Sequence[Mapping[str, float]]) -> float:
    """Return the seconds of a step, of the last ones."""
    first = record[-_PACE_STEPS - 1] if len(record) > _PACE_STEPS else {"step": 0, "seconds": 0.0}
    last = record[-1]
    return (last["seconds"] - first["seconds"]) / max(1, last["step"] - first["step"])


def _snippet(raw: str) -> str:
    """Return the beginning of a bad row: of its text where it has one, so that it is recognised in a table."""
    try:
        shown = str(json.loads(raw)["text"])
    except (ValueError, TypeError, KeyError):
        shown = raw
    beginning = " ".join(shown[: 2 * _SNIPPET].split())
    return f"It begins: {beginning[:_SNIPPET]}{'…' if len(beginning) > _SNIPPET else ''}" if beginning else ""
