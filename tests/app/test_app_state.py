from dataclasses import dataclass
from datetime import date
from typing import Literal

import pytest
from streamlit.testing.v1 import AppTest

from retriever_app import state


@dataclass(frozen=True)
class Asked:
    query: str = ""
    k: int = 10
    mode: Literal["auto", "dense"] = "auto"
    products: tuple[str, ...] = ()
    stars: tuple[int, ...] = (1, 5)
    since: date | None = None
    exact: bool = False


FULL = Asked("a & b", 3, "dense", ("Kettle, red", "Toy"), (2, 4), date(2024, 2, 29), True)


def test_a_state_survives_its_url():
    assert state.parse(Asked, state.params(FULL)) == FULL
    assert state.params(FULL)["products"] == ["Kettle, red", "Toy"]


def test_defaults_are_left_out_of_the_url():
    assert state.params(Asked()) == {}
    assert state.params(Asked(k=3)) == {"k": ["3"]}


@pytest.mark.parametrize(
    "given",
    [{"k": ["many"]}, {"mode": ["fast"]}, {"since": ["yesterday"]}, {"stars": ["x"]}, {"exact": ["yes"]}, {"k": []}],
    ids=str,
)
def test_what_cannot_be_read_is_left_at_its_default(given):
    assert state.parse(Asked, given | {"query": ["kettle"]}) == Asked("kettle")


def test_a_key_is_of_a_field_that_there_is():
    assert state.key(Asked, "query") == "Asked.query"
    with pytest.raises(AttributeError, match="no field 'color'"):
        state.key(Asked, "color")


def page():
    from dataclasses import dataclass

    import streamlit as st

    from retriever_app import state

    @dataclass(frozen=True)
    class Small:
        query: str = ""
        products: tuple[str, ...] = ()

    state.begin()
    found = state.current(Small)
    st.text(f"{found.query}|{','.join(found.products)}")
    st.text_input("Query", key=state.key(Small, "query"))
    st.multiselect("Products", ["a", "b", "c"], key=state.key(Small, "products"))


@pytest.fixture
def session():
    return AppTest.from_function(page, default_timeout=180)


def test_a_link_fills_the_widgets(session):
    session.query_params = {"query": "it broke", "products": ["c", "a"]}
    session.run()
    assert session.text[0].value == "it broke|c,a"
    assert session.text_input[0].value == "it broke"
    assert session.multiselect[0].value == ["c", "a"]


def test_widgets_write_the_url(session):
    session.run()
    session.text_input[0].set_value("leaks").run()
    session.multiselect[0].set_value(["b"]).run()
    assert session.query_params == {"query": "leaks", "products": "b"} or session.query_params == {
        "query": ["leaks"],
        "products": ["b"],
    }
    session.text_input[0].set_value("").run()
    assert "query" not in session.query_params


def test_going_back_in_the_browser_moves_the_widgets(session):
    session.run()
    session.text_input[0].set_value("leaks").run()
    session.query_params = {"query": "broke"}
    session.run()
    assert session.text_input[0].value == "broke"


def test_a_widget_used_before_the_browser_has_seen_the_last_url_undoes_nothing(session):
    session.query_params = {"index": "shop"}
    session.run()
    session.text_input[0].set_value("leaks").run()
    session.query_params = {"index": "shop"}
    session.multiselect[0].set_value(["b"]).run()
    assert session.text[0].value == "leaks|b"
    assert set(session.query_params) == {"index", "query", "products"}


def test_an_empty_url_brings_back_what_the_session_had(session):
    session.run()
    session.text_input[0].set_value("leaks").run()
    session.query_params = {}
    session.run()
    assert session.text[0].value == "leaks|"
    assert "query" in session.query_params


def cut_short():
    from dataclasses import dataclass

    import streamlit as st

    from retriever_app import state

    @dataclass(frozen=True)
    class Wanted:
        k: int = 10

    state.begin()
    state.current(Wanted)
    if st.session_state.setdefault("cut", True):
        st.session_state["cut"] = False
        st.stop()  # as when the user acts before the page is drawn
    st.number_input("Hits", 1, 100, key=state.key(Wanted, "k"))
    state.end()


def test_widgets_are_told_again_after_a_run_that_was_cut_short():
    session = AppTest.from_function(cut_short, default_timeout=180).run()
    assert not session.number_input
    session.run()
    assert session.number_input[0].proto.set_value
    session.run()
    assert not session.number_input[0].proto.set_value
    assert session.number_input[0].value == 10
