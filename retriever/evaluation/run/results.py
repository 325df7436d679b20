"""Hold an evaluation's results: scores with all that it takes to repeat or compare them, as JSON and as a run file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.paths import write_whole
from retriever.core.results import SCHEMA_VERSION
from retriever.core.types import JSON
from retriever.evaluation.scores import Difference, Score, difference

_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The scores of one encoder on one suite.

    Attributes:
        encoder: its name, fingerprint, pooling, steps, look_ahead, template and dtype.
        seconds: wall-clock time of every task when it was run.
        data: SHA-256 of every data file by its name.
        date: when it was finished, ISO 8601 in UTC.
        machine: processor, cores and accelerator of the run that finished it.
    """

    suite: str
    encoder: Mapping[str, JSON]
    scores: Sequence[Score]
    seconds: Mapping[str, float]
    seed: int
    limit: int | None
    data: Mapping[str, str | None]
    command: str
    date: str
    machine: Mapping[str, JSON]
    versions: Mapping[str, JSON]
    notes: Sequence[str] = field(default=())

    @property
    def mean(self) -> float | None:
        """The mean of the headline scores; None where there is none."""
        values = [score.value for score in self.scores if score.headline]
        return float(np.mean(values)) if values else None

    @property
    def name(self) -> str:
        """The encoder's name, with the settings that tell it from others of that name."""
        given = self.encoder
        name = str(given.get("name") or str(given.get("fingerprint"))[:12])
        settings = [f"{key.replace('_', '-')} {given[key]}" for key in ("steps", "look_ahead") if given.get(key)]
        return ", ".join([name, *filter(None, [str(given.get("pooling") or "")]), *settings])

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object; values are rounded to four decimals, resamples left out."""
        return {
            "schema_version": SCHEMA_VERSION,
            "suite": self.suite,
            "encoder": dict(self.encoder),
            "mean": None if self.mean is None else round(self.mean, _DIGITS),
            "scores": [_score_json(score) for score in self.scores],
            "seconds": {task: round(seconds, 2) for task, seconds in self.seconds.items()},
            "seed": self.seed,
            "limit": self.limit,
            "data": dict(self.data),
            "command": self.command,
            "date": self.date,
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "notes": list(self.notes),
        }

    def save(self, path: Path) -> None:
        """Write a run file: all there is, resamples included, whole or not at all."""
        stored = {**asdict(self), "scores": [score_to_file(score) for score in self.scores]}
        write_json(path, {"schema_version": SCHEMA_VERSION, **stored})


@dataclass(frozen=True, slots=True)
class EncoderComparison:
    """One figure of two encoders, the one measured and the one it is measured against, with the paired difference."""

    suite: str
    ours: Score
    theirs: Score
    difference: Difference

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "suite": self.suite,
            "task": self.ours.task,
            "metric": self.ours.metric,
            "ours": round(self.ours.value, _DIGITS),
            "theirs": round(self.theirs.value, _DIGITS),
            "difference": round(self.difference.value, _DIGITS),
            "low": round(self.difference.low, _DIGITS),
            "high": round(self.difference.high, _DIGITS),
            "certain": self.difference.certain,
        }


def compare(ours: Evaluation, theirs: Evaluation) -> list[EncoderComparison]:
    """Return every figure that both evaluations have, with paired differences."""
    known = {(score.task, score.metric): score for score in theirs.scores}
    pairs = [(score, known[score.task, score.metric]) for score in ours.scores if (score.task, score.metric) in known]
    return [EncoderComparison(ours.suite, score, other, difference(score, other)) for score, other in pairs]


def score_to_file(score: Score) -> dict[str, Any]:
    """Return a score as a run file holds it, exact."""
    return {**asdict(score), "resampled": score.resampled.tolist()}


def score_from_file(stored: Mapping[str, Any]) -> Score:
    """Return a score that a run file holds."""
    return replace(Score(**stored), resampled=np.array(stored["resampled"], dtype=np.float64))


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file by way of a draft beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(value, ensure_ascii=False))


def _score_json(score: Score) -> dict[str, Any]:
    kept = {name: value for name, value in asdict(score).items() if name != "resampled"}
    return {name: round(value, _DIGITS) if isinstance(value, float) else value for name, value in kept.items()}
