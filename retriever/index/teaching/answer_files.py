"""Answers to a question in a file: rows of ``id`` and ``answer``, JSON Lines, CSV or any other format of a corpus."""

from pathlib import Path

from retriever.core.errors import InputError
from retriever.core.text import is_text
from retriever.corpus.fields import FieldNames
from retriever.corpus.readers import read_fields
from retriever.corpus.rows import Row

_FIELDS = FieldNames(id="id", text="answer")


def read_answers(file: Path) -> dict[str, str | None]:
    """Return the answers of a file by document id; None, of a null or an empty cell, takes an answer back.

    Raises:
        InputError: the file cannot be read, lacks a column, or a row is no answer or of an id that had another; file
            and line are named.
    """
    answers: dict[str, str | None] = {}
    for row in read_fields(file, _FIELDS):
        place = f"{file}, line {row.line}"
        id, answer = _id_of(row, place), _answer_of(row, place)
        if answers.setdefault(id, answer) != answer:
            raise _mend(f"{place}: {id!r} has another answer further up.")
    return answers


def _id_of(row: Row, place: str) -> str:
    if row.values is None:
        raise _mend(f"{place}: {row.problem}.")
    id = row.values.get("id")
    if isinstance(id, int) and not isinstance(id, bool):
        id = str(id)
    if not isinstance(id, str) or not id.strip() or not is_text(id):
        raise _mend(f"{place} has no id.")
    return id


def _answer_of(row: Row, place: str) -> str | None:
    values = row.values or {}
    if "answer" not in values and not row.sparse:
        raise _mend(f"{place} has no answer: write null to take one back.")
    answer = values.get("answer")
    if answer is None or answer == "":
        return None
    if not isinstance(answer, str) or not is_text(answer):
        raise _mend(f"{place}: the answer is no text.")
    return answer


def _mend(message: str) -> InputError:
    return InputError(message, hint="Correct or remove the row. No answer was taken.")
