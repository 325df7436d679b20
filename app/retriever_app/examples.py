"""The labels of a search's question on its hits: those that are there, and “This is an example of …” for another."""

from collections.abc import Callable, Sequence

import streamlit as st

from retriever.core.results import Hit, SearchResult
from retriever.index.teaching.labels import NONE_OF_THESE
from retriever.workspace import Index
from retriever_app.cards import Card, KnownAnswers
from retriever_app.components import attempt
from retriever_app.text import count, plain

_TAKE_BACK = ""


def known_answers(index: Index, result: SearchResult) -> KnownAnswers:
    """Return what is known of the answers of a search's hits besides the words of the model."""
    if not result.instruction:
        return KnownAnswers()
    ids = {(hit.unit or hit.document).id for hit in result.hits}
    labels = index.teaching.labels(result.instruction).examples
    return KnownAnswers(labels, index.teaching.clear_answers(result.instruction, ids))


def example_menu(index: Index, instruction: str | None, hits: Sequence[Hit]) -> Callable[[Card], None]:
    """Return what draws the choice of an answer that a hit is an example of, for the menu of its card.

    It draws nothing for a question whose answers nobody has named yet on the page Teach.
    """
    question = (instruction or "").strip()
    labels = index.teaching.labels(question)
    read = {hit.document.id: hit.unit or hit.document for hit in hits}

    def draw(card: Card) -> None:
        id, key = read[card.id].id, f"example {card.rank}"
        label = labels.examples.get(id, "")

        def take() -> None:
            answer = st.session_state[key]
            if answer == _TAKE_BACK:
                attempt(lambda: index.teaching.unlabel(question, id))
            else:
                attempt(lambda: _keep(index, question, id, answer))

        st.menu_button(
            f"Example of {plain(label)}" if label else "This is an example of …",
            [*labels.answers, NONE_OF_THESE, *([_TAKE_BACK] if label else [])],
            key=key,
            on_click=take,
            type="tertiary",
            format_func=lambda answer: plain(answer) or "Remove the label",
        )

    return draw if labels.answers else lambda card: None


def _keep(index: Index, question: str, id: str, answer: str) -> None:
    index.teaching.label(question, id, answer)
    examples = list(index.teaching.labels(question).examples.values()).count(answer)
    st.toast(f"“{plain(answer)}” has {count(examples, 'example')}. Learn it on the page Teach.")
