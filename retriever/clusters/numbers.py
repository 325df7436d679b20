"""Numbers of groups of reviews: shares, impact on the stars, segment against segment, period against period.

Every number has its 95 % interval and the reviews behind it.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic import intervals
from retriever.clusters.arithmetic.intervals import Interval, Share
from retriever.clusters.fields import MISSING
from retriever.clusters.groups import Groups
from retriever.clusters.references import ordinal
from retriever.core.fields import names_of
from retriever.core.periods import Period, all_periods, period_of
from retriever.core.results import SCHEMA_VERSION
from retriever.core.types import JSON

MOST_SEGMENTS = 20
ALL_OTHERS = "all others"
UNCERTAIN = 0.05
"""Differences with a corrected chance from here on may be nothing."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the reviews, to be compared with others.

    Attributes:
        against: what the others are called.
        inside: (n,) which reviews are of the part.
        outside: (n,) which are the others.
    """

    name: str
    against: str
    inside: NDArray[np.bool_]
    outside: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GroupNumbers:
    """The numbers of one group.

    Attributes:
        group: its number.
        reviews: ids of its reviews.
        share: of all reviews; None where those that were counted do not stand for them.
        stars: their mean; None where none is rated.
        rated: how many of them are.
        impact: what the mean stars of all would gain were the group's reviews not there; None where too few are rated.
    """

    group: int
    name: str
    reviews: Sequence[str]
    share: Share | None
    stars: float | None
    rated: int
    impact: Interval | None

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "cluster": ordinal(self.group),
            "label": self.name,
            "size": len(self.reviews),
            "share": _json(self.share),
            "stars": _rounded(self.stars),
            "rated": self.rated,
            "impact": _json(self.impact),
            "reviews": list(self.reviews),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """A group's share in one part of the reviews against its share in another.

    Attributes:
        part: what the reviews have in common: a field's value, or a period.
        against: what it is compared with: all others, or another period.
        total: reviews of the part.
        reviews: ids of those in the group.
        share: of the part.
        other: its share of the reviews it is compared with.
        difference: by how much the first is larger.
        chance: how likely a difference as large is where there is none, corrected for all that is compared at once.
    """

    part: str
    against: str
    group: int
    total: int
    reviews: Sequence[str]
    share: Share
    other: Share
    difference: Interval
    chance: float

    @property
    def certain(self) -> bool:
        """Whether the difference is more than chance, however many were looked at."""
        return self.chance < UNCERTAIN

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "part": self.part,
            "against": self.against,
            "cluster": ordinal(self.group),
            "total": self.total,
            "size": len(self.reviews),
            "share": self.share.to_json(),
            "other": self.other.to_json(),
            "difference": self.difference.to_json(),
            "chance": round(self.chance, 6),
            "certain": self.certain,
            "reviews": list(self.reviews),
        }


@dataclass(frozen=True, slots=True)
class Trend:
    """Groups over time.

    Attributes:
        unit: month, quarter or year.
        periods: all from the first to the last.
        totals: reviews of each.
        shares: by group, in the groups' order, its share of every period; None in one without reviews.
        latest: the last period against the one before it that has reviews; empty where there is none.
        new: groups whose reviews are all of the last period, with others before it.
    """

    unit: Period
    periods: Sequence[str]
    totals: Sequence[int]
    shares: Sequence[Sequence[Share | None]]
    latest: Sequence[Comparison]
    before: str
    new: Sequence[int]

    def to_json(self, numbers: Sequence[int]) -> dict[str, Any]:
        """Return the documented JSON object; ``numbers`` are those of the groups."""
        shares = {
            str(ordinal(number)): [None if share is None else share.to_json() for share in each]
            for number, each in zip(numbers, self.shares, strict=True)
        }
        return {
            "unit": self.unit,
            "periods": list(self.periods),
            "totals": list(self.totals),
            "shares": shares,
            "last": self.periods[-1] if self.periods else None,
            "before": self.before or None,
            "latest": [comparison.to_json() for comparison in self.latest],
            "new": [ordinal(number) for number in self.new],
        }


@dataclass(frozen=True, slots=True)
class Numbers:
    """All that is counted.

    Attributes:
        stars: mean of all rated reviews; None without any.
        outside: the share of reviews that are in no group; None as for that of a group.
        outside_reviews: their ids.
        segments: by field, every value against all other reviews; of two values the more frequent one alone.
        trend: None without dates.
    """

    documents: int
    stars: float | None
    rated: int
    groups: Sequence[GroupNumbers]
    outside: Share | None
    outside_reviews: Sequence[str]
    segments: Mapping[str, Sequence[Comparison]]
    trend: Trend | None

    def without_shares(self, groups: Collection[int]) -> "Numbers":
        """Return the same without shares and effects of some groups, whose names do not hold of them."""
        bare = [replace(each, share=None, impact=None) if each.group in groups else each for each in self.groups]
        return replace(self, groups=bare)

    def withheld(self) -> "Numbers":
        """Return the counts alone: those of reviews that do not stand for others."""
        groups = [replace(group, share=None, stars=None, rated=0, impact=None) for group in self.groups]
        return replace(self, stars=None, rated=0, groups=groups, outside=None, segments={}, trend=None)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "schema_version": SCHEMA_VERSION,
            "level": intervals.LEVEL,
            "correction": "Holm",
            "documents": self.documents,
            "rated": self.rated,
            "stars": _rounded(self.stars),
            "clusters": [group.to_json() for group in self.groups],
            "outside": {"share": _json(self.outside), "reviews": list(self.outside_reviews)},
            "segments": {name: [comparison.to_json() for comparison in each] for name, each in self.segments.items()},
            "trend": None if self.trend is None else self.trend.to_json([group.group for group in self.groups]),
        }


def count(
    groups: Groups,
    stars: Sequence[float | None] = (),
    *,
    segments: Mapping[str, Sequence[JSON]] | None = None,
    days: Sequence[str | None] = (),
    unit: Period = "month",
) -> Numbers:
    """Count groups of reviews.

    Args:
        groups: the reviews and their groups.
        stars: (n,) of every review, None where it has none; empty where none has.
        segments: by field, (n,) its value in every review.
        days: (n,) of every review as 2024-05-31, None where it has none; empty where none has.
        unit: of the trend.
    """
    ratings = np.array(
        [np.nan if rating is None else float(rating) for rating in stars or [None] * len(groups.documents)]
    )
    rated = ratings[~np.isnan(ratings)]
    total = len(groups.documents)
    return Numbers(
        documents=total,
        stars=float(rated.mean()) if len(rated) else None,
        rated=len(rated),
        groups=[_group(groups, row, ratings) for row in range(len(groups.numbers))],
        outside=intervals.share(int(groups.outside.sum()), total),
        outside_reviews=groups.ids(groups.outside),
        segments={name: by_segment(groups, values) for name, values in (segments or {}).items()},
        trend=trend(groups, days, unit) if any(days) else None,
    )


def by_segment(groups: Groups, values: Sequence[JSON]) -> list[Comparison]:
    """Compare every group's share among the reviews of each value (n,) of a field with that among all others.

    The `MOST_SEGMENTS` most frequent values are compared; to have none is one of them. A review whose value is a list
    is one of each of its items. Where all reviews have one of two values, the second would say the same as the first.
    """
    named = [names_of(value) or [MISSING] for value in values]
    counts = Counter(chain.from_iterable(named))
    common = [value for value, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    if len(common) == 2 and counts.total() == len(named):
        common = common[:1]
    parts = []
    for value in common[:MOST_SEGMENTS]:
        inside = np.array([value in names for names in named], dtype=bool)
        if not inside.all():
            parts.append(Part(value, ALL_OTHERS, inside, ~inside))
    return compared(groups, parts)


def trend(groups: Groups, days: Sequence[str | None], unit: Period) -> Trend:
    """Follow groups over time; ``days`` (n,) as for `count`."""
    column = np.array([period_of(day, unit) if day else "" for day in days], dtype=object)
    periods = all_periods([day for day in days if day], unit)
    inside = [column == period for period in periods]
    totals = [int(rows.sum()) for rows in inside]
    shares = [
        [
            intervals.share(int((rows & members).sum()), total) if total else None
            for rows, total in zip(inside, totals, strict=True)
        ]
        for members in groups.members
    ]
    full = [place for place, total in enumerate(totals) if total]
    before, latest, new = "", [], []
    if len(full) > 1:
        last, previous = full[-1], full[-2]
        before = periods[previous]
        latest = compared(groups, [Part(periods[last], before, inside[last], inside[previous])])
        dated = column != ""
        new = [
            number
            for number, members in zip(groups.numbers, groups.members, strict=True)
            if (members & dated).any() and not (members & dated & ~inside[last]).any()
        ]
    return Trend(unit, periods, totals, shares, latest, before, new)


def compared(groups: Groups, parts: Sequence[Part]) -> list[Comparison]:
    """Compare every group's share in some parts of the reviews with that in others, corrected for all of them."""
    rows = [(part, *group) for part in parts for group in zip(groups.numbers, groups.members, strict=True)]
    counts = []
    for part, _, members in rows:
        size, others = (int((members & side).sum()) for side in (part.inside, part.outside))
        counts.append((size, int(part.inside.sum()), others, int(part.outside.sum())))
    chances = intervals.holm([intervals.chance(*cells) for cells in counts])
    comparisons = []
    for (part, number, members), (size, total, others, rest), chance in zip(rows, counts, chances, strict=True):
        share, other = intervals.share(size, total), intervals.share(others, rest)
        gap, ids = intervals.difference(share, other), groups.ids(members & part.inside)
        comparisons.append(Comparison(part.name, part.against, number, total, ids, share, other, gap, chance))
    return comparisons


def _group(groups: Groups, row: int, ratings: NDArray[np.float64]) -> GroupNumbers:
    members = groups.members[row]
    rated = ~np.isnan(ratings)
    ours = ratings[members & rated]
    return GroupNumbers(
        group=groups.numbers[row],
        name=groups.names[row],
        reviews=groups.ids(members),
        share=intervals.share(int(members.sum()), len(members)),
        stars=float(ours.mean()) if len(ours) else None,
        rated=len(ours),
        impact=intervals.impact(ours, ratings[~members & rated]),
    )


def _json(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else interval.to_json()


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
