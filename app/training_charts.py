"""Pictures of a training: the loss by step, and the scores before and after. Knows Altair, and no Streamlit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import altair as alt
import pyarrow as pa

from retriever_app.view_models.training import Measure

Layers: TypeAlias = alt.LayerChart | alt.FacetChart


@dataclass(frozen=True, slots=True)
class Colours:
    """Two colours that people tell apart however they see colours, and a faint one, on the theme's background."""

    first: str
    second: str
    faint: str


LIGHT = Colours("#2563a8", "#b35900", "#9aa5b4")
DARK = Colours("#7fb5ec", "#f5a742", "#5f6b7a")


def loss_chart(points: Sequence[Mapping[str, float]], steps: int, colours: Colours) -> Layers:
    """Return the curve of the loss so far, on an axis of all steps."""
    step = alt.X("step:Q", title="step", scale=alt.Scale(domain=[1, max(steps, 2)]), axis=alt.Axis(tickMinStep=1))
    base = alt.Chart(pa.Table.from_pylist(list(points))).encode(
        x=step,
        tooltip=[alt.Tooltip("step:Q"), alt.Tooltip("loss:Q", format=".3f"), alt.Tooltip("mean:Q", format=".3f")],
    )
    scale = alt.Scale(zero=False)
    each = base.mark_line(color=colours.faint, strokeWidth=1, point={"size": 16, "color": colours.faint})
    mean = base.mark_line(color=colours.first, strokeWidth=3)
    title = "loss: each step, and the mean around it"
    layers = (each.encode(y=alt.Y("loss:Q", title=title, scale=scale)), mean.encode(y=alt.Y("mean:Q", title=title)))
    return alt.layer(*layers).properties(height=220)


def score_chart(measures: Sequence[Measure], colours: Colours) -> Layers:
    """Return every score before (a hollow circle) and after (a diamond), on an axis from 0 to 100."""
    rows = [
        {"score": one.label, "when": when, "value": value}
        for one in measures
        for when, value in (("before", one.before), ("after", one.after))
    ]
    order = [one.label for one in measures]
    base = alt.Chart(pa.Table.from_pylist(rows)).encode(
        y=alt.Y("score:N", sort=order, title=None, axis=alt.Axis(labelLimit=140)),
        x=alt.X("value:Q", title="score, %", scale=alt.Scale(domain=[0, 100])),
    )
    when = ["before", "after"]
    legend = alt.Legend(title=None, orient="top")
    marks = base.mark_point(size=130, strokeWidth=2.5, opacity=1).encode(
        shape=alt.Shape("when:N", scale=alt.Scale(domain=when, range=["circle", "diamond"]), legend=legend),
        color=alt.Color("when:N", scale=alt.Scale(domain=when, range=[colours.second, colours.first]), legend=legend),
        tooltip=["score:N", "when:N", alt.Tooltip("value:Q", format=".1f")],
    )
    lines = base.mark_line(color=colours.faint, strokeWidth=2).encode(detail="score:N")
    return alt.layer(lines, marks).properties(height=44 * len(measures) + 60)
