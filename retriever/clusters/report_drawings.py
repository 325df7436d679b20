"""The drawings of a report: a bar of every group's share and ratings, and a line of its share over time."""

from collections.abc import Sequence
from dataclasses import dataclass

from retriever.clusters.arithmetic.intervals import FEW, percentage
from retriever.clusters.index_numbers import Counted
from retriever.clusters.numbers import GroupNumbers, Trend

WIDTH, HEIGHT = 120.0, 28.0
"""Of a line over time."""
LOW, HIGH = 0.4, 0.8
"""Of the scale: ratings up to two of five stars are low, those from four are high."""

_EDGE = 2.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A group's bar in the chart, in percent of the chart's width.

    Attributes:
        parts: widths of its reviews with low, middle and high ratings, and of those without one.
        low: where the interval of the share begins.
        high: where it ends.
    """

    parts: Sequence[float]
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Line:
    """A group's share over time, as points of a drawing, of periods with `FEW` reviews or more.

    Attributes:
        points: the share, ``x,y x,y``.
        band: the interval around it, as a closed shape.
        said: what it shows, for those who do not see it.
    """

    points: str
    band: str
    said: str


def bar(group: GroupNumbers, row: int, counted: Counted, scale: float, top: float) -> Bar:
    """Draw the share of the group of a row of the counted groups, where ``top`` is as wide as the chart.

    Without a share there is nothing to draw.
    """
    if group.share is None:
        return Bar([], 0.0, 0.0)
    ratings = [rating for rating, inside in zip(counted.ratings, counted.groups.members[row], strict=False) if inside]
    rated = [rating / scale for rating in ratings if rating is not None]
    low, high = sum(rating <= LOW for rating in rated), sum(rating >= HIGH for rating in rated)
    size = max(1, len(group.reviews))
    counts = (low, len(rated) - low - high, high, size - len(rated))
    width = 100 / top
    return Bar(
        [width * group.share.value * count / size for count in counts],
        width * group.share.low,
        width * group.share.high,
    )


def line(trend: Trend | None, place: int) -> Line | None:
    """Draw the shares of the group at a place of the trend's."""
    if trend is None:
        return None
    shares = [
        (period, share)
        for period, total, share in zip(trend.periods, trend.totals, trend.shares[place], strict=True)
        if share is not None and total >= FEW
    ]
    if len(shares) < 2:
        return None
    top, step = max(share.high for _, share in shares) or 1.0, (WIDTH - 2 * _EDGE) / (len(shares) - 1)

    def at(row: int, value: float) -> str:
        return f"{_EDGE + row * step:.1f},{HEIGHT - _EDGE - value / top * (HEIGHT - 2 * _EDGE):.1f}"

    upper, middle, lower = (
        [at(row, getattr(share, end)) for row, (_, share) in enumerate(shares)] for end in ("high", "value", "low")
    )
    said = ", ".join(f"{period} {percentage(share.value)}" for period, share in shares)
    return Line(" ".join(middle), " ".join([*upper, *reversed(lower)]), f"Share by {trend.unit}: {said}")
