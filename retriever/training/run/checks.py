"""Whether rows are enough to learn from. Knows no model, so it answers at once while rows are being written."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from retriever.core.errors import InputError
from retriever.core.types import BadRow
from retriever.training.rows import TrainingRow, read_training_rows
from retriever.training.splits import hold_out

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
        rows: those that can be used.
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
        found = read_training_rows([file])
    except InputError as error:
        return Findings(problem=error)
    try:
        check_rows(found.rows, str(file))
        check_training_side(hold_out(found.rows).train, str(file))
    except InputError as error:
        return Findings(found.rows, found.bad, found.skipped, error)
    return Findings(found.rows, found.bad, found.skipped)
