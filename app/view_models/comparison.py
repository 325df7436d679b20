"""Describe the page that compares two instructions: cards on both sides, and lines between them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from retriever.clusters.comparing import Moved, RankChange
from retriever.index.profiling import Columns
from retriever_app.view_models import text
from retriever_app.view_models.cards import card
from retriever_app.view_models.cluster_charts import Spec, channel
from retriever_app.view_models.clusters import short
from retriever_app.view_models.colours import Colours

MOST_HITS = 30
ONLY = "only here"
STEP, CARD = 160, 148
"""Pixels from one card's top to the next one's, and a card's height: the lines are drawn to them."""

_TIP, _PRODUCT = 140, 30  # characters
_WORDS_A_HIT = 3
Way = Literal["up", "down", "same"]


@dataclass(frozen=True, slots=True)
class HitPair:
    """A query and the two instructions, left and right, that are compared on it."""

    q: str = ""
    first: str = ""
    second: str = ""
    k: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", min(max(self.k, 1), MOST_HITS))


@dataclass(frozen=True, slots=True)
class RankLine:
    """A hit on one side.

    Attributes:
        stars: its rating, as stars.
        product: what it is about, or its category.
        words: what the model answered on this side.
        mark: where it is on the other side, as a badge.
        way: whether it is further up than on the other side; None where it is not there.
    """

    id: str
    rank: int
    stars: str
    product: str
    body: str
    words: Sequence[str]
    mark: str
    way: Way | None


def sentence(change: RankChange) -> str:
    """Describe how many hits both instructions have, and how many of them moved."""
    both = [one for one in change.moved if None not in one.ranks]
    longest = max(len(result.hits) for result in change.results)
    if not longest:
        return "Neither instruction finds anything."
    still = sum(one.ranks[0] == one.ranks[1] for one in both)
    if not both:
        return "The two instructions have no hit in common."
    return f"{len(both)} of {text.count(longest, 'hit')} are on both sides, {still} of them in the same place."


def side(change: RankChange, which: int, columns: Columns) -> list[RankLine]:
    """Return the hits of one side, 0 for the left and 1 for the right, best first."""
    found = [(one.ranks[which], one) for one in change.moved]
    ranked = sorted(((rank, one) for rank, one in found if rank is not None), key=lambda pair: pair[0])
    return [_line(rank, one, which, columns) for rank, one in ranked]


def lines_chart(change: RankChange, colours: Colours) -> Spec:
    """Return the lines between the cards of both sides; hits of one side only get a stub with an empty end."""
    most = max((len(result.hits) for result in change.results), default=0)
    height = STEP * most - (STEP - CARD)
    lines, ends = [], []
    for one in change.moved:
        left, right = one.ranks
        way = _way(left, right) or "only"
        moved = f"{left or 'not found'} → {right or 'not found'}"
        said = {"way": way, "review": short(one.hit.document.text, _TIP), "moved": moved}
        points = [(x, rank) for x, rank in ((0.0, left), (1.0, right)) if rank is not None]
        if len(points) == 1:
            x, rank = points[0]
            points.append((abs(x - 0.14), rank))
            ends.append({**said, "x": points[1][0], "y": _middle(rank)})
        lines += [{**said, "id": one.hit.document.id, "x": x, "y": _middle(rank)} for x, rank in points]
    kinds = {"up": colours.up, "down": colours.down, "same": colours.quiet, "only": colours.quiet}
    place = {
        "x": _axis("x", [0, 1]),
        "y": _axis("y", [height, 0]),
        "color": channel("way", "nominal", scale={"domain": list(kinds), "range": list(kinds.values())}, legend=None),
        "tooltip": [channel("moved", "nominal", title="rank"), channel("review", "nominal")],
    }
    dashes = {"condition": {"test": "datum.way == 'only'", "value": [3, 3]}, "value": [1, 0]}
    return {
        "height": height,
        "padding": {"left": 2, "right": 2, "top": 0, "bottom": 0},
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": {"view": {"stroke": None}},
        "layer": [
            {
                "data": {"values": lines},
                "mark": {"type": "line", "strokeWidth": 2.5, "interpolate": "linear"},
                "encoding": {**place, "detail": channel("id", "nominal"), "strokeDash": dashes},
            },
            {
                "data": {"values": ends},
                "mark": {"type": "point", "size": 60, "filled": False, "strokeWidth": 2},
                "encoding": place,
            },
        ],
    }


def rows(change: RankChange) -> list[dict[str, object]]:
    """Return the hits of both sides as rows of a table to take away."""
    return [
        {
            "rank under the first": one.ranks[0],
            "rank under the second": one.ranks[1],
            "id": one.hit.document.id,
            "words under the first": ", ".join(one.words[0]),
            "words under the second": ", ".join(one.words[1]),
            "text": one.hit.document.text,
            **{name: value for name, value in one.hit.document.metadata.items() if name not in ("id", "text")},
        }
        for one in change.moved
    ]


def _line(rank: int, moved: Moved, which: int, columns: Columns) -> RankLine:
    other = moved.ranks[1 - which]
    shown = card(moved.hit.document, replace(columns, date=""))
    product = short(shown.product or shown.about, _PRODUCT)
    way = _way(other, rank)
    marks = {"up": "▲", "down": "▼", "same": "="}
    mark = ONLY if way is None else f"{marks[way]} {other} there"
    return RankLine(shown.id, rank, shown.stars, product, shown.body, moved.words[which][:_WORDS_A_HIT], mark, way)


def _way(before: int | None, after: int | None) -> Way | None:
    """Return which way a hit moved; None where it is on one side only."""
    if before is None or after is None:
        return None
    return "same" if before == after else "up" if after < before else "down"


def _middle(rank: int) -> float:
    """Compute how far below the top of the first card the middle of a card is, in pixels."""
    return (rank - 1) * STEP + CARD / 2


def _axis(field: str, domain: Sequence[float]) -> dict[str, Any]:
    scale = {"domain": list(domain), "nice": False, "zero": False}
    return channel(field, "quantitative", axis=None, scale=scale)
