"""Labelled pairs of texts in a file: rows of ``a``, ``b`` and ``same``, in any format of a corpus."""

from pathlib import Path

from retriever.core.errors import InputError
from retriever.corpus.beside import BesideRow, number_as_text, read_beside
from retriever.index.verdicts.diagnosis import TextPair

_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_pairs(file: Path) -> list[TextPair]:
    """Return the pairs of a file; in tables ``same`` is true or false, yes or no, 1 or 0.

    Raises:
        InputError: the file cannot be read, or a row is no pair; file and line are named.
    """
    rows = read_beside(file, needed=("a", "b", "same"))
    return [TextPair(_text(row, "a"), _text(row, "b"), _same(row)) for row in rows]


def _text(row: BesideRow, name: str) -> str:
    text = number_as_text(row.values.get(name))
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{row.place}: {name!r} is no text.", hint="Correct or remove the row.")
    return text


def _same(row: BesideRow) -> bool:
    same = row.values.get("same")
    said = _WORDS.get(str(number_as_text(same)).strip().lower())
    if said is None:
        raise InputError(f"{row.place}: 'same' is neither true nor false.", hint="Correct or remove the row.")
    return said
