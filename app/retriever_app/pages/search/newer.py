"""How much of the corpus a list rests on, and the offer of a new order once the model has read more."""

from dataclasses import dataclass

import streamlit as st

from retriever.core.errors import RetrieverError
from retriever.core.requests import SearchRequest
from retriever.core.results import SearchResult
from retriever.core.text import normal_instruction
from retriever.workspace import Index
from retriever_app import resources, state, text
from retriever_app.components import attempt
from retriever_app.pages.search import model
from retriever_app.pages.search.job import LiveAnswer, show_anew

GROWTH = 1.1
"""Of the reviews read, after which the order is looked at again: each look is a search."""

_LOOK_SECONDS = 3.0  # between looks at how much is read
_LOOKED = "search: looked"


@dataclass(frozen=True, slots=True)
class _Looked:
    """The last look at the order that a list would have now.

    Attributes:
        shown: the list.
        read: reviews that were read by then; 0 where nobody has looked.
        differs: whether the order was another.
    """

    shown: SearchResult
    read: int = 0
    differs: bool = False


def headline(index: Index, request: SearchRequest, answer: LiveAnswer) -> None:
    """Draw what the answer is; a list that the model may read more for tells how much it has read as that grows.

    Where that gives another order, a button shows it. Nothing else changes the list.
    """
    units = resources.status(index).units
    if answer.settled and answer.result.path == "lazy" and not index.teaching.reader(request.instruction or ""):
        _growing(index, request, answer, units)
    else:
        _draw(index, answer, units)


@st.fragment(run_every=_LOOK_SECONDS)
def _growing(index: Index, request: SearchRequest, answer: LiveAnswer, units: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", width="content"):
        read = _draw(index, answer, units)
        shows = _differs(index, request, answer.result, *read) and st.button("Show the new order", type="tertiary")
    if shows:
        attempt(lambda: show_anew(index, request, answer))
        state.rerun()


def _draw(index: Index, answer: LiveAnswer, units: str) -> tuple[int, int]:
    """Draw the headline; return how many texts are read for a lazy list, and of how many."""
    result = answer.result
    lazy = answer.settled and result.path == "lazy"
    read, texts = index.texts_read(result.view) if lazy and result.view is not None else (0, 0)
    said = model.headline(
        result,
        settled=answer.settled,
        stopped=answer.stopped or answer.unsent,
        read=model.read_of(read, texts, units) if read else "",
        goes_on=lazy and _goes_on(index, result.instruction or ""),
    )
    st.caption(text.plain(said))
    return read, texts


def _goes_on(index: Index, instruction: str) -> bool:
    """Whether the model reads on under a question while nobody waits."""
    waiting = resources.reading_on().of(index)
    if waiting is None or not waiting.minutes_left:
        return False
    return normal_instruction(instruction) in {each.instruction for each in waiting.questions}


def _differs(index: Index, request: SearchRequest, shown: SearchResult, read: int, texts: int) -> bool:
    """Whether all that is read by now gives other hits than a list, or another order of them."""
    looked: _Looked | None = st.session_state.get(_LOOKED)
    if looked is None or looked.shown is not shown:
        looked = _Looked(shown, read if shown.settling is not None else 0)  # of what a search read, it is the order now
    if read >= GROWTH * max(1, looked.read) or (read == texts > looked.read):
        try:
            looked = _Looked(shown, read, index.search_anew(request).ids != shown.ids)
        except RetrieverError:  # the index is being changed: the next look tells
            return False
    st.session_state[_LOOKED] = looked
    return looked.differs
