"""Pieces that several pages show. Text of reviews goes through `st.text` or `plain`, never into Markdown or HTML."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import streamlit as st

from retriever.core.errors import RetrieverError
from retriever_app.view_models import colours
from retriever_app.view_models.cards import Card
from retriever_app.view_models.colours import Colours
from retriever_app.view_models.model import Fact
from retriever_app.view_models.problems import problem
from retriever_app.view_models.text import count, plain

_LOG = logging.getLogger(__name__)
_PROBLEM = "attempt: problem"


@contextmanager
def told() -> Iterator[None]:
    """Show an error of the block as a sentence with the next step; the rest of the page goes on."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, RetrieverError):
            _LOG.exception("A page failed")
        show_problem(error)


def show_problem(error: BaseException) -> None:
    """Show what went wrong and what to do."""
    found = problem(error)
    with st.container(border=True):
        st.markdown(":material/error: **This did not work**")
        st.text(found.what)
        if found.next:
            st.text(found.next)


def attempt(action: Callable[[], object]) -> None:
    """Do what a button asks for; what goes wrong is kept for `show_attempt`, as a callback cannot draw."""
    try:
        action()
    except Exception as error:
        if not isinstance(error, RetrieverError):
            _LOG.exception("A button failed")
        st.session_state[_PROBLEM] = error


def show_attempt() -> None:
    """Show what went wrong with the last button, once."""
    if (error := st.session_state.pop(_PROBLEM, None)) is not None:
        show_problem(error)


def facts(values: Sequence[Fact]) -> None:
    """Show labelled values side by side; they wrap where there is no room."""
    with st.container(horizontal=True, gap="small"):
        for one in values:
            with st.container(width="content", gap=None):
                st.caption(one.label)
                st.text(one.value)


def text_box(
    label: str, key: str, placeholder: str, *, max_chars: int, on_change: Callable[[], None] = lambda: None
) -> str:
    """Draw a box for a text that the state holds, and return the text.

    The text is the box's default too, for a browser that has not seen the run which set it.
    """
    held: str = st.session_state.get(key, "")
    return st.text_input(label, held, max_chars, key, placeholder=placeholder, on_change=on_change)


def number_box(label: str, key: str, most: int) -> int:
    """Draw a box for a number from 1 that the state holds, its default as in `text_box`, and return the number."""
    held: int = st.session_state.get(key, 1)
    return st.number_input(label, 1, most, held, key=key, width=120)


def instruction_box(
    key: str,
    suggestions: Sequence[str],
    *,
    label: str = "Instruction",
    on_change: Callable[[], None] = lambda: None,
) -> str:
    """Draw the box for an instruction, with a row of suggestions below that unfolds, and return the instruction."""
    asked = text_box(label, key, "What should the model look at?", max_chars=1000, on_change=on_change)
    seed = f"{key} seed"
    shown, number = st.session_state.get(seed, (None, 0))
    if shown != (asked, suggestions):
        # A browser may still send back what was marked before: other pills than those are asked now.
        number += 1
        st.session_state[seed] = ((asked, suggestions), number)
    pills = f"{key} suggested {number}"
    marked = asked if asked in suggestions else None
    st.session_state[pills] = marked

    def take() -> None:
        if st.session_state[pills] != marked and st.session_state[key] == asked:
            chosen = st.session_state[pills] or ""
            st.session_state[key] = chosen
            st.session_state[seed] = ((chosen, suggestions), number)  # the same pills, which keep the focus
            on_change()

    with _unfolding(key):
        st.pills(
            "Suggestions",
            suggestions,
            key=pills,
            on_change=take,
            format_func=plain,
            label_visibility="collapsed",
            wrap=True,
        )
    return asked.strip()


@contextmanager
def _unfolding(key: str) -> Iterator[None]:
    """Draw the block in one row, with a button that shows its other rows; style.css hides the button without any."""
    name = f"{key} unfolded"
    unfolded = bool(st.session_state.get(name))

    def turn() -> None:
        st.session_state[name] = not unfolded

    with (
        st.container(key=f"{'rows' if unfolded else 'row'} of {key}", gap=None),
        st.container(key=f"unfolding {key}", gap=None),
    ):
        yield
        with st.container(key=f"unfold {key}", width="content"):
            st.button("Fewer" if unfolded else "More", key=f"{key} unfold", type="tertiary", on_click=turn)


def review_card(card: Card, *, menu: Callable[[Card], None] | None = None) -> None:
    """Show a review as a card; ``menu`` draws what can be done with it."""
    product = f"**{plain(card.product)}**" if card.product else ""
    moved = f":blue-badge[{plain(card.moved)}]" if card.moved else ""
    about = f":gray[{plain(card.about)}]" if card.about else ""
    with st.container(border=True, gap="xsmall"):
        head = [f"**{card.rank}**" if card.rank else "", card.stars, product, about, moved]
        st.markdown("&ensp;".join(filter(None, head)) or plain(card.id))
        if card.words:
            st.markdown(" ".join(f":gray-badge[{plain(word)}]" for word in card.words))
        before, marked, after = card.parts
        if card.answer:
            st.markdown(f"**Says:** {card.answer}", width="stretch")
        if marked:
            st.markdown(f"{plain(before)} :yellow-background[{plain(marked)}] {plain(after)}".strip(), width="stretch")
        elif card.marked:
            st.markdown(card.marked, width="stretch")
        else:
            st.text(after, width="stretch")
        if card.is_long:
            with st.expander("The whole review", type="compact"):
                st.text(card.body, width="stretch")
        if card.alike:
            with st.expander(f"{count(len(card.alike), 'review')} that says nearly the same", type="compact"):
                for other in card.alike:
                    st.caption(plain(" · ".join(filter(None, [other.why, other.id]))))
                    st.text(other.beginning, width="stretch")
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.caption(plain(" · ".join(filter(None, [card.why, card.id]))), width="stretch")
            if menu is not None:
                menu(card)


def theme() -> Colours:
    """Return the colours of the theme the user sees."""
    return colours.DARK if st.context.theme.type == "dark" else colours.LIGHT
