"""Answers to a question in a file: rows of ``id`` and ``answer``, JSON Lines, CSV or any other format of a corpus."""

from pathlib import Path

from retriever.core.errors import InputError
from retriever.core.text import is_text
from retriever.corpus.beside import BesideRow, number_as_text, read_beside

_MEND = "Correct or remove the row. No answer was taken."


def read_answers(file: Path) -> dict[str, str | None]:
    """Return the answers of a file by document id; None, of a null or an empty cell, takes an answer back.

    Raises:
        InputError: the file cannot be read, or a row lacks a field, is no answer, or is of an id that had another; file
            and line are named.
    """
    answers: dict[str, str | None] = {}
    for row in read_beside(file, needed=("id", "answer"), hint=_MEND):
        id, answer = _id_of(row), _answer_of(row)
        if answers.setdefault(id, answer) != answer:
            raise _mend(f"{row.place}: {id!r} has another answer further up.")
    return answers


def _id_of(row: BesideRow) -> str:
    id = number_as_text(row.values.get("id"))
    if not isinstance(id, str) or not id.strip() or not is_text(id):
        raise _mend(f"{row.place} has no id.")
    return id


def _answer_of(row: BesideRow) -> str | None:
    if "answer" not in row.values and not row.of_table:
        raise _mend(f"{row.place} has no answer: write null to take one back.")
    answer = number_as_text(row.values.get("answer"))
    if answer is None or answer == "":
        return None
    if not isinstance(answer, str) or not is_text(answer):
        raise _mend(f"{row.place}: the answer is no text.")
    return answer


def _mend(message: str) -> InputError:
    return InputError(message, hint=_MEND)
