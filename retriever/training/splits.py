"""Whether rows are enough to learn from, and a part of them kept out of training to measure with.

Knows no model, so it answers at once while rows are being written.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from retriever.core.errors import InputError
from retriever.core.types import BadRow
from retriever.training.rows import TrainingRow, read_training_rows

HELD_OUT_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Rows to train on, and rows to measure with; no text is on both sides."""

    train: list[TrainingRow]
    held_out: list[TrainingRow]


def hold_out(rows: Sequence[TrainingRow], *, share: float = HELD_OUT_SHARE, seed: int = 0) -> HeldOut:
    """Keep a share of the texts, between 0 and 1, with all of their rows, out of training.

    Texts are the same whatever their case, spaces and punctuation. Every question gives about the same share of its
    texts, the rarest question first; where questions are too rare for that, as when each is asked once, texts are taken
    until their share is reached. Which texts is decided by their hash and the seed, so a row that is added or moved
    hardly changes it. Both sides keep the order of the rows.

    Raises:
        InputError: there are fewer than two texts.
    """
    groups: dict[str, set[str]] = defaultdict(set)
    keys = [row.text_key for row in rows]
    for key, row in zip(keys, rows, strict=True):
        groups[key].add(row.group)
    if len(groups) < 2:
        raise InputError(
            f"The rows have {len(groups)} different texts.", hint="Two are needed: one to learn from, one to measure."
        )
    held = _choose(groups, share, seed)
    sides: tuple[list[TrainingRow], list[TrainingRow]] = [], []
    for key, row in zip(keys, rows, strict=True):
        sides[key in held].append(row)
    return HeldOut(*sides)


def _choose(groups: Mapping[str, set[str]], share: float, seed: int) -> set[str]:
    """Return the texts to hold out, given every text's questions: at least one, and not all."""
    order = sorted(groups, key=lambda text: hashlib.sha256(f"{seed}:{text}".encode()).digest())
    by_group: dict[str, list[str]] = defaultdict(list)
    for text in order:
        for group in groups[text]:
            by_group[group].append(text)
    wanted = min(max(1, round(share * len(order))), len(order) - 1)
    held: set[str] = set()
    taken: Counter[str] = Counter()
    for group, texts in sorted(by_group.items(), key=lambda pair: (len(pair[1]), pair[0])):
        for text in texts:
            if taken[group] >= round(share * len(texts)) or len(held) >= wanted:
                break
            if text not in held:
                held.add(text)
                taken.update(groups[text])
    held.update([text for text in order if text not in held][: wanted - len(held)])
    return held


LEAST_ROWS = 20
ENOUGH_ROWS = 200


def check_rows(rows: Sequence[TrainingRow], names: str) -> None:
    """Raise unless there is something to tell apart, and enough of it; ``names`` says where the rows are from.

    Raises:
        InputError: there are too few rows, or all answers are equal.
    """
    if len(rows) < LEAST_ROWS:
        raise InputError(
            f"{names}: {len(rows)} rows can be used; at least {LEAST_ROWS} are needed.",
            hint=f"Give more rows; from {ENOUGH_ROWS} on a model is worth having.",
        )
    _check_answers(rows, f"{names}: all {len(rows)} answers", "Give rows with different answers.")


def check_training_side(rows: Sequence[TrainingRow], names: str) -> None:
    """Raise unless what is left to learn from, when some texts are held out, still has something to tell apart.

    Raises:
        InputError: all answers are equal.
    """
    which = f"{names}: with some texts held out to measure with, all {len(rows)} answers to learn from"
    _check_answers(rows, which, "Give more rows with other answers.")


def _check_answers(rows: Sequence[TrainingRow], which: str, hint: str) -> None:
    if len({row.answer_key for row in rows}) < 2:
        raise InputError(f"{which} are {rows[0].answer!r}; nothing can be told apart by them.", hint=hint)


def few_rows(rows: int) -> list[str]:
    """Build the notes for the user on so many rows."""
    return [f"{rows} rows are few: {ENOUGH_ROWS} or more give narrower intervals."] if rows < ENOUGH_ROWS else []


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of a fine-tuning's checks on a file of rows.

    Attributes:
        bad: the first thousand that cannot, with the reason.
        skipped: how many cannot.
        problem: why nothing can be learned from the file as it is; None where it can.
    """

    rows: Sequence[TrainingRow] = ()
    bad: Sequence[BadRow] = ()
    skipped: int = 0
    problem: InputError | None = None


def look_at(file: Path) -> Findings:
    """Check a file as a fine-tuning would, the length of its questions aside; nothing is raised."""
    try:
        training_rows = read_training_rows([file])
    except InputError as error:
        return Findings(problem=error)
    try:
        check_rows(training_rows.rows, str(file))
        check_training_side(hold_out(training_rows.rows).train, str(file))
    except InputError as error:
        return Findings(training_rows.rows, training_rows.bad, training_rows.skipped, error)
    return Findings(training_rows.rows, training_rows.bad, training_rows.skipped)
