"""Charts of clusters as Vega-Lite specifications: the map, a cluster's stars, and how it grew."""

from collections.abc import Mapping, Sequence
from typing import Any

from retriever_app.view_models.colours import Colours
from retriever_app.view_models.grouping import BOX, Part

Spec = dict[str, Any]

PICK, BRUSH = "pick", "brush"
"""The map's selections: clusters by click, a box by drag."""

MAP_HEIGHT = 480
_EDGE = 1.08  # of the map, in its units, so that the outermost points are whole
_MANY = 3000  # points beyond which they are drawn smaller
_NARROW = "width < 520"


def map_chart(clusters: int, points: int, names: Sequence[Mapping[str, Any]], seed: Part, colours: Colours) -> Spec:
    """Return the map, to be drawn over the columns of `clusters.points`.

    Args:
        clusters: how many there are.
        points: how many there are.
        names: from `clusters.names`.
        seed: what is chosen when it is drawn.
        colours: of the theme.
    """
    numbers = list(range(clusters))
    place = {
        axis: {"field": axis, "type": "quantitative", "axis": None, "scale": {"domain": [-_EDGE, _EDGE], "nice": False}}
        for axis in ("x", "y")
    }
    dots: Spec = {
        "mark": {"type": "point", "filled": True, "size": 16 if points > _MANY else 46, "cursor": "pointer"},
        "params": _selections(seed),
        "encoding": {
            **place,
            "color": _scaled("cluster", numbers, [colours.of(one) for one in numbers]),
            "shape": _scaled("cluster", numbers, [colours.shape(one) for one in numbers]),
            "opacity": {"condition": {"test": {"and": [_chosen(PICK), _chosen(BRUSH)]}, "value": 0.8}, "value": 0.12},
            "tooltip": [
                {"field": "name", "type": "nominal", "title": "cluster"},
                {"field": "review", "type": "nominal"},
            ],
        },
    }
    words: Spec = {
        "type": "text",
        "fontWeight": 600,
        "fontSize": {"expr": f"{_NARROW} ? 10 : 13"},
        "limit": {"expr": f"{_NARROW} ? width * 0.42 : 260"},
        "tooltip": None,
    }
    over = {**place, "text": {"field": "name", "type": "nominal"}}
    named = {"values": list(names)}
    return {
        "height": MAP_HEIGHT,
        "padding": {"left": 4, "right": 4, "top": 4, "bottom": 4},
        "config": {"view": {"stroke": None}},
        "layer": [
            dots,
            {
                "data": named,
                "mark": {**words, "stroke": colours.ground, "strokeWidth": 4, "strokeJoin": "round", "opacity": 0.85},
                "encoding": over,
            },
            {"data": named, "mark": {**words, "color": colours.text}, "encoding": over},
        ],
    }


def stars_chart(ratings: Mapping[int, int], colour: str, colours: Colours) -> Spec:
    """Return how many reviews have how many stars, as bars, the most stars on top."""
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
    """Return how many reviews were written in which month, as bars."""
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


def _selections(seed: Part) -> list[Spec]:
    pick: Spec = {
        "name": PICK,
        "select": {"type": "point", "fields": ["cluster"], "toggle": "event.shiftKey", "clear": "dblclick"},
    }
    brush: Spec = {
        "name": BRUSH,
        "select": {
            "type": "interval",
            "on": "[pointerdown[!event.shiftKey], window:pointerup] > window:pointermove!",
            "clear": "dblclick",
            "zoom": False,
        },
    }
    zoom: Spec = {
        "name": "zoom",
        "bind": "scales",
        "select": {
            "type": "interval",
            "zoom": "wheel![event.ctrlKey]",
            "translate": "[pointerdown[event.shiftKey], window:pointerup] > window:pointermove!",
        },
    }
    if seed.clusters:
        pick["value"] = [{"cluster": one} for one in seed.clusters]
    if seed.box:
        left, right, bottom, top = (number / BOX for number in seed.box)
        brush["value"] = {"x": [left, right], "y": [bottom, top]}
    return [pick, brush, zoom]


def _scaled(field: str, domain: Sequence[object], values: Sequence[str]) -> Spec:
    scale = {"domain": list(domain), "range": list(values)}
    return {"field": field, "type": "nominal", "scale": scale, "legend": None}


def _chosen(selection: str) -> Spec:
    return {"param": selection, "empty": True}
