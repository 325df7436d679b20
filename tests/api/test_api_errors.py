"""Errors as clients get them: of every kind, from every address and every tool, and never a word for the operator."""

import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import asdict

import anyio
import pytest
from api_fakes import READER, TOKENS, WAIT, WRITER
from fastapi.routing import iter_route_contexts
from index_fakes import MOOD, PRODUCT
from starlette.routing import Mount
from test_api_mcp import client_of

import retriever.api.problems
from retriever.api.problems import for_clients, problem_of
from retriever.core.errors import RetrieverError
from retriever.serving import lines
from retriever.serving.pools import IndexPool
from retriever.store.database import Store
from retriever.store.lock import LOCK_NAME, LockHolder, WriterLock
from retriever.workspace import Index

TOKEN_FILE = "/run/secrets/writer.token"
HOLDER = LockHolder(987654321, "host-of-the-server", f"retriever serve --writer-token-file {TOKEN_FILE}", "today")
KEEPER = "Whoever keeps the index can mend this."

ABOUT_REQUESTS = {
    *("UsageError", "FilterError", "ConsentError", "ReadingLimitError", "InputError", "BusyError", "OverloadedError"),
    *("UnauthorizedError", "ForbiddenError", "NotFoundError", "UnknownIndexError", "BodyError", "SlowBodyError"),
    *("TookTooLongError", "NotReadyError"),
}
"""The errors whose message is of what a client sent, or made for clients, and is given to it."""


def kinds(error=RetrieverError):
    """An error class and all below it."""
    return [error, *(kind for below in error.__subclasses__() for kind in kinds(below))]


OURS = {"retriever.core.errors", "retriever.api.problems"}


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind.__module__ in OURS])
def test_every_kind_of_error_keeps_the_words_for_the_operator_from_clients_and_logs_them(kind, caplog):
    words = f"Process 4242 holds {TOKEN_FILE}."
    problem = problem_of(kind(words, hint=f"Stop it: `retriever repair {TOKEN_FILE}`."))
    assert TOKEN_FILE not in problem.hint
    assert problem.hint
    assert (problem.message == words) == (kind.__name__ in ABOUT_REQUESTS)
    assert (words in caplog.text) == (kind.__name__ not in ABOUT_REQUESTS)
    if kind.__name__ not in ABOUT_REQUESTS:
        assert "4242" not in f"{problem.message} {problem.hint}"


def test_a_new_kind_of_error_is_told_as_the_one_above_it():
    class StuckError(retriever.api.problems.IndexLockedError):
        pass

    class OddError(RetrieverError):
        pass

    assert problem_of(StuckError(TOKEN_FILE)).code == "index_locked"
    assert problem_of(OddError(TOKEN_FILE)).code == "failed"
    assert TOKEN_FILE not in f"{problem_of(StuckError(TOKEN_FILE))}{problem_of(OddError(TOKEN_FILE))}"


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ('Say it: --instruction "What broke?"', 'Say it: `instruction` "What broke?"'),
        ("Loosen --where; `retriever status` shows what the index holds.", "Loosen `where`."),
        ("Run `retriever index CORPUS` first.", KEEPER),
        ("Give a query, like, or regex.", "Give a query, like, or regex."),
        ("", ""),
    ],
)
def test_hints_name_fields_and_no_commands(hint, shown):
    assert for_clients(hint) == shown


@pytest.fixture
def server(make, serve, indexes, encoder):
    folder = make()
    with Index(folder, encoder=encoder) as index:
        index.clusterings.save("wishes", index.cluster(PRODUCT, into=["kettle", "toy"]))
    return serve(tokens=TOKENS)


@contextmanager
def locked(server, folder):
    with WriterLock(folder / LOCK_NAME), pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "LOCK_SECONDS", 0)
        (folder / f"{LOCK_NAME}.json").write_text(json.dumps(asdict(HOLDER)))
        yield


@contextmanager
def damaged(server, folder):
    (folder / "corpus.sqlite3").write_bytes(b"no database" * 1000)
    yield


@contextmanager
def missing(server, folder):
    shutil.rmtree(folder)
    yield


@contextmanager
def emptied(server, folder):
    shutil.rmtree(folder)
    Store.open(folder / "corpus.sqlite3", create=True).close()
    yield


@contextmanager
def busy(server, folder):
    server.service.workers._pending += 1_000_000
    yield
    server.service.workers._pending -= 1_000_000


@contextmanager
def failing(server, folder):
    def get(self, name):
        raise RetrieverError(f"{folder} cannot be opened.", hint=f"Run `retriever repair --index {folder}`.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IndexPool, "get", get)
        yield


@contextmanager
def broken(server, folder):
    def get(self, name):
        raise OSError(5, "Input/output error", str(folder))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IndexPool, "get", get)
        yield


@contextmanager
def whole(server, folder):
    yield


def operations(server):
    """Method, address, parameters and body of a request to every route, of the examples on the server's own page."""
    page = server.get("/openapi.json").json()
    for path, methods in page["paths"].items():
        place = path.replace("{name}", "reviews").replace("{clustering}", "wishes")
        for method, one in methods.items():
            needed = [given for given in one.get("parameters", ()) if given["in"] == "query" and given["required"]]
            params = {given["name"]: given["schema"]["examples"][0] for given in needed}
            body = None
            if "requestBody" in one:
                content = one["requestBody"]["content"]["application/json"]
                given = content.get("examples") or content["schema"]["examples"]
                body = next(iter(given.values()))["value"] if isinstance(given, dict) else given[0]
            yield method, place, params, body


def answers(server, spoil=lambda body: body, token=WRITER):
    """The answers to a request to every route, those of the jobs that begin and of a stream among them."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def ask(method, place, params, body):
        return server.http.request(method, place, params=params, json=body, headers=headers)

    for method, place, params, body in operations(server):
        for wait in (0, WAIT):
            answer = ask(method, place, {**params, "wait": wait}, spoil(body))
            yield answer
            if answer.status_code == 202:
                yield ask("get", f"/jobs/{answer.json()['id']}", {"wait": WAIT}, None)
        if place.endswith("/search"):
            yield ask(method, place, params, spoil({**body, "instruction": MOOD, "stream": True}))


ARGUMENTS = {
    **{"index": "reviews", "instruction": MOOD, "query": "lamp", "first": PRODUCT, "second": MOOD},
    **{"id": "r1", "answers": {"r1": "the lid"}},
}


def tool_answers(server, arguments=ARGUMENTS):
    """The answer of every tool, and the address of a document, to an agent that may write."""

    async def ask():
        async with client_of(server, WRITER) as client:
            for tool in (await client.list_tools()).tools:
                known = {name: value for name, value in arguments.items() if name in tool.input_schema["properties"]}
                assert set(tool.input_schema.get("required", ())) <= set(known), tool.name
                result = await client.call_tool(tool.name, known)
                texts.append(str(result))
                failures.append(result.is_error)
            try:
                texts.append(str(await client.read_resource("retriever://reviews/documents/r1")))
            except Exception as error:
                texts.append(str(error))

    texts, failures = [], []
    anyio.run(ask)
    return texts, any(failures)


def check(text, folder):
    """Whether a text holds nothing of this machine: no path, process, host or command."""
    words = ("kill", TOKEN_FILE, "--", "sqlite3", LOCK_NAME, str(folder.parents[1]), str(HOLDER.pid), HOLDER.host)
    leaked = [word for word in words if word in text] + re.findall(r"\bretriever [a-z]+", text)
    assert not leaked, (leaked, text)


STATES = {
    locked: {"index_locked"},
    damaged: {"index_damaged"},
    missing: {"index_not_found"},
    emptied: {"invalid_request"},
    busy: {"busy"},
    failing: {"failed"},
    broken: {"unexpected"},
}


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_no_address_and_no_tool_tells_a_client_of_this_machine(server, indexes, state):
    folder = indexes / "reviews"
    with state(server, folder):
        found = [answer for answer in answers(server) if '"error"' in answer.text or "event: error" in answer.text]
        codes = set(re.findall(r'"code":\s?"(\w+)"', " ".join(answer.text for answer in found)))
        assert STATES[state] <= codes
        for answer in found:
            error = answer.json().get("error") if answer.headers["Content-Type"] == "application/json" else answer.text
            check(str(error), folder)
        texts, failed = tool_answers(server)
        assert failed
        for text in texts:
            check(text, folder)
    assert server.lives()


def without_a_field(body):
    return {"nonsense": TOKEN_FILE}


def with_a_bad_filter(body):
    return {**(body or {}), "where": "stars <"}


@pytest.mark.parametrize(
    ("spoil", "token", "code"),
    [
        (without_a_field, WRITER, "invalid_request"),
        (with_a_bad_filter, WRITER, "invalid_request"),
        (lambda body: [body], WRITER, "invalid_request"),
        (lambda body: body, "wrong", "unauthorized"),
        (lambda body: body, None, "unauthorized"),
        (lambda body: body, READER, "forbidden"),
    ],
    ids=["field", "filter", "body", "wrong token", "no token", "reader"],
)
def test_no_refusal_of_a_request_tells_a_client_of_this_machine(server, indexes, spoil, token, code):
    found = [answer for answer in answers(server, spoil, token) if answer.status_code >= 400]
    assert any(answer.json()["error"]["code"] == code for answer in found)
    for answer in found:
        check(answer.text.replace(TOKEN_FILE, ""), indexes / "reviews")  # that of a body, which is given back


def test_every_route_is_among_those_that_are_asked(server):
    paths = set(server.get("/openapi.json").json()["paths"])
    beside = {"/openapi.json", "/docs", "/mcp"}  # the page, and what the tools are asked by
    mounted = {route.path for route in server.app.routes if isinstance(route, Mount)}
    routes = {route.path.replace(":path}", "}") for route in iter_route_contexts(server.app.routes)}
    assert routes <= paths | beside | mounted
