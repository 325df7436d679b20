"""Charts that filter each other: how many reviews have which stars, product and date, of those the others let pass."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from retriever.core.periods import all_periods, fitting, period_of
from retriever_app.charts import LABEL_ROOM, Colours, Spec, channel
from retriever_app.pages.groups.model import Sides, scale_of
from retriever_app.text import STAR

Facet = Literal["only_stars", "only_product", "only_month"]
TITLES: Mapping[Facet, str] = {"only_stars": "Stars", "only_product": "Product", "only_month": "Date"}
MOST_BARS = 12  # products that are shown, the most frequent ones
PICK = "bar"  # the charts' selection: one bar by click

_BAR, _HEIGHT = 20, 180  # pixels of a bar in a list, and of a chart of months


@dataclass(frozen=True, slots=True)
class Facets:
    """The values that were clicked in the charts; nothing of one lets everything pass.

    Months are written as 2024-05, and are quarters or years where there are many.
    """

    only_stars: tuple[int, ...] = ()
    only_product: tuple[str, ...] = ()
    only_month: tuple[str, ...] = ()

    @property
    def said(self) -> list[str]:
        """The clicked values, for people."""
        return [*(f"{stars} {STAR}" for stars in self.only_stars), *self.only_product, *self.only_month]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart: its value, all reviews that have it, those that pass, and whether it was clicked."""

    value: int | str
    whole: int
    passing: int
    chosen: bool


def values_of(sides: Sides, facet: Facet) -> Sequence[int | str | None]:
    """Return what every review has of a facet; None where it has none."""
    if facet == "only_stars":
        return [None if stars is None else int(stars + 0.5) for stars in sides.stars]
    if facet == "only_product":
        return sides.products
    unit = fitting(day for day in sides.days if day)
    return [period_of(day, unit) if day else None for day in sides.days]


def passing(sides: Sides, facets: Facets, *, but: Facet | None = None) -> NDArray[np.bool_]:
    """Return (n,) which reviews pass all facets, or all but one."""
    accepted = np.ones(len(sides.stars), dtype=bool)
    for facet in TITLES:
        wanted = set(getattr(facets, facet))
        if wanted and facet != but:
            accepted &= np.array([value in wanted for value in values_of(sides, facet)], dtype=bool)
    return accepted


def bars(sides: Sides, facets: Facets, facet: Facet, within: NDArray[np.bool_]) -> list[Bar]:
    """Return the bars of a facet's chart, which does not filter itself; nothing where all reviews are alike in it.

    ``within`` (n,) are the reviews that were chosen otherwise, on the map say.
    """
    values = values_of(sides, facet)
    whole = Counter(value for value in values if value is not None)
    some = passing(sides, facets, but=facet) & within
    passed = Counter(values[row] for row in np.flatnonzero(some).tolist())
    clicked = getattr(facets, facet)
    if facet == "only_stars":
        order: Sequence[int | str] = scale_of(sides.stars)
    elif facet == "only_month":
        days = [day for day in sides.days if day]
        order = all_periods(days, fitting(days))
    else:
        common = sorted(whole, key=lambda value: (-whole[value], str(value)))[:MOST_BARS]
        order = list(dict.fromkeys([*common, *(value for value in clicked if value in whole)]))
    bars = [Bar(value, whole[value], passed[value], value in clicked) for value in order]
    return bars if len(whole) > 1 else []


def toggled(chosen: Sequence[int | str], value: int | str) -> tuple[int | str, ...]:
    """Return what is chosen once a value is clicked: with it, or without it where it was."""
    return tuple(other for other in chosen if other != value) if value in chosen else (*chosen, value)


def chart(facet: Facet, shown: Sequence[Bar], colours: Colours) -> Spec:
    """Chart bars: those that pass before all there are, and what was clicked in full colour."""
    some = any(bar.chosen for bar in shown)
    rows = [
        {
            "value": bar.value,
            "said": f"{bar.value} {STAR}" if facet == "only_stars" else str(bar.value),
            "whole": bar.whole,
            "reviews": bar.passing,
            "full": bar.chosen or not some,
        }
        for bar in shown
    ]
    lying = facet != "only_month"
    axis = {"ticks": False, "domain": False, "labelColor": colours.text, "labelLimit": 150, "labelOverlap": not lying}
    axis["labelFlush"] = not lying
    axis["labelAngle"] = 0
    names = channel("said", "nominal", sort=None, title=None, axis=axis)
    tips = [channel("said", "nominal", title=TITLES[facet]), channel("reviews", "quantitative", format=",")]

    def layer(field: str, **mark: object) -> Spec:
        length = channel(field, "quantitative", title=None, stack=None, axis=None if lying else {"tickCount": 3})
        return {
            "mark": {"type": "bar", "cursor": "pointer", **mark},
            "encoding": {"y": names, "x": length} if lying else {"x": names, "y": length},
        }

    front = layer("reviews", color=colours.clusters[0])
    front["params"] = [{"name": PICK, "select": {"type": "point", "fields": ["value"], "toggle": False}}]
    front["encoding"]["opacity"] = {"condition": {"test": "datum.full", "value": 1}, "value": 0.35}
    return {
        "height": _BAR * len(rows) if lying else _HEIGHT,
        "padding": {"left": 5, "top": 5, "bottom": 5, "right": 5 if lying else LABEL_ROOM},
        "config": {"view": {"stroke": None}},
        "data": {"values": rows},
        "encoding": {"tooltip": tips},
        "layer": [layer("whole", color=colours.quiet, opacity=0.25), front],
    }


def read_click(facet: Facet, value: object) -> int | str | None:
    """Return the value that a click on a bar means; None where it means none."""
    if facet == "only_stars":
        return int(value) if isinstance(value, int | float) else None
    return str(value) if isinstance(value, str) else None
