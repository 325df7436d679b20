"""Offer the clusters on a page as a report to hand over."""

from functools import partial

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from retriever.clusters.index_numbers import NumbersRequest, numbers_of, usual_segments
from retriever.clusters.report import make_report, model_names, render
from retriever.workspace import Index
from retriever_app import cluster_panels, resources
from retriever_app.clusterings import Drawn
from retriever_app.view_models.facets import Facets
from retriever_app.view_models.text import listed

_KINDS = (("One page (HTML)", "html", "text/html"), ("Markdown", "md", "text/markdown"))


def offer(index: Index, drawn: Drawn, passing: NDArray[np.bool_], only: Facets) -> None:
    """Draw what makes the report of the reviews that pass (n,); it is made when it is asked for."""
    with st.popover("Report", icon=":material/description:", disabled=not passing.any()):
        st.text("Shares, impact, trend and quotes of all clusters, to hand over.")
        for label, kind, mime in _KINDS:
            st.download_button(
                label,
                partial(made, index, drawn, passing, listed(only.said), kind),
                f"report.{kind}",
                mime,
                icon=":material/download:",
                on_click="ignore",
            )


def made(index: Index, drawn: Drawn, passing: NDArray[np.bool_], only: str, kind: str) -> bytes:
    """Return the report of the reviews that pass (n,) as a file's bytes; ``only`` says what was clicked."""
    groups = cluster_panels.groups(drawn).kept(passing).by_document()
    counted = numbers_of(index, groups, NumbersRequest(usual_segments(index)))
    status = resources.status(index)
    report = make_report(drawn.found, counted, model_names(status.encoder, status.plain), where=only or None)
    return render(report, kind).encode()
