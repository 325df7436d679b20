"""Report on a fine-tuning: for the command to print, as JSON, and beside the model it made."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from retriever.core.schema import SCHEMA_VERSION
from retriever.core.types import JSON
from retriever.evaluation.scores import Score
from retriever.training.adapter_files import ActiveProof
from retriever.training.config import FinetuneConfig
from retriever.training.run.base import Base
from retriever.training.run.data import FinetuneData
from retriever.training.run.scores import Change, Verdict

_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of the trained model: its scores, the verdict on it, and what followed.

    Attributes:
        held_out: its score on the rows it did not see, before and after.
        general: its general score, before and after.
        parts: what the general score is the mean of.
        verdict: whether it may become the default, and why.
        proof: how far its saved vectors are from the trained ones and from those that training began from.
        promoted: whether it was made the default.
        examples: searches of held-out rows with what they found before and after, as JSON.
    """

    held_out: Change
    general: Change
    parts: Sequence[Change]
    verdict: Verdict
    proof: ActiveProof
    promoted: bool
    examples: Sequence[Mapping[str, Any]] = ()

    @property
    def changes(self) -> list[Change]:
        """Every score before and after."""
        return [self.held_out, self.general, *self.parts]


@dataclass(frozen=True, slots=True)
class FinetuneReport:
    """A fine-tuning that is finished, or paused to be resumed.

    Attributes:
        output: the checkpoint folder; there once the status is finished.
        config: all settings.
        data: rows and files.
        base: name and resolved name of what was trained on.
        command: what was asked for, as a command line.
        step: steps done, over all stages.
        steps: steps of all stages begun.
        seconds: spent in steps, over all pieces of the run.
        judgement: scores and verdict; None while the run is paused.
        versions: of Python and the packages that matter.
        notes: what the user should know besides.
    """

    output: Path
    config: FinetuneConfig
    data: FinetuneData
    base: Mapping[str, str]
    command: str
    step: int
    steps: int
    seconds: float
    judgement: Judgement | None = None
    versions: Mapping[str, JSON] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def status(self) -> Literal["finished", "paused"]:
        """Whether there is a model, or a run to go on with."""
        return "paused" if self.judgement is None else "finished"

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object.

        ``scores`` holds the held-out rows' score, the general one, and what that is the mean of; ``examples`` a few
        searches of held-out rows, each with the three nearest texts (or answers) before and after, those with the
        right answer marked. ``scores``, ``examples``, ``verdict``, ``active`` and ``promoted`` are null while the run
        is paused. ``truncated`` counts the strings that are cut, by what they are.
        """
        data, found = self.data, self.judgement
        return {
            "schema_version": SCHEMA_VERSION,
            "status": self.status,
            "output": str(self.output),
            "method": self.config.method.name,
            "base": dict(self.base),
            "command": self.command,
            "seed": self.config.data.seed,
            "data": {
                "files": [asdict(one) for one in data.files],
                "sha256": data.digest,
                "train": len(data.train),
                "held_out": len(data.held_out),
                "skipped": data.skipped,
                "truncated": dict(data.truncated),
                "quarantined": [asdict(one) for one in data.bad],
            },
            "steps": {"done": self.step, "all": self.steps, "seconds": round(self.seconds, 1)},
            "scores": None if found is None else [_change_json(one) for one in found.changes],
            "examples": None if found is None else list(found.examples),
            "verdict": None if found is None else asdict(found.verdict),
            "active": None if found is None else asdict(found.proof),
            "promoted": None if found is None else found.promoted,
            "config": self.config.to_json(),
            "versions": dict(self.versions),
            "notes": list(self.notes),
        }


def named(base: Base) -> dict[str, str]:
    """Describe a base as reports hold it."""
    return {"name": base.name, "spec": base.spec, "backbone": base.adapted.backbone.source.name}


def _change_json(change: Change) -> dict[str, JSON]:
    moved = change.difference
    return {
        "task": change.before.task,
        "metric": change.before.metric,
        "items": change.before.items,
        "before": _score_json(change.before),
        "after": _score_json(change.after),
        "difference": {"value": _round(moved.value), "low": _round(moved.low), "high": _round(moved.high)},
        "note": change.before.note,
    }


def _score_json(score: Score) -> dict[str, JSON]:
    return {"value": _round(score.value), "low": _round(score.low), "high": _round(score.high)}


def _round(value: float) -> float:
    return round(value, _DIGITS)
