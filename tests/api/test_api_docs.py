"""The server's pages: docs/server.md, whose examples run and whose tables are the code's, and /docs."""

import base64
import hashlib
import json
import re
import shlex
from dataclasses import fields
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from api_fakes import READER, TOKENS, WRITER, refused
from index_fakes import MOOD, PRODUCT

from retriever.api.http.embeddings import EmbeddingsRequest
from retriever.api.http.run import CONNECTIONS
from retriever.api.mcp.server import TOOLS, WRITING_TOOLS
from retriever.api.settings import PORT, ServerLimits, Tokens, read_instructions
from retriever.core.addresses import LOOPBACK as HOST
from retriever.core.types import Document
from retriever.workspace import Index

PAGE = (Path(__file__).parents[2] / "docs/server.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\n(.*?)^```$", PAGE, re.M | re.S)


def block(holds):
    (found,) = [one for one in BLOCKS if holds in one]
    return found


def sent(server, command):
    """The answer to a request that curl would send."""
    _, _, url, *rest = shlex.split(command.replace("$(cat writer.token)", WRITER).replace("\\\n", ""))
    assert url.startswith(f"http://{HOST}:{PORT}/")
    options = list(zip(rest[::2], rest[1::2], strict=True))
    headers = dict(value.split(": ", 1) for name, value in options if name == "-H")
    (body,) = [value for name, value in options if name == "-d"]
    answer = server.http.post(url.removeprefix(f"http://{HOST}:{PORT}"), content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_requests_of_the_page_are_answered_documents_by_who_may_write(serve, make):
    make("demo")
    server = serve(tokens=Tokens(writer=WRITER))
    first, add, search = re.split(r"^(?=curl)", block("--writer-token-file"), flags=re.M)
    assert "openssl rand" in first
    assert sent(server, add)["result"]["added"] == 1
    assert "n-1" in [hit["id"] for hit in sent(server, search)["hits"]]
    assert len(sent(server, block("/v1/embeddings"))["data"]) == 2


def test_the_files_of_the_page_are_read(tmp_path):
    (tmp_path / "saved.toml").write_text(block("mood ="))
    assert list(read_instructions(tmp_path / "saved.toml")) == ["product", "mood"]
    command = json.loads(block("mcpServers"))["mcpServers"]["retriever"]
    assert (command["command"], command["args"][0]) == ("retriever", "mcp")


def test_the_page_has_every_field_endpoint_and_tool(serve):
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    for name in EmbeddingsRequest.model_fields:
        assert f"`{name}`" in rows
    for tool in (*TOOLS, *WRITING_TOOLS):
        assert f"| `{tool.__name__}` |" in rows
    paths = serve().get("/openapi.json").json()["paths"]
    for path, operations in paths.items():
        named = path.replace("{name}", "NAME").replace("{job}", "ID").replace("{clustering}", "CLUSTERING")
        for method in operations:
            either = (f"{method.upper()} {named}", f"`{named}`")
            assert any(one in PAGE for one in either) or path == "/v1/models/{model}", either


ROWS = {
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
    "readings": "| searches for which texts are read at a time; waiting | {};",
    "waiting_readings": "; {} | 503 with `Retry-After` |",
    "jobs": "| jobs at a time; waiting to write to an index; kept after their end | {};",
    "waiting_jobs": "kept after their end | 2; {};",
    "kept_jobs": "; {} | 429 with `Retry-After` |",
    "grace_seconds": "those under way have {} s",
}


def test_the_page_has_every_limit():
    limits, page = ServerLimits(), " ".join(PAGE.split("\n"))
    assert set(ROWS) == {one.name for one in fields(limits)}
    for name, row in ROWS.items():
        value = getattr(limits, name)
        assert row.format(value / 1e6 if name == "body_bytes" else value) in page
    assert f"| connections | {CONNECTIONS} | 503 |" in PAGE


pytest.importorskip("fastapi_swagger")

SCRIPT, STYLE = "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css"


def test_the_page_names_no_other_host_and_lets_nothing_else_run(serve):
    server = serve(tokens=TOKENS)
    found = server.get("/docs")
    assert found.headers["Content-Type"].startswith("text/html")
    assert all(server.get(path).headers["X-Content-Type-Options"] == "nosniff" for path in ("/v1/models", "/docs"))
    assert "//" not in re.sub(r"<!.*?>", "", found.text)
    assert set(re.findall(r'(?:src|href)="([^"]*)"', found.text)) == {SCRIPT[1:], STYLE[1:], "data:,"}
    policy = dict(one.split(" ", 1) for one in found.headers["Content-Security-Policy"].split("; "))
    assert (policy["default-src"], policy["connect-src"], policy["frame-ancestors"]) == ("'none'", "'self'", "'none'")
    (inline,) = re.findall(r"<script>(.*?)</script>", found.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    assert policy["script-src"] == f"'self' 'sha256-{digest}'"


def test_the_parts_of_the_page_are_there_without_a_token_and_nothing_else_is(serve):
    server = serve(tokens=TOKENS)
    assert "SwaggerUIBundle" in server.get(SCRIPT).text
    assert server.get(STYLE).headers["Content-Type"].startswith("text/css")
    assert refused(server.get("/docs/oauth2-redirect"), 401, "unauthorized")
    for name in ("..%2fmain.py", "%2e%2e%2f__init__.py"):
        assert server.get(f"/docs/{name}", token=READER).status_code == 404


def bodies(page):
    """The examples of every body that an endpoint takes, by its method and path."""
    for path, operations in page["paths"].items():
        for method, one in operations.items():
            if "requestBody" in one:
                content = one["requestBody"]["content"]["application/json"]
                given = content.get("examples") or content["schema"]["examples"]
                yield method, path, [one["value"] for one in given.values()] if isinstance(given, dict) else given


def test_every_endpoint_has_words_and_refuses_fields_it_does_not_know(serve):
    page = serve().get("/openapi.json").json()
    operations = [one for path in page["paths"].values() for one in path.values()]
    assert len(operations) == 22
    assert all(one["summary"] and one["description"] for one in operations)
    schemas = [one for one in page["components"]["schemas"].values() if one["title"].endswith(("Body", "Request"))]
    assert len(schemas) == 8
    assert all(one["additionalProperties"] is False for one in schemas)


def test_every_example_of_the_page_is_taken(serve, make, indexes, encoder):
    make()
    with Index(indexes / "reviews", encoder=encoder) as index:
        index.add([Document("r-001", "a lid"), Document("r-002", "a mug")])
        index.clusterings.save("wishes", index.cluster(PRODUCT, into=["kettle", "toy"]))
    server = serve(tokens=TOKENS)
    tried = 0
    for method, path, examples in bodies(server.get("/openapi.json").json()):
        assert examples
        for value in examples:
            place = path.replace("{name}", "reviews").replace("{clustering}", "wishes")
            headers = {"Authorization": f"Bearer {WRITER}"}
            response = server.http.request(method, place, json=value, headers=headers, params={"wait": 60})
            assert response.status_code == 200, (path, value, response.text)
            tried += 1
    assert tried == 11


def optional_fields(page, schema):
    """The fields of a body that can be left out, with their schemas."""
    found = page["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return {name: field for name, field in found["properties"].items() if name not in found.get("required", ())}


def test_null_is_the_default_of_every_field_that_can_be_left_out(serve, make, indexes, encoder):
    make()
    with Index(indexes / "reviews", encoder=encoder) as index:
        index.add([Document("r-001", "a lid"), Document("r-002", "a mug")])
        index.clusterings.save("wishes", index.cluster(PRODUCT, into=["kettle", "toy"]))
    server = serve(tokens=TOKENS)
    page = server.get("/openapi.json").json()
    tried = 0
    for method, path, examples in bodies(page):
        content = page["paths"][path][method]["requestBody"]["content"]["application/json"]
        fields = optional_fields(page, content["schema"])
        assert all({"type": "null"} in field["anyOf"] for field in fields.values()), path
        place = path.replace("{name}", "reviews").replace("{clustering}", "wishes")
        headers = {"Authorization": f"Bearer {WRITER}"}
        for value in examples[:1]:
            sent = {**dict.fromkeys(fields), **value}
            response = server.http.request(method, place, json=sent, headers=headers, params={"wait": 60})
            assert response.status_code == 200, (path, sent, response.text)
            tried += len(fields)
    assert tried > 30


def test_null_in_a_part_of_a_body_is_its_default_and_of_a_field_that_is_needed_is_refused(serve, make):
    make()
    server = serve(tokens=Tokens(writer=WRITER))
    headers = {"Authorization": f"Bearer {WRITER}"}

    def post(path, body):
        return server.http.post(f"/indexes/reviews/{path}", json=body, headers=headers, params={"wait": 60})

    into = [{"name": "kettle", "description": None, "examples": None}, "toy"]
    assert post("cluster", {"instruction": PRODUCT, "into": into}).status_code == 200
    added = post("documents", {"documents": [{"id": "n", "text": "a lid", "metadata": None}]})
    assert added.json()["result"]["added"] == 1
    assert refused(post("documents", {"documents": [{"id": "n", "text": None}]}), 400, "invalid_request", "text")
    assert refused(post("search", {"query": "lid", "limit": None}), 400, "invalid_request", "Unknown field 'limit'")


@pytest.mark.browser
def test_a_browser_shows_every_endpoint_and_reaches_nothing_else(serve, browser):
    server = serve(instructions={"mood": MOOD})
    page = browser.new_page()
    asked, said = [], []
    page.on("request", lambda one: asked.append(urlsplit(one.url).netloc))
    page.on("console", lambda one: said.append(one.text))
    page.on("pageerror", lambda one: said.append(str(one)))
    page.goto(f"{server.url}/docs")
    page.wait_for_selector(".opblock", timeout=180_000)
    page.locator(".opblock").nth(21).wait_for()
    assert page.locator(".opblock").count() == 22
    page.locator("#operations-Server-health_health_get").click()
    page.locator(".btn.execute").click()
    page.wait_for_selector(".live-responses-table .response-col_status", timeout=180_000)
    assert '"ok"' in page.locator(".live-responses-table").inner_text()
    assert set(asked) <= {urlsplit(server.url).netloc, ""}
    assert said == []
