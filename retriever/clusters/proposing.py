"""Categories proposed for a question: groups of the answers that its texts have, to edit and to classify by."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.clusters.categories import Category
from retriever.clusters.phrases import EMPTY, NOTHING, Phrase, counted
from retriever.core.errors import InputError
from retriever.core.paths import write_output
from retriever.core.results import SCHEMA_VERSION, KnownAnswers
from retriever.core.types import Embeddings
from retriever.encoders.answers.answerer import NOT_SAID

TEXTS = 30
"""Texts whose answers are looked at where there are no more."""

MOST = 12
"""Categories that are offered at most."""

_QUOTED = 3  # answers in a definition


@dataclass(frozen=True, slots=True)
class Proposed:
    """A proposed category, and how many of the texts have one of its answers."""

    category: Category
    texts: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """Categories that the answers to a question suggest.

    Attributes:
        instruction: the question.
        reader: name of who answered.
        texts: whose answers were looked at.
        not_said: those of them that do not answer.
        categories: those with most texts first.
        known_answers: the answers that the filter looks at; None where it asks for none.
    """

    instruction: str
    reader: str
    texts: int
    not_said: int
    categories: Sequence[Proposed]
    known_answers: KnownAnswers | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        categories = [{**_entry(proposed.category), "texts": proposed.texts} for proposed in self.categories]
        return {
            "schema_version": SCHEMA_VERSION,
            "instruction": self.instruction,
            "reader": self.reader,
            "texts": self.texts,
            "not_said": self.not_said,
            "categories": categories,
            "known_answers": None if self.known_answers is None else asdict(self.known_answers),
        }


def propose(instruction: str, reader: str, answers: Sequence[str], vectors: Embeddings) -> Proposal:
    """Group answers by k-means, a category a group: named by its commonest answer, defined by its commonest ones.

    "nothing" is a category of its own; "not said" is none, since `classify` offers it besides.

    Args:
        instruction: the question.
        reader: name of who answered.
        answers: of n texts.
        vectors: (n, dim) of the answers.

    Raises:
        InputError: there are fewer than two groups to tell apart.
    """
    keys = [answer.casefold() for answer in answers]
    first: dict[str, int] = {}  # spellings of one answer share a vector, and so a group
    for row, key in enumerate(keys):
        first.setdefault(key, row)
    rows = [row for row, key in enumerate(keys) if key not in EMPTY]
    nothing = keys.count(NOTHING)
    most = min(MOST - (nothing > 0), len({keys[row] for row in rows}))
    groups: list[list[Phrase]] = []
    if most:
        labels = spherical_kmeans(vectors[[first[keys[row]] for row in rows]], most).labels
        groups = [
            counted([answers[rows[place]] for place in np.flatnonzero(labels == number).tolist()])
            for number in range(int(labels.max()) + 1)
        ]
    categories = [
        Proposed(Category(of[0].text, _definition(of)), sum(phrase.rows for phrase in of)) for of in groups if of
    ]
    categories.sort(key=lambda proposed: -proposed.texts)
    if nothing:
        categories.append(Proposed(Category(NOTHING, "The text says that there is none."), nothing))
    if len(categories) < 2:
        raise InputError(
            f"The {len(answers)} answers to {instruction!r} do not come to two categories.",
            hint="Read more texts first (`retriever cluster --read 300`), or name categories yourself.",
        )
    return Proposal(instruction, reader, len(answers), keys.count(NOT_SAID), categories)


def write_proposal(path: Path, proposal: Proposal) -> None:
    """Write the proposed categories as a JSON file that ``--into`` reads.

    Raises:
        OutputError: the file cannot be written.
    """
    entries = [_entry(proposed.category) for proposed in proposal.categories]
    write_output(path, json.dumps(entries, ensure_ascii=False, indent=2) + "\n", "--output")


def _entry(category: Category) -> dict[str, str]:
    return {"name": category.name, "description": category.description}


def _definition(phrases: Sequence[Phrase]) -> str:
    """Return a sentence made of the commonest answers."""
    quoted = [f'"{phrase.text}"' for phrase in phrases[:_QUOTED]]
    if len(quoted) == 1:
        return f"Answers such as {quoted[0]}."
    return f"Answers such as {', '.join(quoted[:-1])} and {quoted[-1]}."
