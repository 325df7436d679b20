"""Every option of a search is offered by every door, and works there."""

import inspect
import json
from dataclasses import fields
from pathlib import Path

import anyio
import pytest
import typer
from api_fakes import AnyEncoder, running
from app_checks import opened, settle
from mcp import Client

from retriever.api.http.app import make_app
from retriever.api.mcp.server import make_server
from retriever.api.service import Service
from retriever.api.settings import ServerSettings
from retriever.cli.main import app as commands
from retriever.cli.main import main
from retriever.core.options import options_of
from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.integrations.langchain import IndexRetriever as LangChainRetriever
from retriever.integrations.llama_index import IndexRetriever as LlamaRetriever
from retriever.workspace import Index
from retriever_app.pages.search.model import SearchQuestion
from retriever_app.serving import VARIABLE

TEXTS = {
    "r1": "a kettle I love",
    "r2": "a toy I hate",
    "r3": "a kettle leaks",
    "r4": "a lamp",
    "r5": "a toy that is dim",
}
QUERY = {"query": "a", "mode": "lexical", "regex": "l(e)aks|lamp"}
WANTED = {"r3", "r4"}
"""The query finds everything by its word; the expression leaves these."""


@pytest.fixture
def folder(tmp_path):
    """Give the folder of an index of the texts; searches by words need no model."""
    with Index(tmp_path / "indexes" / "reviews", encoder=AnyEncoder()) as made:
        made.add(Document(id, text) for id, text in TEXTS.items())
        return made.path


def by_command(folder, capsys, _):
    flags = [part for name, value in QUERY.items() if name != "query" for part in (f"--{name}", value)]
    assert main(["search", QUERY["query"], "--index", str(folder), *flags, "--json"]) == 0
    return [hit["id"] for hit in json.loads(capsys.readouterr().out)["hits"]]


def posted(folder, path, body):
    with running(ServerSettings(folder.parent, port=0, read_on=0), lambda description: None) as server:
        answer = server.post(f"/indexes/{folder.name}/{path}", body)
        assert answer.status_code == 200, answer.text
        return answer.json()


def by_server(folder, *_):
    return [hit["id"] for hit in posted(folder, "search", QUERY)["hits"]]


def by_comparison(folder, *_):
    found = posted(folder, "compare", {**QUERY, "instructions": ["What broke?", "How do they feel?"]})
    return [one["id"] for one in found["documents"]]


def with_tools(folder, do):
    async def ask():
        async with Client(make_server(Service(ServerSettings(folder.parent)))) as client:
            return await do(client)

    return anyio.run(ask)


def by_tool(folder, *_):
    answer = with_tools(folder, lambda client: client.call_tool("search", QUERY))
    assert not answer.is_error, answer.content
    return [hit["id"] for hit in answer.structured_content["hits"]]


def by_langchain(folder, *_):
    query, *options = QUERY.values()
    given = dict(zip(list(QUERY)[1:], options, strict=True))
    always = [one.id for one in LangChainRetriever(index=folder, **given).invoke(query)]
    assert [one.id for one in LangChainRetriever(index=folder).invoke(query, **given)] == always
    return always


def by_llama_index(folder, *_):
    given = {name: value for name, value in QUERY.items() if name != "query"}
    return [one.node_id for one in LlamaRetriever(folder, **given).retrieve(QUERY["query"])]


def by_page(folder, _, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(folder.parent))
    session = settle(opened("search", q=QUERY["query"], mode=QUERY["mode"]))
    session = settle(session.text_input(key="SearchQuestion.regex").set_value(QUERY["regex"]).run())
    shown = {one.value for one in session.text}
    return [id for id, text in TEXTS.items() if text in shown]


def parameters(function):
    return set(inspect.signature(function).parameters)


def of_command():
    return {one.name for one in typer.main.get_command(commands).commands["search"].params}


def of_schema(name):
    page = make_app(ServerSettings(Path("none"), port=0)).openapi()
    return set(page["components"]["schemas"][name]["properties"])


def of_tool(folder):
    (tool,) = [one for one in with_tools(folder, lambda client: client.list_tools()).tools if one.name == "search"]
    return set(tool.input_schema["properties"])


def of_page():
    return {{"q": "query"}.get(one.name, one.name) for one in fields(SearchQuestion)}


DOORS = {
    "command": (by_command, lambda _: of_command(), set()),
    "server": (by_server, lambda _: of_schema("SearchBody"), set()),
    "comparison": (by_comparison, lambda _: of_schema("CompareBody"), {"instruction"}),  # it takes two
    "tool": (by_tool, of_tool, set()),
    "LangChain": (by_langchain, lambda _: set(LangChainRetriever.model_fields), {"query", "like"}),
    "LlamaIndex": (by_llama_index, lambda _: parameters(LlamaRetriever), {"query", "like"}),
    # The filters of all pages; and a reader by a button alone, so that a link sends no texts. It reranks nothing.
    "page": (by_page, lambda _: of_page(), {"where", "reader", "rerank"}),
    "Python": (lambda folder, *_: found_in(folder), lambda _: parameters(Index.search), set()),
}
"""By name: a search for QUERY in the index of a folder, the options offered, and those the door fills in itself."""


def found_in(folder):
    with Index(folder) as index:
        return [hit.document.id for hit in index.search(**QUERY).hits]


@pytest.mark.parametrize(("search", "offered", "own"), DOORS.values(), ids=DOORS)
def test_a_regular_expression_works_through_every_door(folder, search, offered, own, capsys, monkeypatch):
    assert set(search(folder, capsys, monkeypatch)) == WANTED


@pytest.mark.parametrize(("search", "offered", "own"), DOORS.values(), ids=DOORS)
def test_every_public_option_is_offered_by_every_door(folder, search, offered, own):
    assert {one.name for one in options_of(SearchRequest) if one.public} - own <= offered(folder)
