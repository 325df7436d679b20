"""Texts of other kinds than training's, under questions in words that it never saw: reviews, tickets, chat and tweets.

``verdict_unlike.json`` has the questions, a source each: its files, and for every kind of label three wordings, what
its values are called where that is not their name, and which wordings were ``misread``: of sixteen texts fewer than
half had an answer that a careful reader calls right. Kinds without labels are all misread. Texts are of the project's
examples, of ``verdict_texts.jsonl``, written for measuring alone, and of the data folders: of these only such as no
model was trained on.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from verdict_kinds import Source

from retriever.evaluation.grids import SILENT, Question, spread
from retriever.evaluation.unmet import by_file
from retriever.evaluation.wordings import unmet_kinds

ROOT = Path(__file__).parents[1]
QUESTIONS = Path(__file__).with_suffix(".json")
ANSWERS = ROOT / "benchmarks/data"
OURS = (ROOT / "examples", Path(__file__).parent)
"""Where files are whose texts no model was trained on."""


def unlike(folders: Sequence[Path], limit: int) -> Iterator[Source]:
    """Yield every source, its texts spread over the answers, in a random order.

    Args:
        folders: the data folders.
        limit: most texts of a source, where the file of questions does not say how many.
    """
    for entry in json.loads(QUESTIONS.read_text("utf-8")):
        texts = _texts([_path(file, folders) for file in entry["files"]], entry.get("answered"))
        columns = [_column(question, list(texts.values())) for question in entry["questions"]]
        chosen = spread(columns, entry.get("texts", limit), seed=1)
        chosen = [chosen[place] for place in np.random.default_rng(1).permutation(len(chosen))]
        questions = [
            Question(question["kind"], question["wordings"], [_said(column[row]) for row in chosen])
            for question, column in zip(entry["questions"], columns, strict=True)
        ]
        yield Source(entry["name"], [list(texts)[row] for row in chosen], questions)


def _path(file: str, folders: Sequence[Path]) -> Path:
    return next(folder / file for folder in [*OURS, *folders] if (folder / file).is_file())


def _texts(files: Sequence[Path], answered: str | None) -> dict[str, Mapping[str, Any]]:
    """Return labels by text: of those that an annotator sorted by hand, else of those no model was trained on."""
    if answered is None:
        return {row["text"]: {**row, **row.get("labels", {})} for file in files for row in _untrained(file)}
    by_hand = {row["source"]: row for row in _lines(_path(answered, [ANSWERS])) if "by_hand" in row}
    rows = [(row["text"], by_hand[row["id"]]) for file in files for row in _lines(file) if row["id"] in by_hand]
    return {text: row["by_hand"] for text, row in rows if sha256(text.encode()).hexdigest()[:16] == row["sha256"]}


def _untrained(file: Path) -> list[dict[str, Any]]:
    rows = _lines(file)
    free = file.parent in OURS or file.name in by_file(unmet_kinds())
    return rows if free else [row for row in rows if row["split"] == "dev"]


def _lines(file: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _column(question: Mapping[str, Any], labels: Sequence[Mapping[str, Any]]) -> list[str]:
    called = question.get("answers", {})
    values = [str(row.get(question["kind"], "")) for row in labels]
    return [called.get(value, value) for value in values]


def _said(value: str) -> str | None:
    return None if not value or value in SILENT else value


def judged_sources() -> frozenset[str]:
    """Return the names of all sources."""
    return frozenset(entry["name"] for entry in json.loads(QUESTIONS.read_text("utf-8")))


def misread() -> frozenset[tuple[str, str]]:
    """Return the source and the wording of every question whose answers are wrong for most texts."""
    entries = json.loads(QUESTIONS.read_text("utf-8"))
    return frozenset(
        (entry["name"], wording)
        for entry in entries
        for question in entry["questions"]
        for wording in question.get("misread", ())
    )
