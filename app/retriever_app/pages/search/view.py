"""Search: a query under an instruction, filters beside it, reviews as cards."""

from functools import partial
from typing import Any

import streamlit as st

from retriever.core.requests import SearchRequest
from retriever.index.teaching.labels import NONE_OF_THESE, Labels
from retriever.workspace import Index
from retriever_app import cards, filters, reading, resources, state, text
from retriever_app.cards import Card
from retriever_app.components import attempt, download, instruction_box, number_box, review_card, text_box
from retriever_app.pages.search import model
from retriever_app.pages.search.job import LiveAnswer, live_answer
from retriever_app.pages.search.model import SearchQuestion
from retriever_app.pages.search.newer import headline
from retriever_app.readers import SEARCHING
from retriever_app.verdicts import show_verdict

_TAKE_BACK = ""  # the choice that removes the label of an example


def main() -> None:
    """Draw the page."""
    index = resources.needed_index()
    state.carry(SearchQuestion, "instruction")
    question = state.current(SearchQuestion)
    suggestions = resources.suggestions(index)
    where = filters.choose(resources.profile(index))
    _ask(index, question, suggestions)
    request = model.search_request(question, where)
    if request is None:
        _invite(index)
    elif answer := live_answer(index, request):
        _show(index, request, answer, suggestions)


def _ask(index: Index, question: Any, suggestions: list[str]) -> None:  # noqa: ANN401 - a SearchQuestion
    """Draw query and instruction side by side, and what else can be set."""
    left, right = st.columns([2, 3])
    with left:
        text_box(
            "Search for",
            state.key(SearchQuestion, "q"),
            "it stopped working after a few days",
            on_change=lambda: state.change(SearchQuestion, like=""),
            max_chars=2000,
        )
        if question.like:
            _like_banner(index, question.like)
        _options()
    with right:
        offer = partial(reading.offer, index, question.instruction, SEARCHING)
        instruction_box(state.key(SearchQuestion, "instruction"), suggestions, beside=offer)
        reading.trial(index, question.instruction)


def _options() -> None:
    with st.expander("Options", type="compact"), st.container(horizontal=True, gap="medium"):
        number_box("Hits", state.key(SearchQuestion, "k"), model.MOST_HITS)
        st.selectbox(
            "Rank",
            list(model.MODES),
            key=state.key(SearchQuestion, "mode"),
            format_func=lambda mode: model.MODES[mode],
            width=200,
        )
        for option in model.further_options():
            key, label = state.key(SearchQuestion, option.name), option.name.capitalize()
            if option.type is bool:
                st.checkbox(label, st.session_state.get(key, option.default), key, help=option.help)
            else:
                text_box(label, key, option.help, max_chars=option.longest or model.LONGEST)


def _like_banner(index: Index, like: str) -> None:
    documents = index.get([like])
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Reviews like this one:")
        st.button("Clear", key="clear like", on_click=lambda: state.change(SearchQuestion, like=""), type="tertiary")
    for document in documents.values():
        st.text(cards.card(document, resources.columns(index)).beginning)


def _invite(index: Index) -> None:
    count = text.count(resources.status(index).documents, "review")
    st.text(f"{count}. Enter a query. A question tells the model what to look for in every review.")


def _show(index: Index, request: SearchRequest, answer: LiveAnswer, suggestions: list[str]) -> None:
    result, query = answer.result.shown, request.query or ""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        headline(index, request, answer)
        if result.hits:
            download(lambda: model.rows(result), "hits.csv")
    if result.view is not None:
        offer = partial(reading.offer, index, result.instruction or "", SEARCHING, "verdict")
        show_verdict(index, result.instruction, ready=answer.settled, boxed=True, beside=offer)
    if answer.settled:
        answers = [(hit.unit or hit.document, hit.words) for hit in result.hits]
        reading.show_answers(index, result.instruction, answers)
    ids = result.ids
    moved = model.moved(answer.first, ids) if answer.settled else {}
    question = (result.instruction or "").strip()
    labels = index.teaching.labels(question)
    ids_read = {hit.document.id: (hit.unit or hit.document).id for hit in result.hits}
    clear = index.teaching.clear_answers(question, set(ids_read.values())) if question else None

    def menu(card: Card) -> None:
        if labels.answers:  # which somebody named on the page Teach
            _example_menu(index, question, labels, card, ids_read[card.id])
        _more_like(card, suggestions)

    columns, language = resources.columns(index), resources.language_of(index)
    for shown in cards.hit_cards(result.hits, columns, moved, query, labels.examples, clear, language):
        review_card(shown, menu=menu)


def _more_like(card: Card, suggestions: list[str]) -> None:
    key = f"like {card.rank}"
    instruction = st.session_state[state.key(SearchQuestion, "instruction")]
    options = list(dict.fromkeys(["", instruction, *suggestions]))

    def take() -> None:
        state.change(SearchQuestion, q="", like=card.id, instruction=st.session_state[key])

    st.menu_button(
        "More like this",
        options,
        key=key,
        on_click=take,
        type="tertiary",
        format_func=lambda option: f"for: {text.plain(option)}" if option else "without a question",
    )


def _example_menu(index: Index, question: str, labels: Labels, card: Card, id: str) -> None:
    """Draw the choice of an answer that a hit is an example of; its text has an id of its own."""
    key, label = f"example {card.rank}", labels.examples.get(id, "")

    def take() -> None:
        answer = st.session_state[key]
        if answer == _TAKE_BACK:
            attempt(lambda: index.teaching.unlabel(question, id))
        else:
            attempt(lambda: _keep(index, question, id, answer))

    st.menu_button(
        f"Example of {text.plain(label)}" if label else "This is an example of …",
        [*labels.answers, NONE_OF_THESE, *([_TAKE_BACK] if label else [])],
        key=key,
        on_click=take,
        type="tertiary",
        format_func=lambda answer: text.plain(answer) or "Remove the label",
    )


def _keep(index: Index, question: str, id: str, answer: str) -> None:
    index.teaching.label(question, id, answer)
    examples = list(index.teaching.labels(question).examples.values()).count(answer)
    st.toast(f"“{text.plain(answer)}” has {text.count(examples, 'example')}. Learn it on the page Teach.")


main()
