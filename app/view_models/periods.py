"""Describe what changed between two periods: every cluster's share in both, and what is new."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.groups import Groups
from retriever.clusters.numbers import Part, compared
from retriever.clusters.periods import fitting, period_of
from retriever.core.types import Document
from retriever.index.profiling import Columns
from retriever_app.view_models import text
from retriever_app.view_models.clusters import read_sides


@dataclass(frozen=True, slots=True)
class Dated:
    """When reviews were written.

    Attributes:
        periods: months, quarters or years with reviews, the oldest first.
        of: (n,) the period of every review; empty where it has no date.
    """

    periods: Sequence[str]
    of: NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class Change:
    """What changed: sentences, and a row of a table for every cluster, the largest change first."""

    sentences: Sequence[str]
    rows: Sequence[dict[str, object]]


def dated(documents: Iterable[Document], columns: Columns) -> Dated:
    """Return when reviews were written, in periods that are not too many."""
    days = read_sides(documents, columns).days
    unit = fitting(day for day in days if day)
    found = np.array([period_of(day, unit) if day else "" for day in days], dtype=object)
    return Dated(sorted({one for one in found.tolist() if one}), found)


def change(groups: Groups, dated: Dated, before: str, after: str) -> Change:
    """Compare two periods; a review counts in every group that it is in.

    New is a group whose first reviews are of the second period, with reviews of other groups before it.
    """
    inside, outside = dated.of == after, dated.of == before
    found = compared(groups, [Part(after, before, inside, outside)])
    names = dict(zip(groups.numbers, groups.names, strict=True))
    earlier = (dated.of != "") & (dated.of < after)
    new = [
        name
        for name, members in zip(groups.names, groups.members, strict=True)
        if earlier.any() and (members & inside).any() and not (members & earlier).any()
    ]
    rows: list[dict[str, object]] = [
        {
            "cluster": names[one.group],
            f"in {before}": f"{one.other.value:.0%}",
            f"in {after}": f"{one.share.value:.0%}",
            "points": f"{100 * one.difference.value:+.0f}",
            "reviews": len(one.reviews),
            "": "certain" if one.certain else "may be chance",
        }
        for one in sorted(found, key=lambda one: -abs(one.difference.value))
    ]
    sizes = f"{before}: {text.count(int(outside.sum()), 'review')}. {after}: {text.count(int(inside.sum()), 'review')}."
    return Change([sizes, *([f"New in {after}: {text.listed(new)}."] if new else [])], rows)
