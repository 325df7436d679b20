"""Charts in one colour, which both themes and every eye can read; values stand beside the bars."""

from collections.abc import Sequence
from typing import cast

import altair as alt
import streamlit as st

COLOUR = "#4b87bf"  # 3.1 to 1 and more on both themes' backgrounds
INK = "#727d8b"  # 4.2 to 1 and more
_ROW = 24
_ROOM = 1.15  # beyond the longest bar, for its number


def bars(rows: Sequence[dict[str, object]], label: str, value: str) -> None:
    """Draw a bar for every row, in the rows' order, with its value."""
    most = max((cast("float", row[value]) for row in rows), default=0) or 1
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X(f"{value}:Q", axis=None, scale=alt.Scale(domain=[0, most * _ROOM], nice=False)),
        y=alt.Y(f"{label}:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=190)),
        tooltip=[alt.Tooltip(f"{label}:N"), alt.Tooltip(f"{value}:Q", format=",")],
    )
    numbers = base.mark_text(align="left", dx=4, color=INK).encode(text=alt.Text(f"{value}:Q", format=","))
    chart = (base.mark_bar(color=COLOUR, height=14) + numbers).properties(height=_ROW * len(rows))
    st.altair_chart(chart.configure_view(stroke=None))


def months(rows: Sequence[dict[str, object]], value: str) -> None:
    """Draw a value by month."""
    chart = (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_bar(color=COLOUR)
        .encode(
            x=alt.X("month:T", timeUnit="yearmonth", title=None, axis=alt.Axis(grid=False, labelOverlap=True)),
            y=alt.Y(f"{value}:Q", title=None, axis=alt.Axis(tickCount=3)),
            tooltip=[
                alt.Tooltip("month:T", timeUnit="yearmonth", title="month"),
                alt.Tooltip(f"{value}:Q", format=","),
            ],
        )
        .properties(height=170)
    )
    st.altair_chart(chart)
