"""docs/server.md says what the server does: its examples run, and its tables are the code's."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from retriever.api.http.embeddings import EmbeddingsRequest
from retriever.api.limits import ServerLimits
from retriever.api.mcp.catalog import TOOLS
from retriever.api.settings import HOST, PORT, read_instructions

PAGE = (Path(__file__).parents[2] / "docs/server.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\n(.*?)^```$", PAGE, re.M | re.S)


def block(holds):
    (found,) = [one for one in BLOCKS if holds in one]
    return found


def test_the_request_of_the_page_is_answered(serve):
    url, kind, body = re.search(r"curl -s (\S+) -H '([^']*)' -d '([^']*)'", block("curl")).groups()
    assert url.startswith(f"http://{HOST}:{PORT}/")
    server = serve()
    name, _, value = kind.partition(": ")
    answer = server.http.post(url.removeprefix(f"http://{HOST}:{PORT}"), content=body, headers={name: value})
    assert len(answer.json()["data"]) == 2, answer.text


def test_the_files_of_the_page_are_read(tmp_path):
    (tmp_path / "saved.toml").write_text(block("mood ="))
    assert list(read_instructions(tmp_path / "saved.toml")) == ["product", "mood"]
    command = json.loads(block("mcpServers"))["mcpServers"]["retriever"]
    assert (command["command"], command["args"][0]) == ("retriever", "mcp")


def test_the_page_has_every_field_endpoint_and_tool(serve):
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    for name in EmbeddingsRequest.model_fields:
        assert f"`{name}`" in rows
    for tool in TOOLS:
        assert f"| `{tool}` |" in rows
    paths = serve().get("/openapi.json").json()["paths"]
    for path, operations in paths.items():
        named = path.replace("{name}", "NAME").replace("{job}", "ID").replace("{clustering}", "CLUSTERING")
        for method in operations:
            either = (f"{method.upper()} {named}", f"`{named}`")
            assert any(one in PAGE for one in either) or path == "/v1/models/{model}", either


@pytest.mark.parametrize(
    ("name", "row"),
    {
        "body_bytes": "| a request's body | {:.0f} MB",
        "body_seconds": "within {:.0f} s | 413, 408 |",
        "texts": "| texts of a request; characters of one | {};",
        "text_characters": "; {:,} | 400 |",
        "instruction_characters": "| an instruction | {} characters | 400 |",
        "hits": "| hits; documents of a request | {};",
        "documents": "; {} | 400 |",
        "seconds": "| time to an answer | {:.0f} s (",
        "waiting_texts": "| texts that wait for the model | {} (",
        "threads": "| searches at a time; waiting | {};",
        "waiting_requests": "; {} | 429 |",
        "jobs": "| jobs at a time; kept after their end | {};",
        "kept_jobs": "; {} | 429 |",
        "connections": "| connections | {} | 503 |",
        "grace_seconds": "those under way have {} s",
    }.items(),
)
def test_the_page_has_every_limit(name, row):
    value = getattr(ServerLimits(), name)
    assert row.format(value / 1e6 if name == "body_bytes" else value) in " ".join(PAGE.split("\n"))


def test_no_limit_is_left_out_here():
    (mark,) = test_the_page_has_every_limit.pytestmark
    assert {name for name, _ in mark.args[1]} == {one.name for one in fields(ServerLimits)}
