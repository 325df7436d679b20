"""Offer the clusters on a page as a report to hand over."""

from collections.abc import Callable
from functools import partial

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from retriever.clusters.clustering import Clustering
from retriever.clusters.groups import Groups
from retriever.clusters.index_numbers import NumbersRequest, numbers_of, usual_segments
from retriever.clusters.report import make_report, model_names, render
from retriever.clusters.saved import SavedClustering
from retriever.workspace import Index
from retriever_app import cluster_panels, resources
from retriever_app.clusterings import Drawn
from retriever_app.topic_job import Shown

_KINDS = (("One page (HTML)", "html", "text/html"), ("Markdown", "md", "text/markdown"))


def offer(make: Callable[[str], bytes], possible: bool) -> None:
    """Draw what makes a report where it is possible; ``make`` is called for it, with the kind of file, html or md."""
    with st.popover("Report", icon=":material/description:", disabled=not possible):
        st.text("Shares, impact, trend and quotes of all clusters, to hand over.")
        for label, kind, mime in _KINDS:
            st.download_button(
                label,
                partial(make, kind),
                f"report.{kind}",
                mime,
                icon=":material/download:",
                on_click="ignore",
            )


def made(index: Index, drawn: Drawn, passing: NDArray[np.bool_], only: str, kind: str) -> bytes:
    """Return the report of the reviews that pass (n,) as a file's bytes; ``only`` says what was clicked."""
    groups = cluster_panels.groups(drawn).kept(passing).by_document()
    return _report(index, drawn.found, groups, kind, only=only)


def made_of_saved(index: Index, shown: Shown, where: str | None, kind: str) -> bytes:
    """Return the report of a saved clustering, of the reviews that a filter accepts, as a file's bytes."""
    return _report(index, shown.found, shown.groups, kind, where=where)


def _report(
    index: Index,
    found: Clustering | SavedClustering,
    groups: Groups,
    kind: str,
    *,
    where: str | None = None,
    only: str = "",
) -> bytes:
    counted = numbers_of(index, groups, NumbersRequest(usual_segments(index), where=where))
    status = resources.status(index)
    report = make_report(found, counted, model_names(status.encoder, status.plain), where=where or only or None)
    return render(report, kind).encode()
