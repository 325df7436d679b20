"""Charts of a training: the loss by step, and the scores before and after, told apart by form as well as colour."""

from collections.abc import Sequence

import altair as alt
import streamlit as st

from retriever_app.charts import COLOUR
from retriever_app.view_models.training import Measure

OTHER = "#c8721e"  # 3.5 to 1 and more on both themes' backgrounds, as is the next
FAINT = "#7f8b9a"
_ROW, _AROUND = 40, 110  # pixels of a score, and of axis and legend


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
    chart = (lines + marks).properties(height=_ROW * len(measures) + _AROUND)
    st.altair_chart(chart.configure_view(stroke=None))
