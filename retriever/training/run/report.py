"""Report on a fine-tuning: for the command to print, as JSON, as the card of the model it made, and as a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from retriever.core.results import SCHEMA_VERSION
from retriever.core.text import printable, shortened
from retriever.core.types import JSON
from retriever.evaluation.run.report import ENCODER_COLOURS, WHISKERS, ranged, svg_figure, table, whiskers
from retriever.evaluation.scores import LEVEL, RESAMPLES, Difference, Score
from retriever.training.adapter_files import ActiveProof
from retriever.training.config import FinetuneConfig
from retriever.training.run.scores import Change, Verdict
from retriever.training.run.start import FinetuneData

CURVES_FILE = "curves.svg"
CONFIG_FILE = "finetune.toml"
_SHOWN_CHARACTERS = 80  # of a text in the card

_LIMITS = """\
- Measured on texts of the same files as it learned from, and on a small general set; elsewhere it may do worse.
- Questions unlike those it was trained on are answered as the base would at best.
- It repeats what the data says, mistakes and prejudices included.
- The licences of the data and of the backbone hold for it too; this card does not know them."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of the trained model: its scores, the verdict on it, and what followed.

    Attributes:
        parts: what the general score is the mean of.
        verdict: whether it may become the default, and why.
        proof: how far its saved vectors are from the trained ones and from those that training began from.
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
        base: name and resolved name of what was trained on, and the name of its backbone.
        step: steps done, over all stages.
        steps: steps of all stages begun.
        seconds: spent in steps, over all pieces of the run.
        judgement: scores and verdict; None while the run is paused.
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
        data, judgement = self.data, self.judgement
        return {
            "schema_version": SCHEMA_VERSION,
            "status": self.status,
            "output": str(self.output),
            "method": self.config.method.name,
            "base": dict(self.base),
            "command": self.command,
            "seed": self.config.data.seed,
            "data": {
                "files": [asdict(file) for file in data.files],
                "sha256": data.digest,
                "train": len(data.train),
                "held_out": len(data.held_out),
                "skipped": data.skipped,
                "truncated": dict(data.truncated),
                "quarantined": [asdict(row) for row in data.bad],
            },
            "steps": {"done": self.step, "all": self.steps, "seconds": round(self.seconds, 1)},
            "scores": None if judgement is None else [_change_json(change) for change in judgement.changes],
            "examples": None if judgement is None else list(judgement.examples),
            "verdict": None if judgement is None else asdict(judgement.verdict),
            "active": None if judgement is None else asdict(judgement.proof),
            "promoted": None if judgement is None else judgement.promoted,
            "config": self.config.to_json(),
            "versions": dict(self.versions),
            "notes": list(self.notes),
        }


def _change_json(change: Change) -> dict[str, JSON]:
    return {
        "task": change.before.task,
        "metric": change.before.metric,
        "items": change.before.items,
        "before": _interval_json(change.before),
        "after": _interval_json(change.after),
        "difference": _interval_json(change.difference),
        "note": change.before.note,
    }


def _interval_json(estimate: Score | Difference) -> dict[str, JSON]:
    return {"value": round(estimate.value, 4), "low": round(estimate.low, 4), "high": round(estimate.high, 4)}


def model_card(report: FinetuneReport, judgement: Judgement) -> str:
    """Return the card of a finished run as Markdown."""
    data, name, spec = report.data, report.base["name"], report.base["spec"]
    files = [[file.name, str(file.rows), f"`{file.sha256 or 'not recorded'}`", file.mapping] for file in data.files]
    lines = [
        f"# {report.output.name}",
        "",
        f"An encoder for `retriever`: {report.config.method.name} on {report.base['backbone']}, fine-tuned from "
        f"{name if name == spec else f'{name} ({spec})'}.",
        "",
        "## Scores",
        "",
        *_scores(judgement),
        "",
        judgement.verdict.sentence,
        "",
        f"Intervals are percentile bootstrap intervals of {LEVEL:.0%}, {RESAMPLES} resamples; that of a change is "
        "paired.",
        "",
        f"![Loss by step, and the scores before and after]({CURVES_FILE})",
        "",
        *_examples(judgement),
        "## Data",
        "",
        *table(["file", "rows", "SHA-256", "fields"], files),
        "",
        f"{len(data.train)} rows to learn from and {len(data.held_out)} held out, with no text on both sides; "
        f"{data.skipped} skipped; cut to what is read of them: {data.cut}.",
        "",
        "## Recipe",
        "",
        f"    {report.command or 'not recorded'}",
        "",
        f"Seed {report.config.data.seed}, {report.step} steps, {report.seconds:.0f} s. The settings "
        f"(`{CONFIG_FILE}` can be given to `--config`):",
        "",
        "```toml",
        report.config.to_toml().rstrip(),
        "```",
        "",
        ", ".join(f"{name} {version}" for name, version in report.versions.items()),
        "",
        f"The saved vectors are at most {judgement.proof.to_trained:.2g} from the trained and "
        f"{judgement.proof.to_base:.2g} from those of the model that training began from.",
        "",
        "## Limits",
        "",
        _LIMITS,
    ]
    return "\n".join(lines)


def _examples(judgement: Judgement) -> list[str]:
    """Tabulate the first hits of searches of held-out rows, before and after; nothing where there are none."""
    rows = []
    for example in judgement.examples:
        under = f" under {_code(example['instruction'])}" if example["instruction"] else ""
        firsts = (example[when][0] for when in ("before", "after"))
        results = [f"{'right' if first['right'] else 'wrong'}: {_code(first['text'])}" for first in firsts]
        rows.append([f"{_code(example['query'])}{under}", _code(example["answer"]), *results])
    if not rows:
        return []
    held_out = "Searches of held-out rows, and what each finds first:"
    return ["## Examples", "", held_out, "", *table(["search", "answer", "before", "after"], rows), ""]


def _code(text: str) -> str:
    """Return a user's text as one line of code, which Markdown shows as it is; control characters become spaces."""
    plain = printable(text.replace("`", "'"))
    return f"`{shortened(' '.join(plain.split()), _SHOWN_CHARACTERS)}`"


def _scores(judgement: Judgement) -> list[str]:
    rows = []
    for change in judgement.changes:
        before, after, moved = change.before, change.after, change.difference
        measured = [ranged(score.value, score.low, score.high) for score in (before, after)]
        gained = f"{moved.value:+.2f} [{moved.low:+.2f}, {moved.high:+.2f}]"
        rows.append([f"{before.task}, {before.metric}", *measured, gained, str(before.items)])
    return table(["score", "before", "after", "change", "items"], rows)


_WINDOW = 0.1  # of a curve's steps that one point of its mean covers
_POINTS = 400  # of a curve, at most about that many are drawn
_LIGHT = "#CCCCCC"


def draw_curves(path: Path, stages: Mapping[str, Sequence[Mapping[str, float]]], changes: Sequence[Change]) -> None:
    """Write an SVG of every stage's record, by its name, and of every score; equal numbers give equal bytes."""
    with svg_figure(path, (3.2 * len(stages) + 5.6, 3.2)) as figure:
        axes = figure.subplots(1, len(stages) + 1, squeeze=False, width_ratios=[3.2] * len(stages) + [5.6])[0]
        for axis, (name, rows) in zip(axes, stages.items(), strict=False):
            _draw_loss(axis, name, rows)
        _draw_scores(axes[-1], changes)
        for axis in axes:
            axis.spines[["top", "right"]].set_visible(False)


def smoothed(values: Sequence[float]) -> list[float]:
    """Return the mean of every value and its neighbours, a tenth of the curve; fewer at the ends, as many each side."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    most = max(1, round(_WINDOW * len(values) / 2))
    side = np.minimum(most, np.minimum(places, places[::-1]))
    means: list[float] = ((sums[places + side + 1] - sums[places - side]) / (2 * side + 1)).tolist()
    return means


def _draw_loss(axis: Any, name: str, rows: Sequence[Mapping[str, float]]) -> None:  # noqa: ANN401 - matplotlib's Axes
    steps, losses = [row["step"] for row in rows], [row["loss"] for row in rows]
    drawn = slice(None, None, -(-len(rows) // _POINTS) or 1)
    axis.plot(steps[drawn], losses[drawn], color=_LIGHT, linewidth=0.8)
    axis.plot(steps[drawn], smoothed(losses)[drawn], color=ENCODER_COLOURS[0], linewidth=1.6)
    axis.set_title(f"loss, {name}", loc="left", fontweight="bold")
    axis.set_xlabel("step")


def _draw_scores(axis: Any, changes: Sequence[Change]) -> None:  # noqa: ANN401 - matplotlib's Axes
    for which, (label, shift) in enumerate((("before", -0.2), ("after", 0.2))):
        scores = [getattr(change, label) for change in changes]
        places = [place + shift for place in range(len(scores))]
        values = [score.value for score in scores]
        axis.bar(places, values, width=0.36, color=ENCODER_COLOURS[1 - which], label=label, zorder=2)
        axis.errorbar(places, values, yerr=whiskers(scores), **WHISKERS)
        for place, score in zip(places, scores, strict=True):
            top = (place, max(score.high, score.value))
            axis.annotate(f"{score.value:.1f}", top, (0, 3), textcoords="offset points", ha="center", fontsize=8)
    axis.set_xticks(range(len(changes)), [f"{change.before.task}\n{change.before.metric}" for change in changes])
    axis.tick_params(axis="x", length=0, labelsize=8)
    axis.axhline(0, color="#333333", linewidth=0.8)
    axis.set_title("score", loc="left", fontweight="bold")
    axis.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=8, borderaxespad=0)
