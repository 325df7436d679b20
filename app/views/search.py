"""Search: a query under an instruction, filters beside it, reviews as cards."""

from functools import partial

import streamlit as st

from retriever.core.types import Marks
from retriever.workspace import Index
from retriever_app import filters, frame, resources, searches, state
from retriever_app.components import attempt, instruction_box, number_box, review_card, show_attempt, text_box
from retriever_app.searches import LiveAnswer
from retriever_app.verdicts import show_verdict
from retriever_app.view_models import cards, exports, search, text
from retriever_app.view_models.cards import Card
from retriever_app.view_models.search import SearchQuestion

_THUMB_DOWN, _THUMB_UP = 0, 1  # as Streamlit numbers them


def main() -> None:
    """Draw the page."""
    index = frame.needed_index()
    question = state.current(SearchQuestion)
    suggestions = search.suggestions(resources.status(index).views)
    where = filters.choose(resources.profile(index))
    _ask(index, question, suggestions)
    if not question.asks:
        _invite(index)
        return
    if answers := searches.live_answers(index, (searches.search_request(index, question, where),), "search"):
        _show(index, answers[0], suggestions)


def _ask(index: Index, question: SearchQuestion, suggestions: list[str]) -> None:
    """Draw query and instruction side by side, and what else can be set."""
    left, right = st.columns(2)
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
        _options(index)
    with right:
        instruction_box(state.key(SearchQuestion, "instruction"), suggestions)


def _options(index: Index) -> None:
    with st.expander("Options", type="compact"), st.container(horizontal=True, gap="medium"):
        number_box("Hits", state.key(SearchQuestion, "k"), search.MOST_HITS)
        st.selectbox(
            "Search",
            list(search.MODES),
            key=state.key(SearchQuestion, "mode"),
            format_func=lambda mode: search.MODES[mode],
            width=200,
        )
        own = resources.status(index).encoder.get("steps")
        if isinstance(own, int):
            label = "K: steps of thought for the query (0: as indexed)"
            st.slider(label, 0, search.MOST_STEPS, key=state.key(SearchQuestion, "steps"))


def _like_banner(index: Index, like: str) -> None:
    found = index.documents([like])
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Reviews like this one:")
        st.button("Clear", key="clear like", on_click=lambda: state.change(SearchQuestion, like=""), type="tertiary")
    for document in found.values():
        st.text(cards.card(document, resources.columns(index)).beginning)


def _invite(index: Index) -> None:
    count = text.count(resources.status(index).documents, "review")
    st.text(f"{count} to search. Say what to look for, and under which instruction the model should read them.")


def _show(index: Index, answer: LiveAnswer, suggestions: list[str]) -> None:
    result, question = answer.result, state.current(SearchQuestion)
    marks = index.marks(question.q, question.instruction)
    show_attempt()
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        waiting = "" if answer.settled else ":material/hourglass_top: "
        st.caption(f"{waiting}{text.plain(search.headline(result, settled=answer.settled))}")
        _marked_rows(index, question, marks)
        if result.hits:
            st.download_button(
                "Download", exports.to_csv(search.rows(result)), "hits.csv", "text/csv", icon=":material/download:"
            )
    if result.view is not None:
        show_verdict(index, result.instruction, ready=answer.settled)
    ids = [hit.document.id for hit in result.hits]
    moved = search.moved(answer.first, ids) if answer.settled else {}
    shown = cards.hit_cards(result.hits, resources.columns(index), moved, question.q)
    for one in shown:
        review_card(one, menu=lambda card: _menu(index, card, question, marks, suggestions))


def _marked_rows(index: Index, question: SearchQuestion, marks: Marks) -> None:
    """Draw what the query's marked hits are good for: a row to learn from, and to be forgotten."""
    if question.like or not marks:
        return
    ids = [*marks.more, *marks.less]
    st.button(
        f"Forget {text.count(len(ids), 'mark')}",
        on_click=partial(attempt, partial(index.mark, question.q, question.instruction, liked=dict.fromkeys(ids))),
        icon=":material/close:",
    )
    if rows := exports.marked_rows(question.q, question.instruction, marks, index.documents(ids)):
        st.download_button(
            "Training row", rows, "marked.jsonl", "application/x-ndjson", icon=":material/school:", on_click="ignore"
        )


def _menu(index: Index, card: Card, question: SearchQuestion, marks: Marks, suggestions: list[str]) -> None:
    """Draw what can be done with a hit."""
    if not question.like and question.mode != "lexical":
        _thumbs(index, card, question, marks)
    _more_like(card, suggestions)


def _thumbs(index: Index, card: Card, question: SearchQuestion, marks: Marks) -> None:
    """Draw the thumbs by which a hit is marked: more like it, less like it, or no longer either."""
    key = f"mark {card.id}"

    def mark() -> None:
        thumb = st.session_state[key]
        liked = None if thumb is None else thumb == _THUMB_UP
        attempt(partial(index.mark, question.q, question.instruction, liked={card.id: liked}))

    st.session_state[key] = _THUMB_UP if card.id in marks.more else _THUMB_DOWN if card.id in marks.less else None
    st.feedback("thumbs", key=key, on_change=mark)


def _more_like(card: Card, suggestions: list[str]) -> None:
    key = f"like {card.rank}"
    asked = st.session_state[state.key(SearchQuestion, "instruction")]
    options = list(dict.fromkeys(["", asked, *suggestions]))

    def take() -> None:
        state.change(SearchQuestion, q="", like=card.id, instruction=st.session_state[key])

    st.menu_button(
        "More like this",
        options,
        key=key,
        on_click=take,
        type="tertiary",
        format_func=lambda one: f"under: {text.plain(one)}" if one else "without an instruction",
    )


main()
