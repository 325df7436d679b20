"""Subjects that a recipe asks about: label types of the training files, and labels that plain code reads off any text.

How each is asked stands in `wordings.json` and `derived_wordings.json`, all written for this project; how a derived
label is found, in `text_rules`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import text_rules as rules
from text_words import Rule, in_short_texts, named

_WORDINGS, _DERIVED = (Path(__file__).with_name(name) for name in ("wordings.json", "derived_wordings.json"))


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


@dataclass(frozen=True, slots=True)
class DerivedLabel:
    """A label that plain code reads off a text.

    Attributes:
        name: such as ``tense``.
        wordings: what is asked in training.
        held_out: what is asked to measure whether unmet wordings are followed, and never in training.
        rule: gives the answer for a text, or None where it is not sure.
        held_out_type: whether no wording of it is trained on.
    """

    name: str
    wordings: tuple[str, ...]
    held_out: tuple[str, ...]
    rule: Rule
    held_out_type: bool


_CONTENT: Mapping[str, Rule] = {
    "asks": rules.asks,
    "number": rules.number,
    "money": rules.money,
    "time_unit": rules.time_unit,
    "family_member": named("family_member"),
    "occupation": named("occupation"),
    "place_kind": rules.place_kind,
    "country": named("country", proper=True),
    "person_of_speech": rules.person_of_speech,
    "tense": rules.tense,
    "negation": rules.negation,
    "comparison": rules.comparison,
    "recommendation": rules.recommendation,
    "bought_for": rules.bought_for,
    "problem": rules.problem,
    "request": rules.request,
    "politeness": rules.politeness,
    "swearing": rules.swearing,
    "food": named("food"),
    "body_part": named("body_part"),
    "animal": named("animal"),
    "weather": named("weather"),
    "color": named("color"),
    "material": named("material"),
    "clothing": named("clothing"),
    "vehicle": named("vehicle"),
    "certainty": rules.certainty,
}
_FORM: Mapping[str, Rule] = {
    "length": rules.length,
    "tone": rules.tone,
    "first_word": rules.first_word,
    "last_word": rules.last_word,
    "longest_word": rules.longest_word,
    "main_word": rules.main_word,
    "sentence_count": rules.sentence_count,
}
RULES: Mapping[str, Rule] = {**{name: in_short_texts(rule) for name, rule in _CONTENT.items()}, **_FORM}


def _load() -> tuple[DerivedLabel, ...]:
    rows = json.loads(_DERIVED.read_text(encoding="utf-8"))
    return tuple(
        DerivedLabel(name, tuple(row["trained"]), tuple(row["held_out"]), RULES[name], row["whole_type_held_out"])
        for name, row in rows.items()
    )


DERIVED = _load()
