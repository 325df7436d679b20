"""Categories proposed for a question, to edit and to classify by, from the answers that its texts have.

The language model that gave the answers writes the categories. Where there is none at a chat endpoint, or its reply
cannot be used, they are groups of answers.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.clusters.categories import Category
from retriever.clusters.phrases import Phrase, counted
from retriever.core.errors import InputError, RetrieverError
from retriever.core.paths import write_output
from retriever.core.results import SCHEMA_VERSION, KnownAnswers
from retriever.core.types import Embeddings
from retriever.core.unanswered import EMPTY, NOT_SAID, NOTHING
from retriever.encoders.answers.categories import MOST
from retriever.encoders.answers.places import METHOD
from retriever.index.opened import Opened

TEXTS = 30
"""Texts whose answers are looked at where there are no more."""

SENT_TOKENS = 1400
"""Tokens of the answers that a language model is sent at most, the commonest ones first, by their estimate."""

_ITEM_TOKENS = 7  # of an answer's id and of what stands around both
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
        categories: those with most texts first, "nothing" last.
        written_by: name of the language model that wrote the categories; None where they are groups of answers.
        fault: why the language model that gave the answers wrote none; empty where it was not asked to, or did.
        known_answers: the answers that the filter looks at; None where it asks for none.
    """

    instruction: str
    reader: str
    texts: int
    not_said: int
    categories: Sequence[Proposed]
    written_by: str | None = None
    fault: str = ""
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
            "written_by": self.written_by,
            "fault": self.fault,
            "categories": categories,
            "known_answers": None if self.known_answers is None else asdict(self.known_answers),
        }


def propose(
    instruction: str, reader: str, answers: Sequence[str], vectors: Embeddings, written: "Written | None" = None
) -> Proposal:
    """Make categories of answers: those that a language model wrote, else groups.

    "nothing" is a category of its own; "not said" is none, since `classify` offers it besides.

    Args:
        instruction: the question.
        reader: name of who answered.
        answers: of n texts.
        vectors: (n, dim) of the answers.
        written: what the reader made of the answers; None where it was not asked.

    Raises:
        InputError: there are fewer than two categories to tell apart.
    """
    keys = [answer.casefold() for answer in answers]
    nothing, not_said = keys.count(NOTHING), keys.count(NOT_SAID)
    by_reader = list(written.categories) if written is not None else []
    categories = by_reader or _grouped(answers, keys, vectors, MOST - (nothing > 0))
    categories = sorted(categories, key=lambda proposed: -proposed.texts)[: MOST - (nothing > 0)]
    if nothing and NOTHING not in {proposed.category.name.casefold() for proposed in categories}:
        categories.append(Proposed(Category(NOTHING, "The text says that there is none."), nothing))
    if len(categories) < 2:
        raise InputError(
            f"The {len(answers)} answers to {instruction!r} do not come to two categories.",
            hint="Read more texts first (`retriever cluster --read 300`), or name categories yourself.",
        )
    fault = "" if written is None else written.fault
    return Proposal(instruction, reader, len(answers), not_said, categories, reader if by_reader else None, fault)


def _grouped(answers: Sequence[str], keys: Sequence[str], vectors: Embeddings, most: int) -> list[Proposed]:
    """Group answers by k-means: a category is named by its group's commonest answer, and defined by the commonest.

    Args:
        answers: of n texts.
        keys: the same, in lower case.
        vectors: (n, dim) of the answers.
        most: groups at most.
    """
    first: dict[str, int] = {}  # spellings of one answer share a vector, and so a group
    for row, key in enumerate(keys):
        first.setdefault(key, row)
    rows = [row for row, key in enumerate(keys) if key not in EMPTY]
    most = min(most, len({keys[row] for row in rows}))
    if not most:
        return []
    labels = spherical_kmeans(vectors[[first[keys[row]] for row in rows]], most).labels
    groups = [
        counted([answers[rows[place]] for place in np.flatnonzero(labels == number).tolist()])
        for number in range(int(labels.max()) + 1)
    ]
    return [Proposed(Category(of[0].text, _definition(of)), sum(phrase.rows for phrase in of)) for of in groups if of]


@dataclass(frozen=True, slots=True)
class Written:
    """Categories that a language model wrote, or the sentence that says why there are none."""

    categories: Sequence[Proposed] = ()
    fault: str = ""


def write_categories(opened: Opened, by: str, instruction: str, answers: Sequence[str]) -> Written | None:
    """Ask a language model for categories of its answers, once more where a reply is refused.

    An answer that seems to speak to the model is not sent.

    Args:
        opened: the index.
        by: who answered.
        instruction: the question.
        answers: to it.

    Returns:
        None where who answered is no model at a chat endpoint.
    """
    from retriever.encoders.answers.categories import CategoriesCall
    from retriever.encoders.answers.wire import addresses_reader, estimated_tokens

    if not by.startswith(f"{METHOD}:"):
        return None
    phrases = [phrase for phrase in counted(answers) if phrase.text.casefold() not in EMPTY]
    phrases = [phrase for phrase in phrases if not addresses_reader(phrase.text)]
    tokens = accumulate(_ITEM_TOKENS + estimated_tokens(json.dumps(phrase.text)) for phrase in phrases)
    phrases = phrases[: sum(so_far <= SENT_TOKENS for so_far in tokens)]
    if len(phrases) < 2:
        return Written()
    call = CategoriesCall(instruction, [phrase.text for phrase in phrases])
    try:
        checked, refused = opened.asker.send(by, call, len(phrases), opened.budget)
    except RetrieverError as error:  # the answers are here, and who gave them cannot be asked now
        return Written(fault=str(error))
    if refused:
        return Written(fault=refused)
    return Written(
        [
            Proposed(Category(each.name, each.definition), sum(phrases[row].rows for row in each.rows))
            for each in checked.categories
        ]
    )


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
