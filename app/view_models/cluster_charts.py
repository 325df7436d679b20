"""Charts of a cluster as Vega-Lite specifications: its stars, and how it grew."""

from collections.abc import Mapping
from typing import Any

from retriever_app.view_models.colours import Colours

Spec = dict[str, Any]


def channel(field: str, kind: str, **rest: object) -> Spec:
    """Return a channel of an encoding: a field of the data, its type, and what else is said of it."""
    return {"field": field, "type": kind, **rest}


def stars_chart(ratings: Mapping[int, int], colour: str, colours: Colours) -> Spec:
    """Chart how many reviews have how many stars, as bars, the most stars on top."""
    total = max(1, sum(ratings.values()))
    values = [
        {"stars": f"{stars} ★", "reviews": count, "share": count / total, "said": f"{count / total:.0%}"}
        for stars, count in ratings.items()
    ]
    line = channel("stars", "nominal", sort=None, title=None)
    axis = {
        "ticks": False,
        "domain": False,
        "labelColor": colours.text,
        "labelFontSize": 12,
        "labelPadding": 6,
        "labelFlush": False,
        "labelOverlap": False,
    }
    tips = [channel("stars", "nominal"), channel("reviews", "quantitative", format=",")]
    return {
        "height": 20 * len(values),
        "config": {"view": {"stroke": None}},
        "data": {"values": values},
        "encoding": {"y": {**line, "axis": axis}, "tooltip": tips},
        "layer": [
            {
                "mark": {"type": "bar", "color": colour, "height": 11, "cornerRadiusEnd": 2},
                "encoding": {"x": channel("share", "quantitative", axis=None, scale={"domain": [0, 1.22]})},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 5, "color": colours.text, "fontSize": 12},
                "encoding": {"x": channel("share", "quantitative"), "text": channel("said", "nominal")},
            },
        ],
    }


def trend_chart(months: Mapping[str, int], colour: str, colours: Colours) -> Spec:
    """Chart how many reviews were written in which month, as bars."""
    values = [{"month": f"{month}-01", "reviews": count} for month, count in months.items()]
    axis = {"grid": False, "labelColor": colours.text, "title": None, "labelFontSize": 11}
    by_month = {**axis, "format": "%b %y", "tickCount": 3, "labelOverlap": True}
    counted = {**axis, "tickCount": 2, "tickMinStep": 1, "format": "d"}
    return {
        "height": 92,
        "config": {"view": {"stroke": None}},
        "data": {"values": values},
        "mark": {"type": "bar", "color": colour},
        "encoding": {
            "x": channel("month", "temporal", timeUnit="yearmonth", axis=by_month),
            "y": channel("reviews", "quantitative", axis=counted),
            "tooltip": [
                channel("month", "temporal", format="%B %Y"),
                channel("reviews", "quantitative", format=","),
            ],
        },
    }
