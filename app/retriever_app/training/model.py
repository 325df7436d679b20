"""Trainings as they are shown: where rows come from and what is wrong with them, and how a training goes and went."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, Literal

from retriever.core.errors import InputError
from retriever.core.types import JSON
from retriever.index.files import EncodingError
from retriever.training.from_index import index_texts
from retriever.training.splits import Findings, few_rows, look_at
from retriever.workspace import Index
from retriever_app import example_file, text
from retriever_app.background import Progress
from retriever_app.training.job import Message, Status

PURPOSE = (
    "Train a new model for many questions on hundreds of rows, in minutes to hours. "
    "To teach the present model one question with about a dozen labels, in seconds, use Teach."
)
COLUMNS = ("text", "question", "answer")
FORMATS = ("csv", "tsv", "jsonl", "ndjson", "json", "parquet", "xlsx", "xls", "ods")
UPLOAD_MB = 50
MOST_EDITED = 2000  # rows that a browser still edits smoothly
MOST_LINES = 5  # rows with a problem that are listed
_SNIPPET = 60
_PACE_STEPS = 50

Rows = list[dict[str, JSON]]
Beginning = Literal["table", "file", "example", "reviews"]
Level = Literal["good", "note", "problem"]
Colour = Literal["gray", "blue", "orange", "red", "green"]

BEGINNINGS: dict[Beginning, str] = {
    "table": "An empty table",
    "file": "A file",
    "example": "The example",
    "reviews": "Reviews from the index",
}
_MEASURES = {
    "held-out triplets": (
        "Your held-out rows",
        "How often a text is nearer to a text with the same answer; chance is 50.",
    ),
    "held-out answers": ("Your held-out rows", "How high the right answer ranks among all: 100 is always first."),
    "mean": ("In general", "Search and similarity on a small general set: shows what the model has lost."),
    "nDCG@10": ("Plain search", "How high the right document ranks without a question, on the general set."),
    "Spearman": ("Similarity", "How well similarity agrees with people about pairs of sentences, on the general set."),
}


@dataclass(frozen=True, slots=True)
class ChosenTraining:
    """Which training the page shows, empty for a new one, and what a new one begins with."""

    training: str = ""
    begin: Beginning = "table"


BADGES: dict[Status, tuple[str, str, Colour]] = {
    "draft": ("not started", ":material/edit_note:", "gray"),
    "running": ("training", ":material/model_training:", "blue"),
    "stopping": ("stopping", ":material/hourglass_top:", "blue"),
    "paused": ("stopped", ":material/pause:", "orange"),
    "failed": ("failed", ":material/error:", "red"),
    "finished": ("trained", ":material/check:", "green"),
}
"""The status of a training at a glance: a label, an icon and a colour."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A score before and after, in percent, the change with its 95 % interval."""

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
        return f"before: {self.before:.1f}; change {self.low:+.1f} to {self.high:+.1f} (95 %), {sure}"


def read_upload(name: str, data: bytes) -> Findings:
    """Read a file of rows that the user sent; nothing is raised."""
    with TemporaryDirectory() as folder:
        file = Path(folder, Path(name).name)
        file.write_bytes(data)
        return named(look_at(file), file, file.name)


def rows_of(findings: Findings) -> Rows:
    """Return the rows that can be learned from, as `Training.write_rows` takes them."""
    return [dict(row.to_json()) for row in findings.rows]


def named(findings: Findings, file: Path, name: str) -> Findings:
    """Rename the file in what the findings say of it."""
    problem = findings.problem
    if problem is None:
        return findings
    hint = "Save it as UTF-8 and send it again." if isinstance(problem, EncodingError) else problem.hint
    return replace(findings, problem=InputError(problem.message.replace(str(file), name), hint=hint))


def example_rows() -> Rows:
    """Return the example: questions on invented product reviews."""
    return rows_of(look_at(example_file("qa.jsonl")))


def rows_of_index(index: Index, question: str, count: int) -> Rows:
    """Return some reviews of an index under a question, to be answered."""
    return [{"text": review, "question": question, "answer": ""} for review in index_texts(index, count)]


def is_editable(rows: Rows) -> bool:
    """Whether rows fit the table: text, question and answer alone, and not too many."""
    return len(rows) <= MOST_EDITED and all(set(row) == set(COLUMNS) for row in rows)


def written(edited: Sequence[Mapping[str, str | None]]) -> Rows:
    """Build rows from the table; those without a word are left out."""
    filled = [{name: row.get(name) or "" for name in COLUMNS} for row in edited]
    return [dict(row) for row in filled if any(value.strip() for value in row.values())]


def preview_rows(rows: Rows) -> list[dict[str, str]]:
    """Return rows for a table that nobody writes in."""
    return [
        {name: " | ".join(map(str, value)) if isinstance(value, list) else str(value) for name, value in row.items()}
        for row in rows
    ]


def lines(findings: Findings) -> list[tuple[Level, str]]:
    """Describe rows in sentences, each with how grave it is: what can be learned, and which are left out."""
    result: list[tuple[Level, str]] = []
    if findings.rows:
        texts = text.count(len({row.text_key for row in findings.rows}), "text")
        questions = text.count(len({row.group for row in findings.rows}), "question")
        usable = text.count(len(findings.rows), "row")
        result.append(("good", f"{usable} can be used: {questions} about {texts}."))
    if findings.problem is not None:
        result.append(("problem", f"{findings.problem.message} {findings.problem.hint}".strip()))
    else:
        result += [("note", note) for note in few_rows(len(findings.rows))]
    listed = findings.bad[:MOST_LINES]
    for row in listed:
        result.append(("problem", f"Row {row.line} is left out: {row.reason}. {_snippet(row.raw)}".strip()))
    if findings.skipped > len(listed):
        result.append(("problem", f"{text.count(findings.skipped, 'row')} in all are left out."))
    return result


def progress(record: Sequence[Mapping[str, float]], steps: int, message: Message | None) -> Progress:
    """Compute the progress of a training from its record of every step so far."""
    doing = (message.doing if message else "") or "starting"
    if not record or not steps:
        return Progress(f"{doing.capitalize()} …", 0.0)
    done = int(record[-1]["step"])
    if done >= steps:
        return Progress(f"All {steps} steps are done. {doing.capitalize() if doing != 'training' else 'Saving'} …", 1.0)
    left = text.seconds(_pace(record) * (steps - done))
    return Progress(f"Step {done} of {steps}, about {left} left; then the model is evaluated.", done / steps)


def losses(record: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return the points of the loss's curve: each step's loss, and the mean of a tenth of the steps up to it."""
    values = [row["loss"] for row in record]
    window = max(3, len(values) // 10)
    means = [fmean(values[max(0, place - window) : place]) for place in range(1, len(values) + 1)]
    return [{"step": row["step"], "loss": row["loss"], "mean": mean} for row, mean in zip(record, means, strict=True)]


def measures(report: Mapping[str, Any]) -> list[Measure]:
    """Return every score of a finished training before and after, those of held-out rows first."""
    result = []
    for score in report["scores"]:
        label, explained = _MEASURES.get(score["task"]) or _MEASURES[score["metric"]]
        moved = score["difference"]
        values = (score["before"]["value"], score["after"]["value"], moved["value"], moved["low"], moved["high"])
        result.append(Measure(label, explained, *values))
    return result


def summary(report: Mapping[str, Any]) -> str:
    """Return in sentences whether the model got better, and what it was made of."""
    verdict = report["verdict"]["sentence"].replace("->", "→")
    data, steps = report["data"], report["steps"]
    learned, held_out = text.count(data["train"], "row"), text.count(data["held_out"], "row")
    skipped = f" {text.count(data['skipped'], 'row')} could not be used." if data["skipped"] else ""
    seconds = text.seconds(steps["seconds"])
    return f"{verdict} Trained on {learned} in {seconds}, evaluated on {held_out} held out.{skipped}"


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
