"""Draw the frame of every page: the index it is about, and the pages there are."""

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import streamlit as st

from retriever.workspace import Index
from retriever_app import resources, state


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which index the pages are about; empty for the first one."""

    index: str = ""


def choose_index() -> None:
    """Draw the choice of an index in the sidebar."""
    names = resources.folder().names()
    chosen = state.current(Chosen).index
    if not chosen and not names:
        return
    if not chosen:
        state.change(Chosen, index=names[0])
        chosen = state.current(Chosen).index
    shown = names if chosen in names else [chosen, *names]
    st.sidebar.selectbox("Index", shown, key=state.key(Chosen, "index"))


def chosen_index() -> Index | None:
    """Return the index the pages are about, or None before the first one.

    Raises:
        IndexNotFoundError: it is gone.
    """
    name = state.current(Chosen).index
    return resources.open_index(name) if name else None


def needed_index() -> Index:
    """Return the index the pages are about; before the first one, say so and end the page.

    Raises:
        IndexNotFoundError: it is gone.
    """
    return chosen_index() or no_index()


def needed_path() -> Path:
    """Return the folder of the index the pages are about, which may be damaged; else as `needed_index`.

    Raises:
        IndexNotFoundError: it is gone.
    """
    name = state.current(Chosen).index
    return resources.folder().find(name) if name else no_index()


def no_index() -> NoReturn:
    """Say that there is nothing to work on, and end the page."""
    st.text("There is no index yet. Open a file of reviews on the page Corpus.")
    st.page_link("views/corpus.py", label="Go to Corpus", icon=":material/arrow_forward:")
    st.stop()
