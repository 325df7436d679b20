"""Read the kinds of question that no training row asks, and ten wordings of each.

They stand in ``unmet.json``; all wordings were written for this project. The first three are a question, a command and
a noun phrase, the fourth lists answers, the others differ in style and in where they start.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

FAMILIES = ("content", "form", "stance", "world knowledge")
"""What the kinds ask for: what a text is about, what sort of text it is, how its writer or teller stands to what is
told, and what only a reader who knows more than the text can say."""


@dataclass(frozen=True, slots=True)
class UnmetKind:
    """A kind of question kept out of training, with the file whose texts it is asked of.

    Attributes:
        kind: its name, under which a row's labels hold the answer.
        file: in the data folder; nothing is trained on its texts.
        family: one of `FAMILIES`.
        near: kinds of question that training asks of other texts, or may ask, and that lie near; mostly none or one.
        wordings: ways to ask it.
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
