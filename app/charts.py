"""Charts in colours that both themes and every eye can read: counts, months, and how a training goes."""

from collections.abc import Sequence
from typing import cast

import altair as alt
import streamlit as st

from retriever_app.view_models.training import Measure

COLOUR = "#4b87bf"  # 3.1 to 1 and more on both themes' backgrounds
OTHER = "#c8721e"  # 3.5 to 1 and more, as is the next
FAINT = "#7f8b9a"
INK = "#727d8b"  # 4.2 to 1 and more
_BAR_ROW, _SCORE_ROW, _AROUND_SCORES = 24, 40, 110  # pixels of a bar, of a score, and of axis and legend
_BESIDE_BARS = alt.Axis(ticks=False, domain=False, labelLimit=190, labelFlush=False, labelOverlap=False)
_ROOM = 1.15  # beyond the longest bar, for its number


def bars(rows: Sequence[dict[str, object]], label: str, value: str) -> None:
    """Draw a bar for every row, in the rows' order, with its value beside it."""
    most = max((cast("float", row[value]) for row in rows), default=0) or 1
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X(f"{value}:Q", axis=None, scale=alt.Scale(domain=[0, most * _ROOM], nice=False)),
        y=alt.Y(f"{label}:N", sort=None, title=None, axis=_BESIDE_BARS),
        tooltip=[alt.Tooltip(f"{label}:N"), alt.Tooltip(f"{value}:Q", format=",")],
    )
    numbers = base.mark_text(align="left", dx=4, color=INK).encode(text=alt.Text(f"{value}:Q", format=","))
    chart = (base.mark_bar(color=COLOUR, height=14) + numbers).properties(height=_BAR_ROW * len(rows))
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


def loss(points: Sequence[dict[str, float]], steps: int) -> None:
    """Draw the loss of every step so far, and its mean, on an axis of all steps."""
    base = alt.Chart(alt.InlineData(values=list(points))).encode(
        x=alt.X("step:Q", scale=alt.Scale(domain=[1, max(steps, 2)]), axis=alt.Axis(tickMinStep=1, grid=False)),
        tooltip=[alt.Tooltip("step:Q"), alt.Tooltip("loss:Q", format=".3f"), alt.Tooltip("mean:Q", format=".3f")],
    )
    scale = alt.Scale(zero=False)
    each = base.mark_point(color=FAINT, size=14, filled=True).encode(y=alt.Y("loss:Q", title="loss", scale=scale))
    mean = base.mark_line(color=COLOUR, strokeWidth=3).encode(y="mean:Q")
    st.altair_chart((each + mean).properties(height=220))


def before_and_after(measures: Sequence[Measure]) -> None:
    """Draw every score before, a circle, and after, a filled diamond, on an axis from 0 to 100."""
    when = ["before", "after"]
    rows = [
        {"score": one.label, "when": name, "percent": value}
        for one in measures
        for name, value in zip(when, (one.before, one.after), strict=True)
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("percent:Q", title="score, %", scale=alt.Scale(domain=[0, 100])),
        y=alt.Y(
            "score:N",
            sort=None,
            title=None,
            axis=alt.Axis(ticks=False, domain=False, labelLimit=130, labelOverlap=False),
        ),
    )
    legend = alt.Legend(title=None, orient="top")
    marks = base.mark_point(size=120, strokeWidth=2.5, opacity=1).encode(
        shape=alt.Shape("when:N", scale=alt.Scale(domain=when, range=["circle", "diamond"]), legend=legend),
        stroke=alt.Stroke("when:N", scale=alt.Scale(domain=when, range=[OTHER, COLOUR]), legend=legend),
        fill=alt.Fill("when:N", scale=alt.Scale(domain=when, range=["transparent", COLOUR]), legend=legend),
        tooltip=["score:N", "when:N", alt.Tooltip("percent:Q", format=".1f")],
    )
    lines = base.mark_line(color=FAINT, strokeWidth=2).encode(detail="score:N")
    chart = (lines + marks).properties(height=_SCORE_ROW * len(measures) + _AROUND_SCORES)
    st.altair_chart(chart.configure_view(stroke=None))
