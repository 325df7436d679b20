"""Describe errors for somebody who has no terminal: a sentence, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from retriever.core.errors import (
    IndexDamagedError,
    IndexLockedError,
    IndexNotFoundError,
    InputError,
    RetrieverError,
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A description of an error and of what to do about it, in plain text."""

    what: str
    next: str


_NEXT: tuple[tuple[type[RetrieverError], str], ...] = (
    (IndexNotFoundError, "Choose another index on the left, or open a file of reviews on the page Corpus."),
    (
        IndexDamagedError,
        "Look at the page Model and index: its check names what is damaged. Files of vectors can be rebuilt there; "
        "a damaged database has to come back from a copy, or the reviews are indexed again under another name.",
    ),
    (IndexLockedError, "Something is being written to this index right now. Try again when it has finished."),
)


def problem(error: BaseException) -> Problem:
    """Describe an error to the user."""
    if not isinstance(error, RetrieverError):
        return Problem(
            f"Something went wrong that should not have: {type(error).__name__}.",
            "The app goes on. If it happens again, report it with what the terminal shows.",
        )
    following = next((text for kind, text in _NEXT if isinstance(error, kind)), error.hint)
    return Problem(error.message, following)


@contextmanager
def calling(file: Path, name: str) -> Iterator[None]:
    """Have errors of the block call a file as its user does, not by where it is kept."""
    try:
        yield
    except InputError as error:
        raise InputError(error.message.replace(str(file), name), hint=error.hint.replace(str(file), name)) from error
