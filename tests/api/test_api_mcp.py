import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from api_fakes import READER, TOKENS
from index_fakes import MOOD, PRODUCT
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from retriever.api.mcp.context import ANSWER_CHARACTERS, Bounded
from retriever.api.mcp.server import TOOLS, WRITING_TOOLS
from retriever.core.requests import SearchOptions
from retriever.core.types import Document
from retriever.workspace import Index

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def client_of(server, token=None):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=180) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client,
    ):
        yield client


def asked(server, tool, token=None, **arguments):
    """The answer of a tool to the official client over HTTP."""

    async def ask():
        async with client_of(server, token) as client:
            return await client.call_tool(tool, arguments)

    return anyio.run(ask)


def answer(server, tool, **arguments):
    result = asked(server, tool, **arguments)
    assert not result.is_error, result.content
    assert len(str(result.structured_content)) < 2 * ANSWER_CHARACTERS
    return result.structured_content


def failed(server, tool, *parts, **arguments):
    result = asked(server, tool, **arguments)
    assert result.is_error
    missing = [part for part in parts if part not in result.content[0].text]
    assert not missing, result.content[0].text
    return True


@pytest.fixture
def server(make, serve):
    make(texts=[f"a {word} {n}" for n, word in enumerate(["kettle", "toy", "lamp"] * 10)])
    return serve()


def test_null_is_an_argument_that_is_left_out(server):
    arguments = {"index": "reviews", "query": "kettle"}
    nulls = dict.fromkeys(("instruction", "k", "where", "mode", "like", "regex"))
    found = [answer(server, "search", **arguments, **more)["hits"] for more in ({}, nulls)]
    assert found[0] == found[1] != []
    assert failed(server, "diagnose", "instruction", instruction=None)


def test_the_tools_are_there_read_only_and_with_words_for_their_arguments(server):
    async def listed():
        async with client_of(server) as client:
            return (await client.list_tools()).tools, client.instructions

    tools, instructions = anyio.run(listed)
    assert [tool.name for tool in tools] == [tool.__name__ for tool in TOOLS]
    assert len(tools) == 8
    assert "list_indexes" in instructions
    for tool in tools:
        assert tool.annotations.read_only_hint and not tool.annotations.destructive_hint
        assert len(tool.description) > 60
        for name, schema in tool.input_schema["properties"].items():
            assert schema.get("description"), (tool.name, name)


def test_indexes_are_listed_and_described(server, make, indexes, encoder):
    make("other", ["a lamp"])
    found = answer(server, "list_indexes")["indexes"]
    assert [(one["index"], one["documents"], one["instructions"]) for one in found] == [
        ("other", 1, [PRODUCT]),
        ("reviews", 30, [PRODUCT]),
    ]
    assert [one["half_read"] for one in found] == [[], []]
    with Index(indexes / "other", encoder=encoder) as index:
        index.add([Document("d", "a bike", {"at": "2024-05-31T12:00:00Z", "tags": ["new"]})])
    assert answer(server, "describe", index="other")["fields"] == {
        "at": "dates", "half": "numbers", "stars": "numbers", "tags": "lists of texts"
    }  # fmt: skip
    assert answer(server, "count", index="other", where="at = '2024-05-31'")["documents"] == 1
    described = answer(server, "describe", index="reviews")
    assert (described["documents"], described["fields"]) == (30, {"half": "numbers", "stars": "numbers"})
    assert described["stars"]["values"] == {str(star): 6 for star in range(1, 6)}
    assert failed(server, "describe", "Which index is meant?", "other, reviews")
    for name in ("gone", "../indexes/reviews", "."):
        assert failed(server, "describe", f"no index {name!r}", index=name)


def test_questions_that_are_half_read_are_listed_with_their_share(server, indexes, encoder, monkeypatch):
    monkeypatch.setattr("retriever.index.search.rounds.wants_judging", lambda store, view: False)  # which reads all
    with Index(indexes / "reviews", encoder=encoder, search_options=SearchOptions(token_budget=400, rounds=1)) as index:
        index.search("kettle", instruction=MOOD, k=1)
        (view,) = [view for view in index.views() if view.lazy]
    assert 0 < view.coverage < 1
    (found,) = answer(server, "list_indexes")["indexes"]
    assert found["half_read"] == [{"instruction": MOOD, "coverage": round(view.coverage, 3)}]
    assert found["instructions"] == [PRODUCT]


def test_a_search_gives_ids_scores_and_addresses(server):
    found = answer(server, "search", query="kettle", instruction=PRODUCT, k=3, where="stars <= 3", mode="dense")
    assert len(found["hits"]) == 3
    first = found["hits"][0]
    assert first["score"] == 1.0
    assert first["words"] == ["kettle"]
    assert first["uri"] == f"retriever://reviews/documents/{first['id']}"
    assert found["left_out"] == []
    alike = answer(server, "search", like=first["id"], instruction=PRODUCT, k=2)["hits"]
    assert first["id"] not in [hit["id"] for hit in alike]
    assert failed(server, "search", "nothing to search for")
    assert failed(server, "search", "exclude each other", query="x", like="r1")
    assert failed(server, "search", "takes no argument 'filter'", "It takes: query", query="x", filter="stars = 1")
    assert failed(server, "search", "k", query="x", k=5000)
    assert failed(server, "search", "colour", query="x", where="colour = 'red'")


def test_documents_are_fetched_whole_in_pieces_and_read_as_resources(server, indexes, encoder):
    long, strange = "kettle " * 9000, "a/b c?d#ü"
    with Index(indexes / "reviews", encoder=encoder) as index:
        index.add([Document("long", long), Document(strange, "a lamp", {"note": "x" * 5000})])
    (hit,) = answer(server, "search", like="long", instruction=PRODUCT, k=1)["hits"]
    assert hit["id"] != "long"
    found = answer(server, "fetch", id="long")
    pieces = [found["text"]]
    assert "characters behind these" in found["left_out"][0]
    while found["left_out"]:
        found = answer(server, "fetch", id="long", offset=sum(map(len, pieces)))
        pieces.append(found["text"])
    assert "".join(pieces) == long
    other = answer(server, "fetch", id=strange)
    assert answer(server, "fetch", id=other["uri"])["text"] == other["text"] == "a lamp"
    assert failed(server, "fetch", "no document 'none'", id="none")

    async def read(uri):
        async with client_of(server) as client:
            templates = await client.list_resource_templates()
            assert templates.resource_templates[0].uri_template == "retriever://{index}/documents/{id}"
            try:
                return (await client.read_resource(uri)).contents[0].text
            except MCPError as error:
                return str(error)

    assert anyio.run(read, "retriever://reviews/documents/r1") == "a kettle 0"
    assert anyio.run(read, other["uri"]) == "a lamp"
    for uri in ("retriever://reviews/documents/none", "retriever://gone/documents/r1"):
        assert "There is no " in anyio.run(read, uri)


def test_documents_are_counted(server):
    assert answer(server, "count")["documents"] == 30
    found = answer(server, "count", where="stars <= 2", by="half")
    assert found["documents"] == 12
    assert found["values"] == [{"value": "0", "documents": 6}, {"value": "1", "documents": 6}]
    assert failed(server, "count", "colour", by="colour")


def test_clusters_have_names_sizes_and_examples(server):
    found = answer(server, "cluster", instruction=PRODUCT, k=3, by=["half"])
    assert found["status"] == "done"
    assert sorted(group["label"] for group in found["groups"]) == ["kettle", "lamp", "toy"]
    assert [group["size"] for group in found["groups"]] == [10, 10, 10]
    assert found["groups"][0]["by"]["half"] == {"0": 5, "1": 5}
    assert (found["made"], {group["holds"] for group in found["groups"]}) == ("vectors", {1.0})
    assert failed(server, "cluster", "colour", where="colour = 1")


def test_agents_name_categories_and_send_nothing_for_what_they_leave_out(server):
    nothing = {"k": 0, "by": [], "where": "", "reader": ""}
    found = answer(server, "cluster", instruction=PRODUCT, into=["kettle", "lamp", "toy"], **nothing)
    assert [(group["label"], group["size"]) for group in found["groups"]] == [("kettle", 10), ("lamp", 10), ("toy", 10)]
    assert found["made"] == "names"
    assert failed(server, "cluster", "There is 1 category", instruction=PRODUCT, into=["kettle"])


@pytest.fixture
def slow(make, serve, encoder):
    """A server whose agents wait no longer than 0.3 seconds, and whose model reads nothing yet."""
    make()
    server = serve(seconds=0.4, kept_jobs=2)
    encoder.go.clear()
    return server


def test_what_takes_longer_than_a_client_waits_is_asked_for_again_and_done_once(slow, encoder, monkeypatch):
    began = []
    cluster = Index.cluster
    monkeypatch.setattr(Index, "cluster", lambda *args, **options: began.append(1) or cluster(*args, **options))
    first = answer(slow, "cluster", instruction=MOOD, k=1)
    assert first["status"] == "running"
    assert "call cluster again" in first["next"]
    (job,) = slow.service.jobs.named("mcp").values()
    encoder.go.set()
    assert job.wait(120).status == "done"  # while nobody asks
    assert answer(slow, "cluster", instruction=MOOD, k=1)["groups"][0]["size"] == 5
    assert len(began) == 1
    assert slow.service.jobs.named("mcp") == {}
    assert answer(slow, "cluster", instruction=MOOD, k=1)["status"] == "done"  # of the documents as they are now
    assert len(began) == 2


def test_a_page_of_another_site_cannot_call_a_tool(serve):
    call = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}'
    for kind in ({"Content-Type": "text/plain"}, {}):
        headers = {"Accept": "application/json, text/event-stream", "Origin": "http://evil.example", **kind}
        assert serve().http.post("/mcp", content=call, headers=headers).status_code == 400


def test_instructions_are_compared_and_diagnosed(server):
    hits = answer(server, "compare", first=PRODUCT, second=MOOD, query="kettle")
    assert hits["instructions"] == [PRODUCT, MOOD]
    assert hits["documents"]
    groups = answer(server, "compare", first=PRODUCT, second=PRODUCT)
    assert (groups["moved"], groups["adjusted_rand"]) == (0, 1.0)
    found = answer(server, "diagnose", instruction=PRODUCT)
    assert found["level"] in ("followed", "unclear", "not followed")
    assert found["texts"] == 30


def test_the_prompts_name_the_tools(server):
    async def prompts():
        async with client_of(server) as client:
            listed = (await client.list_prompts()).prompts
            first = await client.get_prompt("complaints", {"index": "reviews", "where": "stars <= 2"})
            return [one.name for one in listed], first.messages[0].content.text

    names, text = anyio.run(prompts)
    assert names == ["complaints", "what_changed", "evidence"]
    assert "`cluster`" in text
    assert "'stars <= 2'" in text


def test_the_token_is_asked_for_here_too(make, serve):
    make()
    server = serve(tokens=TOKENS)
    assert server.post("/mcp", {}).status_code == 401
    assert not asked(server, "list_indexes", token=READER).is_error
    with pytest.raises(BaseException):  # noqa: B017 - a group of whatever the client's transport raises
        asked(server, "list_indexes", token="wrong")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("writing", [(), WRITING_TOOLS], ids=["reading", "writing"])
def test_the_command_serves_the_same_tools_over_stdio(make, indexes, tmp_path, writing):
    make()

    async def ask():
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "retriever", "mcp", "--indexes", str(indexes), *(["--write"] if writing else [])],
            cwd=tmp_path,
            env=dict(os.environ, PYTHONPATH=str(ROOT)),
        )
        async with Client(stdio_client(command)) as client:
            tools = (await client.list_tools()).tools
            words = await client.call_tool("search", {"query": "leaks", "mode": "lexical"})
            return [tool.name for tool in tools], [hit["id"] for hit in words.structured_content["hits"]]

    assert anyio.run(ask) == ([tool.__name__ for tool in (*TOOLS, *writing)], ["r3"])


def test_an_answer_says_what_it_leaves_out():
    bounded = Bounded(100)
    shown = bounded.take([bounded.text("x" * 60, 50) for _ in range(5)], lambda one: one, of="hits")
    assert len(shown) == 2
    assert shown[0] == "x" * 49 + "…"
    assert bounded.closed({"a": 1}) == {
        "a": 1,
        "left_out": ["3 of 5 hits", "the ends of 5 longer texts, which `fetch` gives whole"],
    }
    assert Bounded(10).take(["y" * 500], str, of="hits") == ["y" * 500]  # never nothing
