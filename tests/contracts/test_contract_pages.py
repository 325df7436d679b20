"""Rules for every page of the app, whichever rows `PAGES` has: nothing it meets makes it fall over."""

import ast

import pytest
import streamlit as st
from app_checks import opened, shown, whole
from app_fakes import PRODUCT, REVIEWS, documents, load_encoder

from retriever.workspace import Index
from retriever_app.serving import SCRIPT, VARIABLE


def rows_of_pages():
    """Return `PAGES` of the entry script, which is not imported as that draws."""
    for node in ast.parse(SCRIPT.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAGES":
            return ast.literal_eval(node.value)
    raise AssertionError("no PAGES")


PAGES = rows_of_pages()
HOSTILE = {
    "index": "../../etc",
    "answers": "a,[b](c),<b>,,",
    "k": "99999",
    "mode": "<b>",
    "steps": "-1",
    "like": "nope",
    "q": "<script>alert(1)</script>",
    "instruction": "x" * 5000,
    "groups": "500",
    "show": "sideways",
    "within": "[[[[",
    "clusters": "-7",
    "stars": "many",
    "since": "yesterday",
    "training": "../x",
    "begin": "nowhere",
    "part": "\u0001",
}


@pytest.fixture
def indexes(tmp_path, monkeypatch):
    """Give an empty folder of indexes that the app shows, with the keyword encoder for every encoder."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "indexes"))
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", load_encoder)
    st.cache_resource.clear()
    st.cache_data.clear()
    return tmp_path / "indexes"


def nothing(folder):
    """Make no index."""


def empty(folder):
    with Index(folder / "empty", encoder=load_encoder()) as index:
        index.add([])


def small(folder):
    with Index(folder / "small", encoder=load_encoder()) as index:
        index.add(documents(REVIEWS), instructions=[PRODUCT])


def one(folder):
    with Index(folder / "one", encoder=load_encoder()) as index:
        index.add(documents([{"id": "r", "text": "A kettle."}]))


@pytest.mark.parametrize("made", [nothing, empty, one, small])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_drawn_whatever_the_index_holds(indexes, made, page):
    made(indexes)
    session = opened(page)
    assert shown(session)
    whole(session.run())


@pytest.mark.parametrize("page", PAGES)
def test_a_link_that_makes_no_sense_does_no_page_harm(indexes, page):
    small(indexes)
    session = opened(page, **HOSTILE)
    session.query_params = {**HOSTILE, "index": "small", "like": "", "groups": "3", "training": ""}
    whole(session.run())


def test_every_page_is_a_folder_and_every_folder_a_page():
    assert {view.parent.name for view in SCRIPT.parent.glob("*/view.py")} == set(PAGES)
