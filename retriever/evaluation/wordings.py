"""Wordings of the questions that suites ask: of labels that training knows, and of kinds that no training row asks.

They stand in ``wordings.json`` and ``unmet.json``; all were written for this project. Of the ten wordings of an unmet
kind the first three are a question, a command and a noun phrase, the fourth lists answers, the others differ in style
and in where they start.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeAlias

WordingKind: TypeAlias = Literal["correct", "implicit", "incorrect"]
WORDING_KINDS: tuple[WordingKind, ...] = ("correct", "implicit", "incorrect")


@dataclass(frozen=True, slots=True)
class Wordings:
    """Ways to ask for one label.

    Attributes:
        correct: says the same in other words.
        implicit: asks for the same as a user might, without naming it.
        incorrect: asks about something that does not bear on the label.
    """

    instruction: str
    correct: tuple[str, ...]
    implicit: tuple[str, ...]
    incorrect: tuple[str, ...]

    def of(self, kind: WordingKind) -> tuple[str, ...]:
        """Return the wordings of one kind."""
        return {"correct": self.correct, "implicit": self.implicit, "incorrect": self.incorrect}[kind]


def find_wordings(source: str, criterion: str) -> Wordings:
    """Return the wordings for one criterion of a source."""
    return all_wordings()[source, criterion]


@cache
def all_wordings() -> Mapping[tuple[str, str], Wordings]:
    """Return all wordings by source and criterion."""
    text = resources.files(__package__).joinpath("wordings.json").read_text(encoding="utf-8")
    return {
        (source, criterion): Wordings(
            wordings["instruction"], **{kind: tuple(wordings[kind]) for kind in WORDING_KINDS}
        )
        for source, criteria in json.loads(text).items()
        for criterion, wordings in criteria.items()
    }


FAMILIES = ("content", "form", "stance", "world knowledge")
"""Subjects of the kinds: what a text is about, what sort of text it is, how its writer or teller stands to what is
told, and what only somebody who knows more than the text can say."""


@dataclass(frozen=True, slots=True)
class UnmetKind:
    """A kind of question kept out of training, with the file whose texts it is asked of.

    Attributes:
        kind: its name, under which a row's labels hold the answer.
        file: in the data folder; nothing is trained on its texts.
        near: kinds of question that training asks of other texts, or may ask, and that lie near; mostly none or one.
    """

    kind: str
    file: str
    family: str
    near: tuple[str, ...]
    wordings: tuple[str, ...]


@cache
def unmet_kinds() -> Sequence[UnmetKind]:
    """Return all kinds, family by family."""
    return tuple(
        UnmetKind(row["kind"], row["file"], row["family"], tuple(row["near"]), tuple(row["wordings"]))
        for row in _table()["kinds"]
    )


@cache
def asked_in_training() -> frozenset[str]:
    """Return the kinds of held-out grids that training asks under the same name in grids of its own."""
    return frozenset(_table()["asked_in_training"])


def _table() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("unmet.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
