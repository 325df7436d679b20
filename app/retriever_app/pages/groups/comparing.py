"""Every group's share in one part of the reviews against another: two periods, products, categories or ratings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from retriever.clusters.groups import Groups
from retriever.clusters.numbers import Part, compared
from retriever.core.fields import values_by_name
from retriever.core.periods import fitting, period_of
from retriever.index.profiling import Columns
from retriever_app import state, text
from retriever_app.pages.groups.model import read_sides

By = Literal["date", "product", "category", "stars"]
TITLES: Mapping[By, str] = {"date": "Period", "product": "Product", "category": "Category", "stars": "Stars"}


@dataclass(frozen=True, slots=True)
class Compared:
    """Two parts of the reviews that are compared: values of what they are told apart by."""

    by: By = "date"
    before: str = ""
    after: str = ""


Parts = NDArray[np.object_]
"""Of every review (n,) the value that tells it apart from others; empty where it has none."""


def parts_of(groups: Groups, columns: Columns) -> dict[By, Parts]:
    """Return what the reviews of groups are told apart by; what has one value tells nothing apart."""
    sides = read_sides(groups.documents, columns)
    unit = fitting(day for day in sides.days if day)
    categories = [values_by_name(document.metadata).get(columns.category) for document in groups.documents]
    found: dict[By, list[str]] = {
        "date": [period_of(day, unit) if day else "" for day in sides.days],
        "product": [product or "" for product in sides.products],
        "category": ["" if category is None else str(category) for category in categories],
        "stars": ["" if rating is None else f"{int(rating + 0.5)} {text.STAR}" for rating in sides.stars],
    }
    return {by: np.array(of, dtype=object) for by, of in found.items() if len(_values(of)) > 1}


def _values(parts: Iterable[str]) -> list[str]:
    """Return the values of parts in the order they are offered."""
    return sorted(set(filter(None, parts)))


def change(groups: Groups, by: By, parts: Parts, before: str, after: str) -> tuple[list[str], list[dict[str, object]]]:
    """Compare two parts of the reviews: sentences, and a table of all groups, the largest difference first.

    A review counts in every group that it is in. Of two periods, new is a group whose first reviews are of the second
    one, with reviews of other groups before it.
    """
    inside, outside = parts == after, parts == before
    changes = compared(groups, [Part(after, before, inside, outside)])
    names = dict(zip(groups.numbers, groups.names, strict=True))
    rows: list[dict[str, object]] = [
        {
            "group": names[changed.group],
            before: str(changed.other),
            after: str(changed.share),
            "points": "" if changed.share.few or changed.other.few else f"{100 * changed.difference.value:+.0f}",
            "reviews": len(changed.reviews),
            "": "certain" if changed.certain else "may be chance",
        }
        for changed in sorted(changes, key=lambda changed: -abs(changed.difference.value))
    ]
    new = _new(groups, parts, after) if by == "date" else []
    sizes = f"{before}: {text.count(int(outside.sum()), 'review')}. {after}: {text.count(int(inside.sum()), 'review')}."
    return [sizes, *([f"New in {after}: {text.listed(new)}."] if new else [])], rows


def _new(groups: Groups, parts: Parts, period: str) -> list[str]:
    """Name the groups that begin in a period."""
    inside, earlier = parts == period, (parts != "") & (parts < period)
    return [
        name
        for name, members in zip(groups.names, groups.members, strict=True)
        if earlier.any() and (members & inside).any() and not (members & earlier).any()
    ]


def draw(groups: Groups, columns: Columns) -> None:
    """Draw the choice of two parts of the reviews, and every group's share in both; nothing where there are no two."""
    offered = parts_of(groups, columns)
    if not offered:
        return
    by = state.current(Compared).by
    if by not in offered:
        by = next(iter(offered))
        state.change(Compared, by=by)
    values, known = _values(offered[by]), state.current(Compared)
    for field, usual in zip(("before", "after"), values[-2:], strict=True):
        if getattr(known, field) not in values:
            state.change(Compared, **{field: usual})
    with st.expander("Compare two parts", icon=":material/compare_arrows:"):
        with st.container(horizontal=True):
            st.selectbox("By", list(offered), key=state.key(Compared, "by"), format_func=TITLES.__getitem__, width=140)
            for label, field in (("From", "before"), ("To", "after")):
                st.selectbox(label, values, key=state.key(Compared, field), width=200)
        chosen = state.current(Compared)
        sentences, rows = change(groups, by, offered[by], chosen.before, chosen.after)
        for sentence in sentences:
            st.text(sentence)
        st.dataframe(rows, hide_index=True)
