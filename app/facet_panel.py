"""Draw the charts that filter each other, the map and the reviews."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from retriever_app import state
from retriever_app.components import theme
from retriever_app.view_models import facets, text
from retriever_app.view_models.clusters import Sides
from retriever_app.view_models.facets import TITLES, Facet, Facets

_DRAWN = "facets: drawn"  # counts clicks: a chart that was clicked is drawn anew, with nothing selected


def clear() -> None:
    """Let everything pass."""
    state.change(Facets, only_stars=(), only_product=(), only_month=())


def draw_facets(sides: Sides, chosen: Facets, within: NDArray[np.bool_]) -> None:
    """Draw a chart for stars, product and month each; a click on a bar filters all else, another lets go.

    ``within`` (n,) are the reviews that were chosen otherwise.
    """
    found = {facet: facets.bars(sides, chosen, facet, within) for facet in TITLES}
    found = {facet: bars for facet, bars in found.items() if bars}
    for facet, bars in found.items():
        _draw(facet, facets.chart(facet, bars, theme()), chosen)
    if chosen.any:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(f"Only {text.plain(text.listed(chosen.said))}")
            st.button("Show all again", on_click=clear, type="tertiary", icon=":material/filter_alt_off:")
    elif found:
        st.caption("Click a bar to see only its reviews, on the map too.")


def _draw(facet: Facet, spec: Mapping[str, Any], chosen: Facets) -> None:
    key = f"facet {facet} {st.session_state.get(_DRAWN, 0)}"

    def take() -> None:
        picked = st.session_state[key]["selection"].get(facets.PICK) or ()
        value = facets.read_click(facet, picked[0]["value"]) if picked else None
        if value is not None:
            state.change(Facets, **{facet: facets.toggled(getattr(chosen, facet), value)})
            st.session_state[_DRAWN] = st.session_state.get(_DRAWN, 0) + 1

    st.markdown(f"**{TITLES[facet]}**")
    st.vega_lite_chart(
        spec=dict(spec),
        key=key,
        on_select=take,
        selection_mode=facets.PICK,
        alt=f"Reviews by {TITLES[facet].lower()}; the filters beside the page say the same.",
    )
