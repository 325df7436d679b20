"""Pieces that several pages show. Text of reviews goes through `st.text` or `plain`, never into Markdown or HTML."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import streamlit as st

from retriever.core.errors import RetrieverError
from retriever_app.view_models.model import Fact
from retriever_app.view_models.problems import problem

_LOG = logging.getLogger(__name__)


@contextmanager
def told() -> Iterator[None]:
    """Show an error of the block as a sentence with the next step; the rest of the page goes on."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, RetrieverError):
            _LOG.exception("A page failed")
        show_problem(error)


def show_problem(error: Exception) -> None:
    """Show what went wrong and what to do."""
    found = problem(error)
    with st.container(border=True):
        st.markdown(":material/error: **This did not work**")
        st.text(found.what)
        if found.next:
            st.text(found.next)


def facts(values: Sequence[Fact]) -> None:
    """Show labelled values side by side; they wrap where there is no room."""
    with st.container(horizontal=True, gap="medium"):
        for one in values:
            with st.container(width="content", gap=None):
                st.caption(one.label)
                st.text(one.value)
