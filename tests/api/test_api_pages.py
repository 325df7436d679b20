"""The page of the server: everything on it comes from the server, and it says what the endpoints take."""

import base64
import hashlib
import re
from urllib.parse import urlsplit

import pytest
from api_fakes import READER, TOKENS, WRITER, refused
from index_fakes import MOOD, PRODUCT

from retriever.workspace import Index

swagger = pytest.importorskip("fastapi_swagger")

SCRIPT, STYLE = "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css"


def test_the_page_names_no_other_host_and_lets_nothing_else_run(serve):
    server = serve(tokens=TOKENS)
    found = server.get("/docs")
    assert found.headers["Content-Type"].startswith("text/html")
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
    for name in ("__init__.py", "..%2fmain.py", "%2e%2e%2f__init__.py"):
        assert server.get(f"/docs/{name}", token=READER).status_code == 404


def test_answers_are_not_guessed_to_be_pages(serve):
    server = serve(tokens=TOKENS)
    for response in (server.get("/health"), server.get("/v1/models"), server.get("/docs")):
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def bodies(page):
    """The examples of every body that an endpoint takes, by its path."""
    for path, operations in page["paths"].items():
        for one in operations.values():
            if "requestBody" in one:
                content = one["requestBody"]["content"]["application/json"]
                given = content.get("examples") or content["schema"]["examples"]
                yield path, [one["value"] for one in given.values()] if isinstance(given, dict) else given


def test_every_endpoint_has_words_and_refuses_fields_it_does_not_know(serve):
    page = serve().get("/openapi.json").json()
    operations = [one for path in page["paths"].values() for one in path.values()]
    assert len(operations) == 21
    assert all(one["summary"] and one["description"] for one in operations)
    schemas = [one for one in page["components"]["schemas"].values() if one["title"].endswith(("Body", "Request"))]
    assert len(schemas) == 9
    assert all(one["additionalProperties"] is False for one in schemas)


def test_every_example_of_the_page_is_taken(serve, make, indexes, encoder):
    make()
    with Index(indexes / "reviews", encoder=encoder) as index:
        index.save_classification("wishes", index.classify(PRODUCT, ["kettle", "toy"]))
    server = serve(tokens=TOKENS)
    tried = 0
    for path, examples in bodies(server.get("/openapi.json").json()):
        assert examples
        for value in examples:
            given = {**value, "id": "r1"} if path.endswith("/like") else value
            response = server.post(
                path.replace("{name}", "reviews").replace("{clustering}", "wishes"),
                given,
                token=WRITER,
                params={"wait": 60},
            )
            assert response.status_code == 200, (path, given, response.text)
            tried += 1
    assert tried == 12


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
    page.locator(".opblock").nth(20).wait_for()
    assert page.locator(".opblock").count() == 21
    page.locator("#operations-Server-health_health_get").click()
    page.locator(".btn.execute").click()
    page.wait_for_selector(".live-responses-table .response-col_status", timeout=180_000)
    assert '"ok"' in page.locator(".live-responses-table").inner_text()
    assert set(asked) <= {urlsplit(server.url).netloc, ""}
    assert said == []
