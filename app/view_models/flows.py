"""Show the flows between two clusterings of the same reviews: a chart of ribbons, a table, and a sentence."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from retriever.clusters.clustering import Clustering
from retriever.clusters.comparing import ClusterChange, Flow
from retriever_app.view_models import text
from retriever_app.view_models.cluster_charts import Spec, channel
from retriever_app.view_models.clusters import name_of
from retriever_app.view_models.colours import Colours

PICK = "ribbon"  # the chart's selection: one flow by click

_STEPS = 24  # corners of a ribbon's edge
_GAP = 0.02  # between two clusters, of the height
_BAR_WIDTH = 0.035  # of a cluster
_RELATED, _HARDLY = 0.2, 0.05  # adjusted Rand indices from which there is a relation, and hardly any
_AGREE = ((0.8, "nearly the same"), (0.5, "much alike"), (_RELATED, "somewhat alike"))


def sentence(change: ClusterChange) -> str:
    """Describe how much the two clusterings have to do with each other, in words."""
    total = len(change.clusterings[0].material.documents)
    index = f"adjusted Rand index {change.rand:.2f}"
    if change.rand < _RELATED:
        said = "nothing" if change.rand < _HARDLY else "hardly anything"
        return f"Unrelated ({index}): where a review is under one question says {said} of where it is under the other."
    alike = next(said for least, said in _AGREE if change.rand >= least)
    return (
        f"The two groupings are {alike} ({index}): {change.moved:,} of {text.count(total, 'review')} are elsewhere "
        "under the second instruction."
    )


def flow_name(change: ClusterChange, flow: Flow) -> str:
    """Name a flow: from which cluster to which."""
    first, second = change.clusterings
    return f"{name_of(first.clusters[flow.first])} → {name_of(second.clusters[flow.second])}"


def table(change: ClusterChange) -> list[dict[str, object]]:
    """Return the flows as rows of a table, in their order.

    Beside which share of the first cluster flows stands the share that would if the two had nothing to do with each
    other: that of the second cluster in all reviews.
    """
    first, second = change.clusterings
    total = len(first.material.documents)
    return [
        {
            "reviews": len(flow.ids),
            "first instruction": name_of(first.clusters[flow.first]),
            "second instruction": name_of(second.clusters[flow.second]),
            "of the first": f"{len(flow.ids) / first.clusters[flow.first].measures.size:.0%}",
            "if unrelated": f"{second.clusters[flow.second].measures.size / total:.0%}",
        }
        for flow in change.flows
    ]


def flow_chart(change: ClusterChange, chosen: Sequence[int], colours: Colours) -> Spec:
    """Return the clusters of both sides as bars with names, and ribbons as thick as what flows between them.

    The flow that ``chosen`` names by its first and second cluster stands out at first; empty names none.
    """
    first, second = change.clusterings
    tops = (_stack(first, range(len(first.clusters))), _stack(second, _untangled(change)))
    total = len(first.material.documents)
    numbers = list(range(len(first.clusters)))
    pick: Spec = {"name": PICK, "select": {"type": "point", "fields": ["flow"], "clear": "dblclick"}}
    if chosen:
        pick["value"] = [{"flow": spell(*chosen)}]
    x = channel("x", "quantitative", axis=None, scale={"domain": [-0.75, 1.75], "nice": False})
    y = channel("top", "quantitative", axis=None, scale={"reverse": True, "nice": False, "zero": False})
    shades = {"domain": numbers, "range": [colours.of(one) for one in numbers]}
    ribbons: Spec = {
        "data": {"values": _ribbons(change, tops, total)},
        "mark": {"type": "area", "cursor": "pointer"},
        "params": [pick],
        "encoding": {
            "x": x,
            "y": y,
            "y2": {"field": "bottom"},
            "detail": channel("flow", "nominal"),
            "color": channel("first", "nominal", scale=shades, legend=None),
            "opacity": {"condition": {"param": PICK, "empty": True, "value": 0.5}, "value": 0.1},
            "tooltip": [channel("name", "nominal"), channel("reviews", "quantitative")],
        },
    }
    bars: Spec = {
        "data": {"values": [*_bars(first, tops[0], 0, total), *_bars(second, tops[1], 1, total)]},
        "encoding": {"y": y},
        "layer": [
            {
                "mark": {"type": "rect", "color": colours.quiet},
                "encoding": {"x": x, "x2": {"field": "right"}, "y2": {"field": "bottom"}},
            },
            *(_names(side, colours) for side in (0, 1)),
        ],
    }
    return {
        "height": max(320, 34 * max(len(first.clusters), len(second.clusters))),
        "padding": {"left": 4, "right": 4, "top": 4, "bottom": 4},
        "config": {"view": {"stroke": None}},
        "layer": [ribbons, bars],
    }


def spell(first: int, second: int) -> str:
    """Return the name a flow has in the chart."""
    return f"{first},{second}"


def read_flow(spelled: str) -> tuple[int, int]:
    """Return the flow that a name of the chart means."""
    first, second = map(int, spelled.split(","))
    return first, second


def _names(side: int, colours: Colours) -> Spec:
    return {
        "transform": [{"filter": f"datum.side == {side}"}],
        "mark": {
            "type": "text",
            "align": "left" if side else "right",
            "baseline": "middle",
            "dx": 12 if side else -6,
            "color": colours.text,
            "fontSize": {"expr": "width < 520 ? 10 : 13"},
            "limit": {"expr": "width * 0.27"},
        },
        "encoding": {
            "x": channel("x", "quantitative"),
            "y": channel("middle", "quantitative"),
            "text": channel("name", "nominal"),
            "tooltip": [channel("name", "nominal"), channel("reviews", "quantitative")],
        },
    }


def _stack(found: Clustering, order: Sequence[int]) -> dict[int, float]:
    """Return where each cluster begins, from the top in this order, of a height of 1 and the gaps."""
    total, top, tops = len(found.material.documents), 0.0, {}
    for number in order:
        tops[number] = top
        top += found.clusters[number].measures.size / total + _GAP
    return tops


def _untangled(change: ClusterChange) -> list[int]:
    """Return the second clusters in the order of where their reviews come from, so that few ribbons cross."""
    first, second = change.clusterings
    begins = _stack(first, range(len(first.clusters)))
    comes = dict.fromkeys(range(len(second.clusters)), 0.0)
    for flow in change.flows:
        comes[flow.second] += begins[flow.first] * len(flow.ids) / second.clusters[flow.second].measures.size
    return sorted(comes, key=lambda number: (comes[number], number))


def _ribbons(change: ClusterChange, tops: tuple[dict[int, float], dict[int, float]], total: int) -> list[Spec]:
    """Return the corners of every ribbon; at each cluster they lie in the order of the other side."""
    left, right = dict(tops[0]), dict(tops[1])
    starts = {}
    for flow in sorted(change.flows, key=lambda flow: tops[1][flow.second]):
        starts[flow.first, flow.second] = left[flow.first]
        left[flow.first] += len(flow.ids) / total
    corners = []
    for flow in sorted(change.flows, key=lambda flow: tops[0][flow.first]):
        begin, end, thick = starts[flow.first, flow.second], right[flow.second], len(flow.ids) / total
        right[flow.second] += thick
        for x in np.linspace(0, 1, _STEPS).tolist():
            top = begin + (end - begin) * x * x * (3 - 2 * x)
            corners.append(
                {
                    "x": round(x, 4),
                    "top": round(top, 5),
                    "bottom": round(top + thick, 5),
                    "flow": spell(flow.first, flow.second),
                    "first": flow.first,
                    "name": flow_name(change, flow),
                    "reviews": len(flow.ids),
                }
            )
    return corners


def _bars(found: Clustering, tops: dict[int, float], side: int, total: int) -> list[dict[str, Any]]:
    result = []
    for cluster in found.clusters:
        top, high = tops[cluster.number], cluster.measures.size / total
        result.append(
            {
                "side": side,
                "x": side - (0 if side else _BAR_WIDTH),
                "right": side + (_BAR_WIDTH if side else 0),
                "top": top,
                "bottom": top + high,
                "middle": top + high / 2,
                "name": name_of(cluster),
                "reviews": cluster.measures.size,
            }
        )
    return result
