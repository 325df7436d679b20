"""The labelled texts and questions by which `verdict.py` holds verdicts to the truth."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from retriever.evaluation.grids import SILENT, Question, spread
from retriever.evaluation.labelled import LABELLED, balanced_sample, load_texts
from retriever.evaluation.rows import held_out, read_rows
from retriever.evaluation.unmet import by_file
from retriever.evaluation.wordings import find_wordings, unmet_kinds

LEAST_TEXTS = 40
MOST_QUESTIONS = 3
"""Questions taken of a file or grid, so that none has most of the say."""
INTENTS = 12
WORDINGS = 3
"""Ways in which a question is asked; each is a case of its own, since a model may follow one and not another."""
PLAIN = {
    "banking77.jsonl": {
        "intent": (
            "What does the customer want?",
            "What is the reason for this message?",
            "Name the request to the bank.",
        )
    },
    "goemotions.jsonl": {
        "emotion": (
            "Which emotion does the comment show?",
            "How does the person feel?",
            "Tell me the feeling behind these words.",
        ),
        "sentiment": (
            "Is it positive or negative?",
            "Does the comment sound pleased or displeased?",
            "Say whether the mood is good or bad.",
        ),
    },
}


@dataclass(frozen=True, slots=True)
class Source:
    """Texts of one file, with its questions in several wordings each.

    Attributes:
        name: of the file, and of the grid inside it.
        texts: different ones.
        questions: with an answer for every text; None where it has none.
    """

    name: str
    texts: Sequence[str]
    questions: Sequence[Question]


def sources(data: Path, data2: Path, limit: int) -> Iterator[Source]:
    """Yield every labelled file of both folders, and the grids that nothing is trained on; texts in a random order."""
    for source in _sources(data, data2, limit):
        order = np.random.default_rng(0).permutation(len(source.texts))
        yield Source(
            source.name,
            [source.texts[row] for row in order],
            [
                Question(question.kind, question.wordings, [question.answers[row] for row in order])
                for question in source.questions
            ],
        )


def _sources(data: Path, data2: Path, limit: int) -> Iterator[Source]:
    for source in LABELLED.values():
        texts = balanced_sample(load_texts(data, source), limit, seed=0)
        questions = []
        for place, criterion in enumerate(source.criteria):
            known = find_wordings(source.name, criterion)
            wordings = [known.instruction, *known.correct][:WORDINGS]
            questions.append(Question(criterion, wordings, [text.labels[place] for text in texts]))
        yield Source(source.name, [text.text for text in texts], questions)
    for file, worded in PLAIN.items():
        rows = [(row.get("text", str), row.get("labels", dict)) for row in held_out(read_rows(data, file))]
        yield from _source(file, rows, worded, limit)
    kinds = json.loads((data2 / "kinds.json").read_text())["kinds"]
    unmet = {kind.kind: kind.wordings for file in by_file(unmet_kinds()).values() for kind in file}
    for name in dict.fromkeys(kind["source"] for kind in kinds):
        worded = {
            kind["name"]: unmet.get(kind["name"]) or [wording["text"] for wording in kind["instructions"]]
            for kind in kinds
            if kind["source"] == name
        }
        worded = dict(sorted(worded.items(), key=lambda pair: pair[0] not in unmet)[:MOST_QUESTIONS])
        rows = read_rows(data2, f"{name}.jsonl")
        if not any(kind in unmet for kind in worded):
            rows = [row for row in rows if row.split == "dev"]
        pairs = [(row.get("text", str), row.get("labels", dict)) for row in rows]
        yield from _source(name, pairs, worded, limit)
    yield from _grids(data2)


def _grids(data2: Path) -> Iterator[Source]:
    grids = [json.loads(line) for line in (data2 / "asked.jsonl").read_text().splitlines()]
    for grid in (grid for grid in grids if grid["split"] == "dev"):
        questions = []
        for place, question in enumerate(grid["questions"][:MOST_QUESTIONS]):
            answers = [row["answers"][place] for row in grid["rows"]]
            known = [None if answer in SILENT else answer for answer in answers]
            questions.append(Question(question["kind"], question["wordings"][:WORDINGS], known))
        yield Source(f"grid{grid['grid']}", [row["text"] for row in grid["rows"]], questions)


def _source(
    name: str,
    rows: Sequence[tuple[str, dict[str, str]]],
    worded: Mapping[str, Sequence[str]],
    limit: int,
) -> Iterator[Source]:
    """Yield one source with texts that have at least one label, evenly by answer, if there are enough."""
    texts = {text: labels for text, labels in rows if any(kind in labels for kind in worded)}
    if name.startswith("banking"):
        common = sorted({labels["intent"] for labels in texts.values()})[:INTENTS]
        texts = {text: labels for text, labels in texts.items() if labels["intent"] in common}
    if len(texts) < LEAST_TEXTS:
        return
    columns = [[str(labels.get(kind, "")) for labels in texts.values()] for kind in worded]
    chosen = spread(columns, limit, seed=0)
    questions = [
        Question(kind, wordings[:WORDINGS], [column[row] or None for row in chosen])
        for (kind, wordings), column in zip(worded.items(), columns, strict=True)
    ]
    yield Source(name, [list(texts)[row] for row in chosen], questions)
