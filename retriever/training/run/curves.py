"""A picture of a fine-tuning: the loss by step, and the scores before and after."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retriever.evaluation.run.report import ENCODER_COLOURS, WHISKERS, svg_figure, whiskers
from retriever.training.run.scores import Change

_WINDOW = 0.1  # of a curve's steps that one point of its mean covers
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
    axis.plot(steps, losses, color=_LIGHT, linewidth=0.8)
    axis.plot(steps, smoothed(losses), color=ENCODER_COLOURS[0], linewidth=1.6)
    axis.set_title(f"loss, {name}", loc="left", fontweight="bold")
    axis.set_xlabel("step")


def _draw_scores(axis: Any, changes: Sequence[Change]) -> None:  # noqa: ANN401 - matplotlib's Axes
    for which, (label, shift) in enumerate((("before", -0.2), ("after", 0.2))):
        scores = [getattr(change, label) for change in changes]
        places = [place + shift for place in range(len(scores))]
        values = [one.value for one in scores]
        axis.bar(places, values, width=0.36, color=ENCODER_COLOURS[1 - which], label=label, zorder=2)
        axis.errorbar(places, values, yerr=whiskers(scores), **WHISKERS)
        for place, one in zip(places, scores, strict=True):
            top = (place, max(one.high, one.value))
            axis.annotate(f"{one.value:.1f}", top, (0, 3), textcoords="offset points", ha="center", fontsize=8)
    axis.set_xticks(range(len(changes)), [f"{change.before.task}\n{change.before.metric}" for change in changes])
    axis.tick_params(axis="x", length=0, labelsize=8)
    axis.axhline(0, color="#333333", linewidth=0.8)
    axis.set_title("score", loc="left", fontweight="bold")
    axis.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=8, borderaxespad=0)
