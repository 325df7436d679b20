"""Which field of a QA file is what: the layouts people have, recognised by their field names."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from retriever.core.errors import InputError
from retriever.corpus.fields import TEXT_FIELDS, FieldNames

Role: TypeAlias = Literal["text", "instruction", "answer", "positives", "negatives", "group"]

_INSTRUCTIONS = ("instruction", "prompt")
_NEGATIVES = ("negatives", "negative", "neg")
_PASSAGE_NEGATIVES = ("negative_passages", "negative_documents")
_NUMBERED = re.compile(r"(?:negative|neg)_?([0-9]+)")
_BESIDE = ("id", "_id", "query_id", "split", "meta", "group", *_NEGATIVES)
_TEVATRON_IDS = ("positive_document_ids", "positive_passage_ids", "pos_ids")


@dataclass(frozen=True, slots=True)
class Layout:
    """Field names that make a file readable; the first present of each role's names is taken.

    Attributes:
        text: names of what is embedded.
        answer: names of the one right answer; empty where a row has positives.
        positives: names of texts that a search should find; empty where a row has an answer.
        asks: whether a row must have a question.
        negatives: names of wrong answers, or of texts that a search should not find.
        alone: whether it holds only where no field is left over that could be the text.
    """

    name: str
    text: Sequence[str]
    answer: Sequence[str] = ()
    positives: Sequence[str] = ()
    instruction: Sequence[str] = _INSTRUCTIONS
    asks: bool = False
    negatives: Sequence[str] = _NEGATIVES
    alone: bool = False

    def fields(self, names: Iterable[str]) -> dict[Role, tuple[str, ...]] | None:
        """Return the fields of every role a row has, or None if the row is not of this layout."""
        present = list(names)
        roles: dict[Role, tuple[str, ...]] = {"text": _first(self.text, present)}
        right: Role = "answer" if self.answer else "positives"
        roles[right] = _first(self.answer or self.positives, present)
        roles["instruction"] = _first(self.instruction, present)
        if not roles["text"] or not roles[right] or (self.asks and not roles["instruction"]):
            return None
        roles["negatives"] = _first(self.negatives, present) + _numbered(present)
        roles["group"] = _first(("group",), present)
        used = {name for role in roles.values() for name in role}
        if self.alone and set(present) - used - set(_BESIDE):
            return None
        return {role: fields for role, fields in roles.items() if fields}


LAYOUTS = (
    Layout(
        "text, question, answer",
        text=("context", "passage", "paragraph", *TEXT_FIELDS),
        answer=("answer", "output"),
        instruction=("question", *_INSTRUCTIONS),
        asks=True,
    ),
    Layout("instruction, input, output", text=("input",), answer=("output", "answer"), asks=True),
    Layout("query, positive_passages", text=("query",), positives=("positive_passages", "positive_documents"),
           negatives=_PASSAGE_NEGATIVES),
    Layout("query, pos, neg", text=("query",), positives=("pos",)),
    Layout("query, positive, negatives", text=("query", "anchor"), positives=("positives", "positive")),
    Layout("question, answer", text=("question",), answer=("answer",), alone=True),
)  # fmt: skip

_TEXTS = frozenset(
    name
    for layout in LAYOUTS
    for names in (layout.text, layout.answer, layout.positives, layout.instruction, layout.negatives, ("group",))
    for name in names
)


class QAFields(FieldNames):
    """The columns of a table of rows to learn from: any, those of the layouts kept as text."""

    __slots__ = ()

    def as_text(self, names: Iterable[str]) -> set[str]:
        """Return the columns that a layout knows; an answer "007" stays as it is."""
        return {name for name in names if name.casefold() in _TEXTS or _NUMBERED.fullmatch(name.casefold())}

    def check_columns(self, file: str, columns: Sequence[str], *, nested: bool = False) -> None:
        """Raise `InputError` unless the columns are distinct; whether they make a layout, the rows show."""
        repeated = {name.removesuffix(" (2)") for name in columns if name.endswith(" (2)")} & {*columns}
        if repeated:
            raise InputError(
                f"{file}: the column {min(repeated)!r} appears more than once.", hint="Rename one of them."
            )


def find_layout(values: Mapping[str, object], place: str) -> Layout:
    """Return the first layout a row is of. ``place`` names file and row, for the error.

    Raises:
        InputError: there is none; the row's fields and the known layouts are named.
    """
    for layout in LAYOUTS:
        if layout.fields(values):
            return layout
    names = ", ".join(repr(name) for name in list(values)[:20]) or "no fields"
    ids = next((name for name in _TEVATRON_IDS if name in values), None)
    if ids is not None:
        raise InputError(
            f"{place}: {ids!r} names documents whose texts are not in the file.",
            hint="Write the texts beside the ids, as positive_passages: [{'docid', 'title', 'text'}].",
        )
    known = "; ".join(layout.name for layout in LAYOUTS)
    raise InputError(f"{place}: the fields are not known: {names}.", hint=f"Rename them to one of: {known}.")


def describe(fields: Mapping[Role, Sequence[str]]) -> str:
    """Return a mapping in words: "text <- context, instruction <- question, answer <- answer"."""
    return ", ".join(f"{role} <- {' + '.join(names)}" for role, names in fields.items())


def _first(wanted: Sequence[str], present: Sequence[str]) -> tuple[str, ...]:
    return next(((name,) for name in wanted if name in present), ())


def _numbered(present: Sequence[str]) -> tuple[str, ...]:
    """Return the columns negative_1, negative_2, ... in the order of their numbers."""
    numbers = {name: int(match[1]) for name in present if (match := _NUMBERED.fullmatch(name))}
    return tuple(sorted(numbers, key=numbers.__getitem__))
