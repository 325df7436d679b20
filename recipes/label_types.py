"""The label types that a recipe turns into questions, and how each of them is asked.

`wordings.json` holds them. All wordings were written for this project.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WORDINGS = Path(__file__).with_name("wordings.json")


@dataclass(frozen=True, slots=True)
class LabelType:
    """One kind of label of the training files.

    Attributes:
        name: such as ``review_polarity``.
        wordings: what is asked in training.
        held_out: what is asked to measure whether unmet wordings are followed, and never in training.
        answers: by label value, natural answers, the plainest first. That of ``relation`` also fills ``{relation}`` in
            the wordings of ``head_entity`` and ``tail_entity``.
        fields: what stands in braces in every wording, such as ``aspect``.
        open: whether a value without an answer of its own, such as an aspect in the text's words, is its own answer.
        whole_type_held_out: whether no wording of it is trained on.
        why: the reason for that; empty for the others.
    """

    name: str
    wordings: tuple[str, ...]
    held_out: tuple[str, ...]
    answers: Mapping[str, tuple[str, ...]]
    fields: tuple[str, ...]
    open: bool
    whole_type_held_out: bool
    why: str

    def answers_to(self, value: str) -> tuple[str, ...]:
        """Return the answers for a label value; ``KeyError`` for one that a closed type does not know."""
        return self.answers.get(value, (value,)) if self.open else self.answers[value]


def load_label_types() -> Mapping[str, LabelType]:
    """Return all label types by name."""
    rows = json.loads(_WORDINGS.read_text(encoding="utf-8"))
    return {name: _label_type(name, row) for name, row in rows.items()}


def _label_type(name: str, row: Mapping[str, Any]) -> LabelType:
    return LabelType(
        name,
        wordings=tuple(row["trained"]),
        held_out=tuple(row["held_out"]),
        answers={value: tuple(answers) for value, answers in row["answers"].items()},
        fields=tuple(row["fields"]),
        open=row["open"],
        whole_type_held_out=row["whole_type_held_out"],
        why=row.get("why", ""),
    )
