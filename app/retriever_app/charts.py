"""Charts as Vega-Lite specifications, in colours that are readable in both themes and distinct to the colour-blind."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retriever.core.periods import Period, fitting, period_of

Spec = dict[str, Any]

_BAR_ROW, _SCORE_ROW, _AROUND_SCORES = 22, 40, 90  # pixels of a bar, of a score, and of axis and legend
_NUMBER = 34  # pixels beyond the longest bar, for its number
LABEL_ROOM = 18  # pixels beyond the last bar over time, for the half of its label that is wider


@dataclass(frozen=True, slots=True)
class Colours:
    """The colours of a theme's page, text, what stands back, moved up or down, and of clusters.

    Where those of clusters are used up, the shape tells two of one colour apart.
    """

    ground: str
    text: str
    quiet: str
    up: str
    down: str
    clusters: tuple[str, ...]

    def of(self, cluster: int) -> str:
        """Return the colour of a cluster."""
        return self.clusters[cluster % len(self.clusters)]

    def shape(self, cluster: int) -> str:
        """Return the shape of a cluster's points."""
        return SHAPES[cluster // len(self.clusters) % len(SHAPES)]


SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")
LIGHT = Colours(
    ground="#ffffff",
    text="#1b2430",
    quiet="#75808f",
    up="#0072b2",
    down="#d55e00",
    clusters=("#0072b2", "#d55e00", "#117733", "#882255", "#999933", "#332288", "#1b9e77"),
)
DARK = Colours(
    ground="#12161c",
    text="#e5e9ef",
    quiet="#8b96a5",
    up="#7fb5ec",
    down="#e69f00",
    clusters=("#7fb5ec", "#e69f00", "#a6dba0", "#d1605e", "#f2e05c", "#9970ab", "#8f7ee8"),
)


def channel(field: str, kind: str, **rest: object) -> Spec:
    """Return a channel of an encoding: a field of the data, its type, and its other properties."""
    return {"field": field, "type": kind, **rest}


def bar_chart(counts: Mapping[str, int], colour: str, colours: Colours, *, shares: bool = False) -> Spec:
    """Chart how many reviews there are of each kind, as bars in the order given, with numbers or shares beside them."""
    total, most = max(1, sum(counts.values())), max(1, *counts.values(), 1)
    values = [
        {"kind": kind, "reviews": count, "number": f"{count / total:.0%}" if shares else f"{count:,}"}
        for kind, count in counts.items()
    ]
    axis = _names(colours, labelLimit=190)
    length = channel("reviews", "quantitative", axis=None, scale={"domain": [0, most], "nice": False})
    return {
        "height": _BAR_ROW * len(values),
        "padding": {"left": 5, "top": 5, "bottom": 5, "right": _NUMBER},
        "config": {"view": {"stroke": None}},
        "data": {"values": values},
        "encoding": {
            "y": channel("kind", "nominal", sort=None, title=None, axis=axis),
            "x": length,
            "tooltip": [channel("kind", "nominal"), channel("reviews", "quantitative", format=",")],
        },
        "layer": [
            {"mark": {"type": "bar", "color": colour, "height": 13, "cornerRadiusEnd": 2}},
            {
                "mark": {"type": "text", "align": "left", "dx": 5, "color": colours.text, "fontSize": 12},
                "encoding": {"text": channel("number", "nominal")},
            },
        ],
    }


def by_period(months: Mapping[str, int]) -> tuple[Period, dict[str, int]]:
    """Return counts of months, named as 2024-05, by the unit of time that a chart has room for, and that unit."""
    days = [f"{month}-01" for month in months]
    unit, counts = fitting(days), Counter[str]()
    for day, number in zip(days, months.values(), strict=True):
        counts[period_of(day, unit)] += number
    return unit, dict(counts)


def time_chart(months: Mapping[str, int], colour: str, colours: Colours, *, height: int = 170) -> Spec:
    """Chart how many reviews were written over time as bars of a colour, the oldest on the left.

    The months are named as 2024-05, oldest first; many become quarters or years. The height is in pixels.
    """
    axis = {"grid": False, "labelColor": colours.text, "title": None, "labelFontSize": 11}
    unit, counts = by_period(months)
    return {
        "height": height,
        "padding": {"left": 5, "top": 5, "bottom": 5, "right": LABEL_ROOM},
        "config": {"view": {"stroke": None}},
        "data": {"values": [{"period": period, "reviews": count} for period, count in counts.items()]},
        "mark": {"type": "bar", "color": colour},
        "encoding": {
            "x": channel("period", "ordinal", sort=None, axis={**axis, "labelAngle": 0, "labelOverlap": "greedy"}),
            "y": channel("reviews", "quantitative", axis={**axis, "tickCount": 2, "tickMinStep": 1, "format": "d"}),
            "tooltip": [channel("period", "nominal", title=unit), channel("reviews", "quantitative", format=",")],
        },
    }


def loss_chart(points: Sequence[Mapping[str, float]], steps: int, colours: Colours) -> Spec:
    """Chart the ``loss`` of every ``step`` so far and its ``mean``, on an axis of all steps."""
    numbers = {"labelColor": colours.text, "titleColor": colours.text, "grid": False}
    scale, step = {"domain": [1, max(steps, 2)]}, {**numbers, "tickMinStep": 1}
    fractions = [channel(name, "quantitative", format=".3f") for name in ("loss", "mean")]
    loss = channel("loss", "quantitative", title="loss", scale={"zero": False}, axis=numbers)
    return {
        "height": 220,
        "data": {"values": list(points)},
        "encoding": {
            "x": channel("step", "quantitative", scale=scale, axis=step),
            "tooltip": [channel("step", "quantitative"), *fractions],
        },
        "layer": [
            {"mark": {"type": "point", "color": colours.quiet, "size": 14, "filled": True}, "encoding": {"y": loss}},
            {
                "mark": {"type": "line", "color": colours.clusters[0], "strokeWidth": 3},
                "encoding": {"y": channel("mean", "quantitative")},
            },
        ],
    }


def score_chart(scores: Mapping[str, tuple[float, float]], colours: Colours) -> Spec:
    """Chart scores by name, each before, a circle, and after, a filled diamond, in percent."""
    when = ["before", "after"]
    values = [
        {"score": name, "when": time, "percent": value}
        for name, pair in scores.items()
        for time, value in zip(when, pair, strict=True)
    ]
    legend = {"title": None, "orient": "top", "labelColor": colours.text}

    def by_time(*looks: str) -> Spec:
        return channel("when", "nominal", scale={"domain": when, "range": list(looks)}, legend=legend)

    percent = {"labelColor": colours.text, "titleColor": colours.text}
    return {
        "height": _SCORE_ROW * len(scores) + _AROUND_SCORES,
        "config": {"view": {"stroke": None}},
        "data": {"values": values},
        "encoding": {
            "x": channel("percent", "quantitative", title="score, %", scale={"domain": [0, 100]}, axis=percent),
            "y": channel("score", "nominal", sort=None, title=None, axis=_names(colours, labelLimit=130)),
        },
        "layer": [
            {
                "mark": {"type": "line", "color": colours.quiet, "strokeWidth": 2},
                "encoding": {"detail": channel("score", "nominal")},
            },
            {
                "mark": {"type": "point", "size": 120, "strokeWidth": 2.5, "opacity": 1},
                "encoding": {
                    "shape": by_time("circle", "diamond"),
                    "stroke": by_time(colours.down, colours.up),
                    "fill": by_time("transparent", colours.up),
                    "tooltip": [channel("when", "nominal"), channel("percent", "quantitative", format=".1f")],
                },
            },
        ],
    }


def _names(colours: Colours, **rest: object) -> Spec:
    """Return an axis of names beside bars, all of which are shown."""
    shown = {"labelColor": colours.text, "labelFontSize": 12, "labelPadding": 6, "labelFlush": False}
    return {"ticks": False, "domain": False, "labelOverlap": False, **shown, **rest}
