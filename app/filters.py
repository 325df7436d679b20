"""Filters in the sidebar, built from what an index holds."""

from collections.abc import Mapping
from datetime import date

import streamlit as st

from retriever.index.profiling import Profile
from retriever_app import state
from retriever_app.view_models.filters import Filters, where

MOST_VALUES = 1000  # products that can be chosen, the most frequent ones: browsers get slow beyond


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
            st.button("Clear filters", on_click=_clear, width="stretch")
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
        format_func=lambda one: f"{one} ★",
    )


def _days(days: tuple[str, str], chosen: Filters) -> None:
    """Draw the first and the last day to look at; those that a link names may lie outside of the index's days."""
    within = [*map(date.fromisoformat, days), *filter(None, (chosen.since, chosen.until))]
    left, right = st.columns(2)
    for column, label, field in ((left, "From", "since"), (right, "To", "until")):
        column.date_input(
            label,
            None,
            key=state.key(Filters, field),
            min_value=min(within),
            max_value=max(within),
            format="YYYY-MM-DD",
        )


def _clear() -> None:
    empty = Filters()
    state.change(Filters, **{name: getattr(empty, name) for name in Filters.__slots__})
