"""Read the suites' instructions for labelled texts: a plain one for every criterion, and thirty wordings around it.

All were written for this project and stand in ``wordings.json``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, TypeAlias

from retriever.core.errors import UsageError
from retriever.core.registry import nearest

WordingKind: TypeAlias = Literal["correct", "implicit", "incorrect"]
WORDING_KINDS: tuple[WordingKind, ...] = ("correct", "implicit", "incorrect")


@dataclass(frozen=True, slots=True)
class Wordings:
    """Ways to ask for one label.

    Attributes:
        instruction: the plain one.
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
    """Return the wordings for one criterion of a source.

    Raises:
        UsageError: there are none.
    """
    table = all_wordings()
    if (source, criterion) not in table:
        known = [f"{one} {other}" for one, other in table]
        raise UsageError(f"No wordings for {criterion!r} of {source!r}.", hint=nearest(f"{source} {criterion}", known))
    return table[source, criterion]


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
