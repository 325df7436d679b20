"""Charts of a cluster as Vega-Lite specifications: its stars, and how it grew."""

from collections.abc import Mapping
from typing import Any

from retriever_app.view_models.colours import Colours

Spec = dict[str, Any]


def stars_chart(ratings: Mapping[int, int], colour: str, colours: Colours) -> Spec:
    """Chart how many reviews have how many stars, as bars, the most stars on top."""
    total = max(1, sum(ratings.values()))
    values = [
        {"stars": f"{stars} ★", "reviews": count, "share": count / total, "said": f"{count / total:.0%}"}
        for stars, count in ratings.items()
    ]
    line = {"field": "stars", "type": "nominal", "sort": None, "title": None}
    axis = {
        "ticks": False,
        "domain": False,
        "labelColor": colours.text,
        "labelFontSize": 12,
        "labelPadding": 6,
        "labelOverlap": False,
    }
    tips = [{"field": "stars", "type": "nominal"}, {"field": "reviews", "type": "quantitative", "format": ","}]
    return {
        "height": 20 * len(values),
        "config": {"view": {"stroke": None}},
        "data": {"values": values},
        "encoding": {"y": {**line, "axis": axis}, "tooltip": tips},
        "layer": [
            {
                "mark": {"type": "bar", "color": colour, "height": 11, "cornerRadiusEnd": 2},
                "encoding": {
                    "x": {"field": "share", "type": "quantitative", "axis": None, "scale": {"domain": [0, 1.22]}}
                },
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 5, "color": colours.text, "fontSize": 12},
                "encoding": {
                    "x": {"field": "share", "type": "quantitative"},
                    "text": {"field": "said", "type": "nominal"},
                },
            },
        ],
    }


def trend_chart(months: Mapping[str, int], colour: str, colours: Colours) -> Spec:
    """Chart how many reviews were written in which month, as bars."""
    values = [{"month": f"{month}-01", "reviews": count} for month, count in months.items()]
    axis = {"grid": False, "labelColor": colours.text, "title": None, "labelFontSize": 11}
    return {
        "height": 92,
        "config": {"view": {"stroke": None}},
        "data": {"values": values},
        "mark": {"type": "bar", "color": colour},
        "encoding": {
            "x": {
                "field": "month",
                "type": "temporal",
                "timeUnit": "yearmonth",
                "axis": {**axis, "format": "%b %y", "tickCount": 3, "labelOverlap": True},
            },
            "y": {
                "field": "reviews",
                "type": "quantitative",
                "axis": {**axis, "tickCount": 2, "tickMinStep": 1, "format": "d"},
            },
            "tooltip": [
                {"field": "month", "type": "temporal", "format": "%B %Y"},
                {"field": "reviews", "type": "quantitative", "format": ","},
            ],
        },
    }
