"""Draw the frame of every page: the index it is about, and the pages there are."""

from dataclasses import dataclass
from pathlib import Path

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


def chosen_path() -> Path | None:
    """Return the folder of the index the pages are about, which may be damaged, or None before the first one.

    Raises:
        IndexNotFoundError: it is gone.
    """
    name = state.current(Chosen).index
    return resources.folder().find(name) if name else None
