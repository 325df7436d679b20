"""Filters in the sidebar, built from what an index holds, and the ``--where`` expression they become."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial

import streamlit as st

from retriever.core.errors import UsageError
from retriever.index.profiling import Columns, Profile
from retriever_app import state

MOST_VALUES = 1000  # products that can be chosen, the most frequent ones: browsers get slow beyond


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a page: any of some products, categories and whole stars, from a first day to a last.

    Empty fields allow everything; ratings that are not whole are rounded.
    """

    product: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    stars: tuple[int, ...] = ()
    since: date | None = None
    until: date | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stars", tuple(sorted({stars for stars in self.stars if 0 <= stars <= 10})))


def choose(profile: Profile) -> str | None:
    """Draw the filters for what the index holds, and return them as an expression.

    Raises:
        UsageError: the days are in the wrong order.
    """
    chosen = state.current(Filters)
    columns = profile.columns
    with st.sidebar:
        st.markdown("**Filters**")
        if columns.product and profile.products:
            _several("Product", "product", profile.products, chosen.product)
        if columns.category and profile.categories:
            _several("Category", "category", profile.categories, chosen.category)
        if columns.stars and profile.stars:
            _stars(profile, chosen)
        if profile.days:
            _days(profile.days, chosen)
        if chosen != Filters():
            st.button("Clear filters", on_click=partial(state.clear, Filters), width="stretch")
        if not (profile.products or profile.categories or profile.stars or profile.days):
            st.caption("These reviews have no fields to filter by.")
    return where(chosen, columns)


def _several(label: str, field: str, counts: Mapping[str, int], chosen: tuple[str, ...]) -> None:
    options = list(dict.fromkeys([*list(counts)[:MOST_VALUES], *chosen]))
    st.multiselect(
        label,
        options,
        key=state.key(Filters, field),
        format_func=lambda value: f"{value} ({counts.get(value, 0):,})",
        placeholder="All",
    )


def _stars(profile: Profile, chosen: Filters) -> None:
    most = 5 if max(profile.stars) <= 5 else 10
    options = sorted({*range(1, most + 1), *profile.stars, *chosen.stars}, reverse=True)  # also those never given
    st.pills(
        "Stars",
        options,
        selection_mode="multi",
        key=state.key(Filters, "stars"),
        format_func=lambda stars: f"{stars} ★",
    )


def _days(days: tuple[str, str], chosen: Filters) -> None:
    """Draw the first and the last day to look at; those that a link names may lie outside of the index's days."""
    within = [*map(date.fromisoformat, days), *filter(None, (chosen.since, chosen.until))]
    for label, field in (("From", "since"), ("To", "until")):
        st.date_input(
            label,
            None,
            key=state.key(Filters, field),
            min_value=min(within),
            max_value=max(within),
            format="YYYY-MM-DD",
        )


def where(filters: Filters, columns: Columns) -> str | None:
    """Return the filter expression over an index's fields, or None where all is allowed.

    Raises:
        UsageError: the days are in the wrong order.
    """
    if filters.since and filters.until and filters.since > filters.until:
        raise UsageError("The first day is after the last.", hint="Swap the two dates.")
    parts = []
    for field, values in ((columns.product, filters.product), (columns.category, filters.category)):
        if field and values:
            parts.append(_any_of(field, values))
    if filters.stars and columns.stars:
        name = columns.stars
        ratings = [f"(`{name}` >= {stars - 0.5} and `{name}` < {stars + 0.5})" for stars in filters.stars]
        parts.append(f"({' or '.join(ratings)})")
    if filters.since and columns.date:
        parts.append(f"`{columns.date}` >= '{filters.since.isoformat()}'")
    if filters.until and columns.date:
        parts.append(f"`{columns.date}` <= '{filters.until.isoformat()}'")
    return " and ".join(parts) or None


def _any_of(field: str, values: tuple[str, ...]) -> str:
    """Compare with texts and, where a text is a number, with that too: ids of products are often numbers."""
    quoted = ["'" + value.replace("'", "''") + "'" for value in values]
    return f"`{field}` in ({', '.join([*quoted, *filter(str.isdecimal, values)])})"
