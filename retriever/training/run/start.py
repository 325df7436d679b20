"""The start of a fine-tuning: its rows, some kept out to measure with."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from retriever.core.fingerprint import file_hash, json_hash
from retriever.core.types import BadRow
from retriever.encoders.tokenize import MAX_INSTRUCTION_TOKENS
from retriever.training.config import DataSettings
from retriever.training.rows import KEPT_BAD_ROWS, TrainingRow, TrainingRows
from retriever.training.splits import check_rows, check_training_side, few_rows, hold_out


class Tokens(Protocol):
    """The tokenizer of a model in training."""

    max_text_tokens: int

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, uncut."""
        ...


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that was learned from, its hash (None for standard input), its good rows, and which field became what."""

    name: str
    sha256: str | None
    rows: int
    mapping: str


@dataclass(frozen=True, slots=True)
class FinetuneData:
    """Rows to learn from and to measure with.

    Attributes:
        held_out: measured with; no text is on both sides.
        digest: SHA-256 of all good rows.
        bad: the first thousand rows that were skipped.
        truncated: different strings that are cut to the limit of tokens, by what they are: texts, queries, answers,
            positives, negatives; what is never cut is left out.
    """

    train: list[TrainingRow]
    held_out: list[TrainingRow]
    files: list[DataFile]
    digest: str
    bad: list[BadRow]
    skipped: int
    truncated: Mapping[str, int]

    @property
    def notes(self) -> list[str]:
        """Notes for the user about the rows."""
        few = few_rows(len(self.train) + len(self.held_out))
        if not self.truncated:
            return few
        return [*few, f"{self.cut} are longer than what is read of them; the rest of each is left out."]

    @property
    def cut(self) -> str:
        """The number of strings of each kind that are cut, in words."""
        return ", ".join(f"{count} {kind}" for kind, count in self.truncated.items()) or "none"


def prepare(found: TrainingRows, tokenizer: Tokens, settings: DataSettings) -> FinetuneData:
    """Return the rows that can be learned from, some of their texts kept out.

    A row whose question is too long for an encoder is skipped, as those that could not be read were. The tokenizer is
    the model's, which cuts texts where training does.

    Raises:
        InputError: there are too few rows, all answers are equal, be it only of those to learn from, or there is only
            one text.
    """
    rows, bad = _short_questions(found.rows, tokenizer)
    counts = Counter(row.file for row in rows)
    kept = {name: counts[name] for name in found.mappings}
    check_rows(rows, ", ".join(kept))
    sides = hold_out(rows, share=settings.share(len({row.text for row in rows})), seed=settings.seed)
    check_training_side(sides.train, ", ".join(kept))
    return FinetuneData(
        train=sides.train,
        held_out=sides.held_out,
        files=[DataFile(name, _hash(name), count, found.mappings[name]) for name, count in kept.items()],
        digest=json_hash({"rows": [{**row.to_json(), "file": row.file} for row in rows]}),
        bad=[*found.bad, *bad][:KEPT_BAD_ROWS],
        skipped=found.skipped + len(bad),
        truncated=_truncated(rows, tokenizer),
    )


def _hash(name: str) -> str | None:
    return file_hash(Path(name)) if Path(name).is_file() else None


def _short_questions(rows: Sequence[TrainingRow], tokenizer: Tokens) -> tuple[list[TrainingRow], list[BadRow]]:
    """Return the rows whose question an encoder can read, without empty space around it, and the others as bad rows."""
    questions = list({row.instruction for row in rows})
    lengths = dict(zip(questions, tokenizer.count(questions), strict=True))
    short, bad = [], []
    for row in rows:
        if lengths[row.instruction] <= MAX_INSTRUCTION_TOKENS:
            short.append(replace(row, instruction=row.instruction.strip()))
            continue
        reason = f"the question has {lengths[row.instruction]} tokens, more than {MAX_INSTRUCTION_TOKENS}"
        bad.append(BadRow(row.file, row.line, None, reason, row.instruction[:200]))
    return short, bad


def _truncated(rows: Sequence[TrainingRow], tokenizer: Tokens) -> dict[str, int]:
    """Count the different strings of each kind that are longer than what is read of them."""
    strings: dict[str, dict[str, None]] = {
        kind: {} for kind in ("texts", "queries", "answers", "positives", "negatives")
    }
    for row in rows:
        strings["queries" if row.positives else "texts"][row.text] = None
        strings["positives" if row.positives else "answers"] |= dict.fromkeys(row.right)
        strings["negatives"] |= dict.fromkeys(row.negatives)
    limit = tokenizer.max_text_tokens
    counts = {kind: sum(count > limit for count in tokenizer.count([*texts])) for kind, texts in strings.items()}
    return {kind: count for kind, count in counts.items() if count}
