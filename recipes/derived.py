"""Labels that plain code reads off any text, as further kinds of instruction to learn from.

How each is asked stands in `derived_wordings.json`; how it is found, in `text_rules`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import text_rules as rules
from text_words import Rule, in_short_texts, named

_WORDINGS = Path(__file__).with_name("derived_wordings.json")


@dataclass(frozen=True, slots=True)
class DerivedLabel:
    """One such label.

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
    rows = json.loads(_WORDINGS.read_text(encoding="utf-8"))
    return tuple(
        DerivedLabel(name, tuple(row["trained"]), tuple(row["held_out"]), RULES[name], row["whole_type_held_out"])
        for name, row in rows.items()
    )


DERIVED = _load()
