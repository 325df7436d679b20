"""Examples that a question is taught by: read from a file or given, found in the index, and refused with a sentence."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from retriever.core.errors import InputError, UsageError
from retriever.core.fingerprint import content_hash
from retriever.core.text import is_text, shortened
from retriever.core.types import Ids
from retriever.corpus.beside import number_as_text, read_beside
from retriever.index.teaching.labels import KeptLabels, Labels
from retriever.store.database import Store

LEAST = 3
"""Fewest examples of an answer."""
ENOUGH = 6
"""Examples of an answer; texts like one that has fewer are searched for."""
MOST_EXAMPLES = 20_000
MOST_ANSWERS = 200
LONGEST_ANSWER = 200
"""Most characters of an answer."""

_MEND = "Correct or remove the row. Nothing was taught."
_SHOWN = 40  # characters of a text in a message
_NAMED = 5  # answers in a message


@dataclass(frozen=True, slots=True)
class Example:
    """A document and the answer it gives to a question.

    Attributes:
        answer: in a few words.
        id: of the document; None where its text is given.
        text: of the document; None where its id is given.
        place: where it stands, for messages; empty where it was given in Python.
    """

    answer: str
    id: str | None = None
    text: str | None = None
    place: str = ""

    def __str__(self) -> str:
        named = f"document {self.id!r}" if self.id is not None else f"the text {shortened(self.text or '', _SHOWN)!r}"
        return f"{self.place} ({named})" if self.place else named


GivenExamples = Iterable[Example | Mapping[str, object] | tuple[str, str]]
"""Examples as they are given in Python: `Example`s, mappings as in a file, or pairs of id and answer."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundExamples:
    """Examples as an index knows them, each text once.

    Attributes:
        content_ids: (n,) of the texts, ascending.
        answers: of each.
        descriptions: of answers, by their names; those without one are left out.
        unlearned: answers of the question that have too few examples, with how many they have.
    """

    content_ids: Ids
    answers: Sequence[str]
    descriptions: Mapping[str, str] = field(default_factory=dict)
    unlearned: Mapping[str, int] = field(default_factory=dict)


def read_examples(file: Path) -> list[Example]:
    """Return the examples of a file: rows of ``id`` or ``text``, and ``answer``, in any format of a corpus.

    Raises:
        InputError: the file cannot be read or is empty, or a row is none; file and line are named.
    """
    return [_checked(row.values, row.place) for row in read_beside(file, needed=("answer",), hint=_MEND)]


def given_examples(examples: GivenExamples) -> list[Example]:
    """Return examples that are given in Python.

    Raises:
        InputError: one is none of these.
    """
    parsed = []
    for number, example in enumerate(examples, start=1):
        place = f"Example {number}"
        if isinstance(example, Example):
            values: Mapping[str, object] = {"id": example.id, "text": example.text, "answer": example.answer}
            place = example.place or place
        elif isinstance(example, Mapping):
            values = example
        elif isinstance(example, tuple) and len(example) == 2:
            values = {"id": example[0], "answer": example[1]}
        else:
            raise _mend(f"{place} is {type(example).__name__}, not an id and an answer.")
        parsed.append(_checked(values, place))
    return parsed


def found_examples(store: Store, examples: Sequence[Example]) -> FoundExamples:
    """Return the texts of examples by content id; one that is there twice with one answer counts once.

    Raises:
        InputError: a document or text is not in the index, a text has two answers, an answer has too few examples, or
            all have the same.
        UsageError: there are too many.
    """
    if len(examples) > MOST_EXAMPLES:
        raise UsageError(f"{len(examples)} examples are too many.", hint=f"Give at most {MOST_EXAMPLES}.")
    by_content: dict[int, Example] = {}
    contents = contents_of(store, examples)
    for example, content_id in zip(_spelled_alike(examples), contents, strict=True):
        first = by_content.setdefault(content_id, example)
        if first.answer != example.answer:
            raise InputError(
                f"{first} and {example} are one text with two answers: {first.answer!r}, {example.answer!r}.",
                hint="Take one of them out. Nothing was taught.",
            )
    require_enough([example.answer for example in by_content.values()])
    ids = sorted(by_content)
    return FoundExamples(np.array(ids, dtype=np.int64), [by_content[content_id].answer for content_id in ids])


def _spelled_alike(examples: Sequence[Example]) -> list[Example]:
    """Return examples whose answers differ in more than capitals and spaces, as they are first spelled."""
    spelled: dict[str, str] = {}
    keys = [" ".join(example.answer.split()).casefold() for example in examples]
    for key, example in zip(keys, examples, strict=True):
        spelled.setdefault(key, example.answer)
    return [replace(example, answer=spelled[key]) for key, example in zip(keys, examples, strict=True)]


def kept_examples(store: Store, labels: KeptLabels) -> FoundExamples:
    """Return the kept examples of a question whose documents are still there, of answers that have enough of them.

    Raises:
        InputError: fewer than two answers have.
        UsageError: there are too many.
    """
    live = sorted(labels.examples.keys() & set(store.documents.live_contents().tolist()))
    counts = Counter(labels.examples[content_id] for content_id in live)
    ids = [content_id for content_id in live if counts[labels.examples[content_id]] >= LEAST]
    answers = [labels.examples[content_id] for content_id in ids]
    if len(set(answers)) < 2:
        raise InputError(
            f"Fewer than two answers have {LEAST} examples.",
            hint=f"Give {LEAST} examples or more of each of two answers at least. Nothing was taught.",
        )
    require_enough(answers)
    return FoundExamples(np.array(ids, dtype=np.int64), answers)


def few_examples(labels: Labels) -> list[str]:
    """Return the named answers that have fewer than `ENOUGH` examples, with their descriptions, the fewest first."""
    counts, texts = Counter(labels.examples.values()), labels.answers
    few = sorted((answer for answer in texts if counts[answer] < ENOUGH), key=lambda answer: counts[answer])
    return [f"{answer}: {texts[answer]}" if texts[answer] else answer for answer in few]


def with_labels(examples: FoundExamples, labels: KeptLabels) -> FoundExamples:
    """Return examples with what is kept of their question besides: descriptions, and answers with too few examples."""
    counts, learned = Counter(labels.examples.values()), set(examples.answers)
    descriptions = {answer: text for answer, text in labels.answers.items() if text and answer in learned}
    named = dict.fromkeys([*labels.answers, *counts])
    return replace(
        examples,
        descriptions=descriptions,
        unlearned={answer: counts[answer] for answer in named if answer not in learned},
    )


def contents_of(store: Store, examples: Sequence[Example]) -> list[int]:
    """Return the content id of every example.

    Raises:
        InputError: a document or text is not in the index.
    """
    by_text = store.documents.by_hash({content_hash(example.text) for example in examples if example.text is not None})
    live = set(store.documents.live_contents().tolist())
    documents = store.documents.get([example.id for example in examples if example.id is not None])
    known = store.documents.known([document.text for document in documents.values()])
    by_id = {id: known[document.text] for id, document in documents.items()}
    content_ids = []
    for example in examples:
        content_id = by_id.get(example.id) if example.id is not None else by_text.get(content_hash(example.text or ""))
        if content_id is None or content_id not in live:
            what = "is not in the index" if example.id is None else "is no document of the index"
            raise InputError(f"{example} {what}.", hint="Examples are documents of the index. Nothing was taught.")
        content_ids.append(content_id)
    return content_ids


def require_enough(answers: Sequence[str]) -> None:
    """Refuse answers, one an example, that nothing can be learned from.

    Raises:
        InputError: they are all the same, or one of them has too few examples.
        UsageError: they are too many.
    """
    counts = Counter(answers)
    if len(counts) < 2:
        only = next(iter(counts), "")
        raise InputError(
            f"All examples have the answer {only!r}." if counts else "There are no examples.",
            hint=f"Give {LEAST} examples or more of each of two answers at least. Nothing was taught.",
        )
    few = [f"{answer!r} ({count})" for answer, count in sorted(counts.items()) if count < LEAST]
    if few:
        more = f" and {len(few) - _NAMED} more" if len(few) > _NAMED else ""
        raise InputError(
            f"These answers have fewer than {LEAST} examples: {', '.join(few[:_NAMED])}{more}.",
            hint="Add some, or take these answers out. Nothing was taught.",
        )
    if len(counts) > MOST_ANSWERS:
        raise UsageError(f"There are {len(counts)} answers.", hint=f"Give at most {MOST_ANSWERS}.")


def _checked(values: Mapping[str, object], place: str) -> Example:
    """Return the example of a row."""
    answer, id, text = (number_as_text(values.get(key)) for key in ("answer", "id", "text"))
    if answer is None or (isinstance(answer, str) and not answer.strip()):
        raise _mend(f"{place} has no answer.")
    if not isinstance(answer, str):
        raise _mend(f"{place}: the answer is no text.")
    if len(answer.strip()) > LONGEST_ANSWER:
        raise _mend(f"{place}: the answer has {len(answer.strip())} characters, more than {LONGEST_ANSWER}.")
    for key, value in (("id", id), ("text", text)):
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise _mend(f"{place}: {key!r} is no text.")
    if id is None and text is None:
        raise _mend(f"{place} has neither an id nor a text.")
    for string in (answer, id, text):
        if isinstance(string, str) and not is_text(string):
            raise _mend(f"{place} holds half a character (a lone surrogate).")
    return Example(answer.strip(), None if id is None else str(id), None if id is not None else str(text), place)


def _mend(message: str) -> InputError:
    return InputError(message, hint=_MEND)
