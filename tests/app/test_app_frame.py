"""The frame of the app: its server, the state in the URL, and work that gives way."""

import inspect
import re
import socket
from dataclasses import dataclass
from datetime import date
from types import SimpleNamespace
from typing import Literal

import pytest
from streamlit.testing.v1 import AppTest

from retriever.cli.serve import app
from retriever.core.errors import UsageError
from retriever_app import serving, state
from retriever_app.background import Progress


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

    @dataclass(frozen=True)
    class Other:
        exact: bool = False

    state.begin()
    small, other = state.current(Small), state.current(Other)
    st.text(f"{small.query}|{','.join(small.products)}")
    st.text_input("Query", key=state.key(Small, "query"))
    st.multiselect("Products", ["a", "b", "c"], key=state.key(Small, "products"))
    st.checkbox(f"Exactly: {other.exact}", key=state.key(Other, "exact"))
    state.end()


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
    session.query_params = {"index": "shop"}
    session.checkbox[0].check().run()  # of another kind
    assert session.text[0].value == "leaks|b"
    assert set(session.query_params) == {"index", "query", "products", "exact"}


def test_a_button_pressed_before_the_browser_has_seen_the_last_url_undoes_nothing(session, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(state, "time", SimpleNamespace(monotonic=lambda: now[0]))
    session.query_params = {"query": "broke"}
    session.run()
    session.text_input[0].set_value("leaks").run()
    session.query_params = {"query": "broke"}  # a button sends no value of a widget
    session.run()
    assert session.text[0].value == "leaks|"
    assert session.query_params["query"] in ("leaks", ["leaks"])
    now[0] += 60
    session.query_params = {"query": "broke"}
    session.run()
    assert session.text[0].value == "broke|"


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


@pytest.mark.parametrize(
    ("progress", "sentence"),
    [
        (Progress("Loading"), "Loading …"),
        (Progress("500 of 2,000 reviews", 0.25, 90.0), "500 of 2,000 reviews, about 2 minutes left"),
        (Progress("Checking", 0.5), "Checking"),
    ],
)
def test_progress_in_words(progress, sentence):
    assert progress.sentence == sentence


def test_the_app_listens_on_this_machine_alone_unless_told_otherwise(tmp_path, monkeypatch):
    from streamlit.web import cli

    asked = []
    monkeypatch.setattr(cli, "main", lambda flags, **_: asked.append(flags))
    monkeypatch.setenv(serving.VARIABLE, "")
    options = inspect.signature(app).parameters
    for host in (options["host"].default, "0.0.0.0"):
        serving.serve(tmp_path, host=host, port=None, browser=False, tell=print)
    assert ["--server.address=127.0.0.1" in flags for flags in asked] == [True, False]
    off = {"--server.enableXsrfProtection=false", "--server.enableCORS=false", "--server.enableStaticServing=true"}
    assert not off & set(asked[0])
    assert "--browser.gatherUsageStats=false" in asked[0]


def test_where_the_app_is_is_said_at_the_first_free_port(tmp_path, monkeypatch):
    from streamlit.web import cli

    asked, said = [], []
    monkeypatch.setattr(cli, "main", lambda flags, **_: asked.append(flags))
    monkeypatch.setenv(serving.VARIABLE, "")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        first = taken.getsockname()[1]
        monkeypatch.setattr(serving, "FIRST_PORT", first)
        serving.serve(tmp_path, host="127.0.0.1", port=None, browser=False, tell=said.append)
        serving.serve(tmp_path, host="0.0.0.0", port=None, browser=False, tell=said.append)
        with pytest.raises(UsageError, match=f"No port from {first} to {first} is free"):
            serving.serve(tmp_path, host="127.0.0.1", port=first, browser=False, tell=said.append)
    port = said[0].partition("127.0.0.1:")[2].partition(";")[0]
    assert int(port) > first
    assert f"--server.port={port}" in asked[0]
    assert said[1].startswith("The app is at http://localhost:")
    assert len(said) == 2
    assert "--logger.hideWelcomeMessage=true" in asked[0]  # nor what it advertises to those who write apps


@pytest.mark.parametrize("host", ["192.0.2.1", "no..host"])
def test_an_address_of_another_machine_is_an_error(host):
    with pytest.raises(UsageError, match=f"cannot listen at {re.escape(host)}"):
        serving.free_port(host, [8501])
