"""Rows that a curation drops by their words alone: too short, too long, not English, repeated; and how it reports."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from retriever.core.text import WORD, shortened
from retriever.core.words import STOPWORDS
from retriever.training.rows import TrainingRow, normalise_answer, normalise_text

EXAMPLES_OF_A_REASON = 3
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Dropped:
    """A row that a step dropped, and why."""

    row: TrainingRow
    reason: str


@dataclass(frozen=True, slots=True)
class StepReport:
    """The report of one step.

    Attributes:
        before: rows that came in.
        reasons: how many by reason, the most frequent first.
        examples: the first few of every reason.
        skipped: why the step did not run, or nothing.
    """

    step: str
    before: int
    dropped: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    examples: list[Dropped] = field(default_factory=list)
    skipped: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def after(self) -> int:
        """Rows that are left."""
        return self.before - self.dropped

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        examples = [
            {"file": example.row.file, "line": example.row.line, "reason": example.reason, "row": example.row.to_json()}
            for example in self.examples
        ]
        return {
            "step": self.step,
            "before": self.before,
            "dropped": self.dropped,
            "after": self.after,
            "reasons": self.reasons,
            "skipped": self.skipped or None,
            "notes": self.notes,
            "examples": examples,
        }

    def lines(self) -> list[str]:
        """Return the step in words, one line a fact."""
        if self.skipped:
            return [f"{self.step}: skipped, {self.skipped}"]
        lines = [f"{self.step}: {self.dropped} of {self.before} rows dropped, {self.after} left"]
        for reason, count in self.reasons.items():
            lines.append(f"  {count} x {reason}")
            lines += [f"    {_short(example.row)}" for example in self.examples if example.reason == reason]
        return [*lines, *(f"  {note}" for note in self.notes)]


def step_report(step: str, before: int, dropped: Sequence[Dropped], *, notes: Iterable[str] = ()) -> StepReport:
    """Return the report of a step that ran, with the first examples of every reason."""
    reasons = Counter(drop.reason for drop in dropped)
    shown: Counter[str] = Counter()
    examples = []
    for drop in dropped:
        if shown[drop.reason] < EXAMPLES_OF_A_REASON:
            shown[drop.reason] += 1
            examples.append(drop)
    return StepReport(step, before, len(dropped), dict(reasons.most_common()), examples, notes=list(notes))


def _short(row: TrainingRow) -> str:
    """Return a row's place and the beginnings of question, text and answer on one line."""
    parts = [shortened(part, _SHOWN_CHARACTERS) for part in (row.instruction, row.text, row.answer) if part]
    return f"{row.file}, row {row.line}: {' | '.join(parts)}"


SAME_PAIR = "same question and text as an earlier row"
TEXT_IS_INSTRUCTION = "the text is the instruction"
TEXT_IS_ANSWER = "the text is the answer"

ASCII_LETTERS = 0.9
FOREIGN_WORDS = 2
ENGLISH_WORDS = 0.05
JUDGED_WORDS = 20
"""Thresholds by which text counts as English.

Of a row's letters at least the share ASCII_LETTERS are ASCII. No field has FOREIGN_WORDS or more function words of
German, Dutch, French, Spanish, Italian, Portuguese, Danish, Norwegian or Swedish, and more of them than English
stopwords. Of a field of JUDGED_WORDS words or more, at least the share ENGLISH_WORDS are English stopwords. Stopwords
that English shares with these languages count for none.
"""

_SHARED = frozenset(
    [
        *("a", "all", "also", "am", "an", "as", "at", "can", "do", "for", "had", "has", "have", "he", "her", "here"),
        *("i", "in", "it", "me", "no", "off", "on", "or", "over", "so", "under", "us", "was", "we", "will"),
    ]
)
"""English stopwords that are words of one of these languages too."""

_ENGLISH = STOPWORDS - _SHARED
_FOREIGN = frozenset(
    """
    der die das und ist ich nicht ein eine mit den dem auf f\u00fcr
    het een en niet dat van ik zijn met voor maar er naar ook wel
    le la les et est des du une un je pas que qui pour dans avec
    el los las y del por con para una muy pero lo se su como mi
    il di che non per della sono questo ma gli molto \u00e8 anche dal
    o os um uma n\u00e3o com em da mais foi e muito eu ele ao na
    og ikke det jeg er som av af p\u00e5 til ogs\u00e5 fra har hun han
    och att inte jag \u00e4r ett mycket fr\u00e5n var
    """.split()
)


LEAST_CHARACTERS = 4  # of a field, blanks at its ends aside
LEAST_ANSWER = 1  # character: "toy" is an answer
MOST_CHARACTERS = 1024


def length_problem(row: TrainingRow, most: int = MOST_CHARACTERS) -> str:
    """Return which field of a row is too short or too long, or nothing.

    An instruction that the file does not have stands for the encoder's default and passes.
    """
    named = [("text", row.text, LEAST_CHARACTERS)]
    named += [("instruction", row.instruction, LEAST_CHARACTERS)] if row.instruction else []
    named += [("answer", output, LEAST_ANSWER) for output in row.right]
    for name, value, least in named:
        length = len(value.strip())
        if length < least:
            return f"{name} under {least} characters"
        if length > most:
            return f"{name} over {most} characters"
    return ""


def language_problem(row: TrainingRow) -> str:
    """Return why a row is not taken for English, or nothing; `ENGLISH_WORDS` states the rule."""
    fields = [row.instruction, row.text, *row.right]
    if ascii_share(" ".join(fields)) < ASCII_LETTERS:
        return "letters that are not English"
    return "words that are not English" if any(map(_is_foreign, fields)) else ""


def duplicates(rows: Sequence[TrainingRow]) -> Iterator[Dropped]:
    """Yield the rows to drop: the first row of a question and text stays, whatever the later ones answer.

    Questions are compared in their own words, so that one question in several wordings is several rows; case, spaces
    and punctuation do not count. That rows share a question, or a text, alone is no fault: the rule within a field
    would keep one row a question.
    """
    met: set[tuple[str, str]] = set()
    for row in rows:
        text, instruction = row.text_key, normalise_text(row.instruction)
        if row.instruction and text == instruction:
            yield Dropped(row, TEXT_IS_INSTRUCTION)
        elif normalise_answer(row.text) in map(normalise_answer, row.right):
            yield Dropped(row, TEXT_IS_ANSWER)
        elif (instruction, text) in met:
            yield Dropped(row, SAME_PAIR)
        else:
            met.add((instruction, text))


def ascii_share(text: str) -> float:
    """Return the share of a text's letters that are ASCII; 1 for a text without letters."""
    letters = [character for character in text if character.isalpha()]
    return sum(map(str.isascii, letters)) / len(letters) if letters else 1.0


def _is_foreign(text: str) -> bool:
    words = [word.lower().replace("\u2019", "'") for word in WORD.findall(text)]
    foreign = sum(word in _FOREIGN for word in words)
    english = sum(word in _ENGLISH for word in words)
    return (foreign >= FOREIGN_WORDS and foreign > english) or (
        len(words) >= JUDGED_WORDS and english < ENGLISH_WORDS * len(words)
    )
