"""Words that several pages share: numbers, durations, errors and verdicts in words.

Reviews are anybody's words: `plain` escapes what Streamlit would take for Markdown.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from retriever.core.errors import (
    ConsentError,
    IndexDamagedError,
    IndexLockedError,
    IndexNotFoundError,
    InputError,
    ReadingLimitError,
    RetrieverError,
)
from retriever.core.lessons import Lessons
from retriever.core.text import counted, duration, escape_markdown
from retriever.core.verdicts import Verdict

STAR, NO_STAR = "★", "☆"
plain, count, seconds = escape_markdown, counted, duration

_NEXT: tuple[tuple[type[RetrieverError], str], ...] = (
    (IndexNotFoundError, "Choose another index on the left, or open a file of reviews on the page Corpus."),
    (
        IndexDamagedError,
        "The check on the page Models names what is damaged. Vector files can be rebuilt there; a damaged "
        "database has to be restored from a copy, or the reviews are indexed again under another name.",
    ),
    (ConsentError, "Allow that host on this page."),
    (ReadingLimitError, "Answers until now are kept. The file settings.toml in the folder of indexes holds limits."),
    (IndexLockedError, "Something is being written to this index right now. Try again when it has finished."),
)
_OF_COMMANDS = {  # an option that a hint names, and what to do about it here
    "--where": "Loosen the filters on the left.",
    "-k": "Choose fewer groups.",
    "--instruction": "Enter a question.",
    "--rename": "Enter a name.",
    "--reader": "Try again, or choose another language model.",
}
_VERDICT_ICONS = {
    "followed": ":material/check_circle:",
    "unclear": ":material/help:",
    "not followed": ":material/warning:",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error and what to do about it, in plain text."""

    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """The line beside a question: whether the model follows it and what to do, with its answers as the evidence.

    The link is the label of that to the page Teach, and empty where there is nothing to teach.
    """

    icon: str
    sentence: str
    answers: str
    link: str = ""
    warns: bool = False


def stars(value: float, most: int) -> str:
    """Return a rating as full and empty stars; nothing where it is not from 0 to ``most``."""
    if not 0 <= value <= most:
        return ""
    return STAR * round(value) + NO_STAR * (most - round(value))


def moment(value: str) -> str:
    """Return a time of day as ISO has it as people write it, to the minute; any other text as it is."""
    return re.sub(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::[\d.]+)?(?:Z|[+-]\d\d:\d\d)?$", r"\1 \2", value)


def size(number: int) -> str:
    """Return a number of bytes as a person says it: 820 kB, 1.4 GB."""
    value, (unit, *larger) = float(number), ("bytes", "kB", "MB", "GB")
    while value >= 1000 and larger:
        value, unit = value / 1000, larger.pop(0)
    return f"{value:.0f} {unit}" if value >= 10 or unit == "bytes" else f"{value:.1f} {unit}"


def beginning(value: str, most: int) -> str:
    """Return the beginning of a text on one line, cut between words."""
    line = " ".join(value.split())
    return line if len(line) <= most else f"{line[:most].rsplit(' ', 1)[0]} …"


def listed(values: Sequence[str]) -> str:
    """Return values as a phrase: a, b and c."""
    return " and ".join(filter(None, [", ".join(values[:-1]), *values[-1:]]))


def problem(error: BaseException) -> Problem:
    """Describe an error to the user."""
    if not isinstance(error, RetrieverError):
        return Problem(
            f"Unexpected error: {type(error).__name__}.",
            "You can go on using the app. If it happens again, report it with what the terminal shows.",
        )
    named = (advice for option, advice in _OF_COMMANDS.items() if re.search(rf"(?<!\S){option}\b", error.hint))
    advice = next((advice for kind, advice in _NEXT if isinstance(error, kind)), next(named, error.hint))
    return Problem(error.message, advice)


@contextmanager
def calling(file: Path, name: str) -> Iterator[None]:
    """Name a file in errors of the block as its user does, not by where it is kept."""
    try:
        yield
    except InputError as error:
        raise InputError(error.message.replace(str(file), name), hint=error.hint.replace(str(file), name)) from error


def verdict_line(verdict: Verdict) -> VerdictLine:
    """Describe a verdict in one line."""
    checked = f"Checked on {count(verdict.texts, 'review')}"
    answers = verdict.words()
    return VerdictLine(
        _VERDICT_ICONS[verdict.level],
        verdict.sentence,
        f"{checked}; the model answers most often: {answers}."
        if answers
        else f"{checked}; the model gives no words as answers.",
        "Teach it" if verdict.warns else "",
        verdict.warns,
    )


def taught_line(lessons: Lessons) -> VerdictLine:
    """Describe in one line how well a question is answered that was taught."""
    unlearned = f" Not learned: {listed(list(lessons.unlearned))}." if lessons.unlearned else ""
    answers = f"Answers: {listed(list(lessons.answers))}.{unlearned}"
    return VerdictLine(":material/school:", lessons.sentence, answers, "Teach it more")
