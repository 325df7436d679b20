"""The material of `ask`: texts with answers that were written by reading, and which of them meet a criterion.

The texts are of the data folders and are found by their ids; benchmarks/data holds what was written about them.
"""

import gzip
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from retriever.core.errors import InputError
from retriever.core.text import composed
from retriever.core.unanswered import folded
from retriever.encoders.answers.judging import Grade

FOLDER = Path(__file__).parent / "data"
SOURCES = {
    "reviews": ("reviews_dmaste.jsonl",),
    "messages": ("complaints.jsonl", "customer_support.jsonl", "software_issues.jsonl"),
}
"""The files of a corpus in the data folders."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a corpus.

    Attributes:
        key: a short name.
        question: as the reader is asked it.
        query: what is looked for among the answers.
        criterion: what hits are judged by.
    """

    key: str
    question: str
    query: str
    criterion: str


@dataclass(frozen=True, slots=True)
class AnsweredText:
    """A text and what was written about it.

    Attributes:
        id: in the data.
        text: itself.
        answers: by the question's key.
        meets: keys of the questions whose criterion it meets.
        labels: those of the data.
        by_hand: the group that an annotator put it into, by the question's key; of a part of the texts and questions.
        closed: the answer among categories that a reader wrote after thirty texts, of the same part.
    """

    id: str
    text: str
    answers: Mapping[str, str]
    meets: frozenset[str]
    labels: Mapping[str, str] = field(default_factory=dict)
    by_hand: Mapping[str, str] = field(default_factory=dict)
    closed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Material:
    """A corpus with its questions."""

    name: str
    questions: Sequence[Question]
    texts: Sequence[AnsweredText]

    def relevant(self, question: Question) -> frozenset[str]:
        """Return the ids of the texts that meet the criterion of a question."""
        return frozenset(text.id for text in self.texts if question.key in text.meets)

    def answers(self, *, wrong: float = 0.0) -> dict[tuple[str, str], str]:
        """Return the answers by text and question.

        Args:
            wrong: share of the texts that get the answer of a text which answers otherwise; the same ones every time.
        """
        chance = random.Random(37)
        answers = {}
        for question in self.questions:
            said = [text.answers[question.key] for text in self.texts]
            mistaken = set(chance.sample(range(len(said)), round(wrong * len(said))))
            for row, text in enumerate(self.texts):
                others = [answer for answer in said if answer != said[row]] if row in mistaken else []
                answers[text.text, question.question] = chance.choice(others) if others else said[row]
        return answers


def load_grades(material: Material) -> dict[tuple[str, str, str], Grade]:
    """Return how far answers meet the queries of a corpus, by question, query and folded answer."""
    written = json.loads((FOLDER / "ask_judgements.json").read_text("utf-8"))[material.name]
    return {
        (question.question, question.query, folded(answer)): Grade(grade)
        for question in material.questions
        for grade, answers in written[question.key].items()
        for answer in answers
    }


def load_replies() -> dict[str, Any]:
    """Return replies to calls about categories, by the key of the call."""
    replies: dict[str, Any] = json.loads((FOLDER / "ask_groups.json").read_text("utf-8"))
    return replies


def load_material(name: str, folders: Sequence[Path]) -> Material:
    """Return a corpus with its questions, the texts as the data folders have them.

    Args:
        name: a key of `SOURCES`.
        folders: where its files are.

    Raises:
        InputError: a file is missing, or a text is not there or is not the one that was read.
    """
    questions = [Question(**row) for row in json.loads((FOLDER / "ask_questions.json").read_text("utf-8"))[name]]
    rows = {row["id"]: row for file in SOURCES[name] for row in _rows(_path(file, folders))}
    texts = []
    for written in _rows(FOLDER / f"ask_{name}.jsonl.gz"):
        row = rows.get(written["source"])
        if row is None or sha256(row["text"].encode()).hexdigest()[:16] != written["sha256"]:
            raise InputError(
                f"The data do not hold the text {written['source']} that was read.", hint="Take the same data."
            )
        labels = {key: str(value) for key, value in row.get("labels", {}).items()}
        meets, sorted_by = frozenset(written["meets"]), (written.get("by_hand", {}), written.get("closed", {}))
        texts.append(AnsweredText(row["id"], composed(row["text"]), written["answers"], meets, labels, *sorted_by))
    return Material(name, questions, texts)


def _path(file: str, folders: Sequence[Path]) -> Path:
    for folder in folders:
        if (folder / file).is_file():
            return folder / file
    raise InputError(f"{file} is in none of the folders.", hint="Name the data folders.")


def _rows(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]
