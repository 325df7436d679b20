"""Precision@10 of searches under questions, by who reads the texts and how far, for `ask`."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from ask_data import Material, Question
from ask_readers import NAME, Grades, Known, in_process
from numpy.typing import NDArray

from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.core.protocols import Encoder
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.results import SearchResult
from retriever.core.types import Document
from retriever.evaluation.scores import Score, difference, mean_score
from retriever.index.teaching.answering import DEFAULT
from retriever.workspace import Index

K = 10
TAUGHT_BY = 60
GROUPS = 8
"""Groups that the answers of examples are put into; smaller ones than `LEAST` teach nothing."""

LEAST = 3
SEED = 0


@dataclass(frozen=True, slots=True)
class Readers:
    """The encoders of the indexes."""

    encoder: Encoder
    plain: Encoder


@dataclass(frozen=True, slots=True)
class Curve:
    """The result of a way to search.

    Attributes:
        precision: (questions, answers), an answer that came after the last is the last.
        read: (questions, answers), texts that were read for each.
    """

    precision: NDArray[np.float64]
    read: NDArray[np.float64]

    def score(self, answer: int = -1) -> Score:
        """Return the mean precision@10 over questions of one answer, with its interval."""
        return mean_score("ask", "precision@10", self.precision[:, answer], seed=SEED)

    def to_json(self) -> dict[str, Any]:
        """Return means and intervals by answer, and the questions' own."""
        answers = range(self.precision.shape[1])
        return {
            "precision": [interval(self.score(answer)) for answer in answers],
            "texts_read": [round(float(mean), 1) for mean in self.read.mean(axis=0)],
            "by_question": [[round(float(value), 2) for value in row] for row in self.precision],
        }


@dataclass
class Bench:
    """A corpus with an index that holds its base view, which every way to search gets a copy of.

    Args:
        material: the corpus.
        readers: the encoders.
        folder: holds the indexes.
    """

    material: Material
    readers: Readers
    folder: Path
    _made: set[str] = field(default_factory=set)

    def base(self) -> Path:
        """Return an index of the texts, made at the first use."""
        path = self.folder / self.material.name
        if "base" not in self._made:
            with self.opened(path) as index:
                index.add([Document(text.id, text.text) for text in self.material.texts])
            self._made.add("base")
        return path

    def whole(self) -> Path:
        """Return an index that holds the texts under every question as ``default`` reads them."""
        path = self.folder / f"{self.material.name}-whole"
        if "whole" not in self._made:
            shutil.copytree(self.base(), path)
            with self.opened(path) as index:
                index.upkeep.complete([question.question for question in self.material.questions])
            self._made.add("whole")
        return path

    def copied(self, path: Path) -> Path:
        """Return a copy of an index, in the place of the last one."""
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path, copy)
        return copy

    def opened(self, path: Path, options: SearchOptions | None = None) -> Index:
        """Open an index with the encoders."""
        return Index(path, encoder=self.readers.encoder, plain=self.readers.plain, search_options=options)

    def reachable(self) -> Score:
        """Return the mean precision@10 of a perfect ranking."""
        best = [min(K, len(self.material.relevant(question))) / K for question in self.material.questions]
        return mean_score("ask", "precision@10", np.array(best), seed=SEED)

    def plain(self) -> Curve:
        """Search by the queries alone, without a question."""
        with self.opened(self.copied(self.base())) as index:
            return self.searched(index, None)

    def default(self, *, complete: bool, options: SearchOptions | None = None) -> Curve:
        """Search under the questions as the shipped reader has them, lazily or with all texts read."""
        with self.opened(self.copied(self.whole() if complete else self.base()), options) as index:
            return self.searched(index, DEFAULT)

    def answered(
        self,
        known: Known,
        grades: Grades | None = None,
        *,
        complete: bool = False,
        options: SearchOptions | None = None,
    ) -> Curve:
        """Search under the questions by answers in words, given in this process; with grades they are judged."""
        with in_process(known, grades), self.opened(self.copied(self.base()), options) as index:
            if complete:
                read_all(index, [question.question for question in self.material.questions], NAME)
            return self.searched(index, NAME, judge=grades is not None)

    def taught(self, known: Known) -> Curve:
        """Search where ``default`` read all texts, and 60 of them taught it with their answers, put into groups.

        The texts are those that `worth_answering` names. The answers, embedded by the base encoder, go into eight
        groups, each named by its most central answer. A question to which all of them say the same is not taught.
        """
        with self.opened(self.copied(self.whole())) as index:
            for question in self.material.questions:
                hits = index.teaching.worth_answering(question.question, TAUGHT_BY)
                said = {hit.document.id: known[hit.document.text, question.question] for hit in hits}
                examples = self._grouped(said)
                if len(set(examples.values())) > 1:
                    index.teaching.teach(question.question, list(examples.items()))
            return self.searched(index, DEFAULT)

    def _grouped(self, said: dict[str, str]) -> dict[str, str]:
        """Return the name of each text's group of answers, by id; texts of groups that are too small are left out."""
        groups = spherical_kmeans(self.readers.plain.encode(list(said.values())), GROUPS)
        answers = np.array(list(said.values()))
        names = {}
        for number in np.unique(groups.labels):
            rows = np.flatnonzero(groups.labels == number)
            if len(rows) >= LEAST:
                names[number] = str(answers[rows[groups.cosines[rows].argmax()]])
        labels = zip(said, groups.labels, strict=True)
        return {id: names[label] for id, label in labels if label in names}

    def searched(
        self,
        index: Index,
        reader: str | None,
        on_question: Callable[[], None] | None = None,
        *,
        judge: bool = False,
    ) -> Curve:
        """Search under every question and judge every answer.

        Args:
            index: the index.
            reader: who reads; None for searches without a question.
            on_question: called after each.
            judge: whether the reader judges the first answers against the query.
        """
        rows: list[list[SearchResult]] = []
        for question in self.material.questions:
            instruction = question.question if reader else None
            request = SearchRequest(question.query, instruction=instruction, reader=reader, k=K, judge=judge)
            rows.append(list(index.search_progressively(request)))
            if on_question is not None:
                on_question()
        most = max(map(len, rows))
        rows = [row + [row[-1]] * (most - len(row)) for row in rows]
        pairs = list(zip(self.material.questions, rows, strict=True))
        return Curve(
            np.array([[self._precision(question, result) for result in row] for question, row in pairs]),
            np.array(
                [[result.settling.read if result.settling else 0 for result in row] for _, row in pairs],
                dtype=np.float64,
            ),
        )

    def _precision(self, question: Question, result: SearchResult) -> float:
        relevant = self.material.relevant(question)
        return sum(hit.document.id in relevant for hit in result.hits) / K


def read_all(index: Index, questions: Sequence[str], reader: str) -> None:
    """Let a reader read every text under some questions."""
    for question in questions:
        index.teaching.read_by(question, reader)
        index.teaching.read(question)


def interval(score: Score) -> list[float]:
    """Return value and bootstrap interval."""
    return [round(value, 3) for value in (score.value, score.low, score.high)]


def gained(ours: Curve, theirs: Curve) -> list[float]:
    """Return the difference of the last answers of two ways to search, with its paired interval."""
    between = difference(ours.score(), theirs.score())
    return [round(value, 3) for value in (between.value, between.low, between.high)]
