"""Rows to learn from: QA files in the layouts people have become `TrainingRow`s, and bad rows become reports.

As `retriever index` does, a bad row goes to quarantine with file, line and reason and the others are read; a file that
cannot be read at all, or of which nothing is left, is an error.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from retriever.core.errors import InputError
from retriever.core.types import JSON, BadRow
from retriever.corpus.beside import lower_names
from retriever.corpus.readers import read_fields
from retriever.corpus.rows import LONGEST_TEXT, ReadingOptions, Row
from retriever.training.layouts import Layout, QAFields, Role, describe, find_layout

KEPT_BAD_ROWS = 1000
_ROLES: tuple[Role, ...] = ("text", "instruction", "answer", "positives", "negatives", "group")
_NO_ASCII_WORD = re.compile("[^a-z0-9]+")
_AROUND_WORDS = ".,;:!?\"'()[]\u2018\u2019\u201c\u201d\u2026"
_KINDS: dict[type, str] = {type(None): "null", bool: "a boolean", list: "a list", dict: "an object"}


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One question about one text, and what is right.

    Attributes:
        instruction: the question in the row's own words; empty where the file has none, for the encoder's default.
        answer: the right answer; of a row with positives, its first positive.
        positives: texts a search should find; empty in rows of text, question and answer.
        negatives: texts a search should not find; in rows of text, question and answer, wrong answers.
        group: the same for all wordings of one question; the normalised instruction where the file has no ``group``.
        file: the file as the user named it.
    """

    text: str
    instruction: str
    answer: str
    positives: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()
    group: str = ""
    file: str = ""
    line: int = 0

    @property
    def right(self) -> tuple[str, ...]:
        """All that is right: the positives, else the answer."""
        return self.positives or (self.answer,)

    @property
    def answer_key(self) -> str:
        """The answer as it is compared: "A kettle." and "a kettle" are one."""
        return normalise_answer(self.answer)

    @property
    def text_key(self) -> str:
        """The text as it is compared."""
        return normalise_text(self.text)

    def to_json(self) -> dict[str, JSON]:
        """Return the row as `read_training_rows` reads it back, file and line aside."""
        beside: dict[str, JSON] = {"negatives": list(self.negatives)} if self.negatives else {}
        if self.group != normalise_text(self.instruction):
            beside["group"] = self.group
        if not self.positives and self.instruction:
            return {"text": self.text, "question": self.instruction, "answer": self.answer, **beside}
        instruction: dict[str, JSON] = {"instruction": self.instruction} if self.instruction else {}
        return {**instruction, "query": self.text, "positives": list(self.positives or [self.answer]), **beside}


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """The result of reading files of training rows.

    Attributes:
        mappings: by file, which field became what, in words.
        bad: the first thousand bad rows.
    """

    rows: list[TrainingRow]
    mappings: Mapping[str, str]
    bad: list[BadRow] = field(default_factory=list)
    skipped: int = 0


class _RowError(Exception):
    """A row cannot be learned from; the message is the reason."""


def normalise_text(text: str) -> str:
    """Return the words of a text in lower case with single spaces, without punctuation (NFKC).

    A text without words, such as ":)", keeps its signs. Two questions with the same form are one group.
    """
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'").replace("'", "")
    if folded.isascii():
        kept = _NO_ASCII_WORD.sub(" ", folded)
    else:
        kept = "".join(sign if unicodedata.category(sign)[0] in "LNM" else " " for sign in folded)
    return " ".join(kept.split()) or " ".join(folded.split())


def normalise_answer(answer: str) -> str:
    """Return an answer in lower case with single spaces, without punctuation at the ends of its words (NFKC).

    Signs that make a difference stay: "C++" is not "C", "-5" is not "5".
    """
    folded = unicodedata.normalize("NFKC", answer).casefold()
    words = [word.strip(_AROUND_WORDS) for word in folded.split()]
    return " ".join(filter(None, words)) or " ".join(folded.split())


def read_training_rows(paths: Sequence[str | Path], *, encoding: str | None = None) -> TrainingRows:
    """Read QA files: JSON Lines, CSV, TSV or Parquet, ``-`` for JSON Lines on standard input.

    The layout of a file (`layouts.LAYOUTS`) is that of its first readable row. A negative that is also right is left
    out of the row; of several answers the first is taken. A row whose fields are missing, empty or of another kind goes
    to quarantine.

    Raises:
        InputError: a file cannot be read, is of no known layout, or holds no good row; file and row are named.
    """
    rows: list[TrainingRow] = []
    mappings: dict[str, str] = {}
    bad: list[BadRow] = []
    skipped = 0
    for path in paths:
        reader = _Reader(str(path), encoding)
        before, first = len(rows), None
        for row in reader.read():
            if isinstance(row, TrainingRow):
                rows.append(row)
                continue
            first = first or row
            skipped += 1
            if len(bad) < KEPT_BAD_ROWS:
                bad.append(row)
        if first is not None and len(rows) == before:
            raise InputError(
                f"{path}: no row can be used. The first, row {first.line}: {first.reason}.", hint="Correct the rows."
            )
        mappings[str(path)] = describe(reader.used)
    if not rows:
        raise InputError("No file was given.", hint="Name a file of questions and answers.")
    return TrainingRows(rows, mappings, bad, skipped)


class _Reader:
    """Turns the rows of one file into training rows and remembers which fields it used."""

    def __init__(self, file: str, encoding: str | None) -> None:
        self.file = file
        self.used: dict[Role, tuple[str, ...]] = {}
        self._encoding = encoding
        self._layout: Layout | None = None

    def read(self) -> Iterator[TrainingRow | BadRow]:
        for row in read_fields(self.file, QAFields(), encoding=self._encoding, options=ReadingOptions(raw=True)):
            try:
                yield self._convert(row)
            except _RowError as error:
                yield BadRow(self.file, row.line, None, str(error), row.excerpt())

    def _convert(self, row: Row) -> TrainingRow:
        if row.values is None:
            raise _RowError(row.problem)
        fields_of_row = lower_names(row.values)
        values = {name: value for name, value in fields_of_row.items() if not (row.sparse and value is None)}
        if self._layout is None:
            self._layout = find_layout(fields_of_row, f"{self.file}, row {row.line}")
        fields = self._layout.fields(values)
        if fields is None:
            raise _RowError(f"a field of the layout {self._layout.name!r} is missing; it has {', '.join(values)}")
        merged = {role: self.used.get(role, ()) + fields.get(role, ()) for role in _ROLES}
        self.used = {role: tuple(dict.fromkeys(names)) for role, names in merged.items() if names}
        if not self._layout.asks:
            fields = {role: names for role, names in fields.items() if role != "instruction" or values[names[0]] != ""}
        strings = {role: self._strings(values, names) for role, names in fields.items()}
        text = _one("text", strings["text"])
        right = strings.get("positives") or strings.get("answer", ())
        if not right:
            raise _RowError(f"{(fields.get('positives') or fields['answer'])[0]!r} is empty")
        instruction = _one("instruction", strings["instruction"]) if strings.get("instruction") else ""
        correct = {normalise_answer(answer) for answer in right}
        return TrainingRow(
            text=text,
            instruction=instruction,
            answer=right[0],
            positives=tuple(dict.fromkeys(strings.get("positives", ()))),
            negatives=tuple(
                dict.fromkeys(wrong for wrong in strings.get("negatives", ()) if normalise_answer(wrong) not in correct)
            ),
            group=_one("group", strings["group"]) if strings.get("group") else normalise_text(instruction),
            file=self.file,
            line=row.line,
        )

    def _strings(self, values: Mapping[str, object], names: Iterable[str]) -> tuple[str, ...]:
        """Return the strings of some fields, in order; null stands for none."""
        return tuple(text for name in names for text in _flatten(name, values[name]))


def _flatten(name: str, value: object) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, list):
        for item in value:
            if isinstance(item, list):
                raise _RowError(f"{name!r} holds a list in a list")
            yield from _flatten(name, item)
    elif isinstance(value, Mapping) and isinstance(value.get("text"), str):
        title = value.get("title")
        heading = f"{title}\n" if isinstance(title, str) and title.strip() else ""
        yield _checked(name, heading + value["text"])
    elif isinstance(value, str):
        yield _checked(name, value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    else:
        raise _RowError(f"{name!r} is {_KINDS.get(type(value), type(value).__name__)}, not a string")


def _checked(name: str, text: str) -> str:
    if not text.strip():
        raise _RowError(f"{name!r} is empty")
    if len(text) > LONGEST_TEXT:
        raise _RowError(f"{name!r} has {len(text):,} characters, more than {LONGEST_TEXT:,}")
    if "\0" in text:
        raise _RowError(f"{name!r} holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _RowError(f"{name!r} holds half a surrogate pair, which is not text") from None
    return text


def _one(role: str, strings: Sequence[str]) -> str:
    if len(strings) != 1:
        raise _RowError(f"the {role} is {'empty' if not strings else 'a list'}, not one string")
    return strings[0]
