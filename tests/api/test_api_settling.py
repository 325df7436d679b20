"""Searches under a question whose view lacks texts: first answers at once, one reading for all, and nothing lost."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from api_fakes import WAIT, refused
from index_fakes import FAULT, MOOD, PRODUCT
from test_api_connections import connected, request, until
from test_api_mcp import answer

from retriever.api.mcp import questions
from retriever.core.errors import EncoderError
from retriever.core.types import Document
from retriever.workspace import Index

SEARCH = "/indexes/reviews/search"
TEXTS = [f"a {product} I {mood}" for product in ("kettle", "toy", "lamp") for mood in ("love", "hate", "calm")]
CLIENTS = 20


@pytest.fixture
def index(indexes, encoder, plain):
    """An index of nine texts whose base view has a reader of its own; the questions' reader reads nothing yet."""
    with Index(indexes / "reviews", encoder=encoder, plain=plain) as made:
        made.add([Document(f"r{row}", text) for row, text in enumerate(TEXTS)], instructions=[PRODUCT])
    encoder.forget()
    encoder.go.clear()
    return indexes / "reviews"


def search(server, instruction, query="calm", wait=0):
    return server.post(SEARCH, {"query": query, "instruction": instruction, "k": 3}, params={"wait": wait})


def first(response):
    """A first answer, and where the settled one will be."""
    assert response.status_code == 200, response.text
    document = response.json()
    assert document["path"] == "base" and document["hits"]
    assert document["settling"] == {"round": 0, "read": 0, "changed": None, "settled": False}
    return document["next"]


def settled(server, path):
    """The settled answer of a reading that is waited for."""
    job = server.get(path, params={"wait": WAIT}).json()
    assert (job["status"], job["index"]) == ("done", "reviews"), job
    assert job["result"]["settling"]["settled"]
    return job["result"]


def test_equal_requests_get_first_hits_at_once_and_share_one_reading(index, serve, encoder):
    server = serve()
    with ThreadPoolExecutor(CLIENTS) as threads:
        answers = list(threads.map(lambda _: search(server, MOOD), range(CLIENTS)))
    (path,) = {first(each) for each in answers}
    assert len(server.service.readings.unfinished()) == 1
    assert server.get(path.partition("?")[0]).json()["status"] == "running"
    encoder.go.set()
    result = settled(server, path)
    assert result["hits"][0]["text"] == "a kettle I calm"
    assert sorted(encoder.read) == sorted((text, MOOD) for text in TEXTS)  # each once
    again = search(server, MOOD).json()
    assert (again["hits"], again["next"], again["path"]) == (result["hits"], None, "complete")
    assert len(encoder.read) == len(TEXTS)


def test_other_queries_under_a_question_are_read_for_one_after_the_other(index, serve, encoder):
    server = serve()
    paths = [first(search(server, MOOD, query)) for query in ("calm", "love", "hate")]
    assert len(set(paths)) == 3
    encoder.go.set()
    assert [settled(server, path)["query"] for path in paths] == ["calm", "love", "hate"]
    assert sorted(encoder.read) == sorted((text, MOOD) for text in TEXTS)


def test_who_waits_gets_the_settled_answer(index, serve, encoder):
    server = serve()
    with ThreadPoolExecutor(2) as threads:
        waits = [threads.submit(search, server, MOOD, wait=WAIT / 4) for _ in range(2)]
        until(lambda: server.service.readings.unfinished())
        encoder.go.set()
        documents = [each.result().json() for each in waits]
    assert {document["next"] for document in documents} == {None}
    assert documents[0]["hits"] == documents[1]["hits"]
    assert len(encoder.read) == len(TEXTS)


def test_beyond_what_may_wait_the_answer_says_when_to_ask_again_and_other_searches_go_on(index, serve, encoder):
    server = serve(readings=1, waiting_readings=1)
    paths = [first(search(server, question)) for question in (MOOD, FAULT)]
    refusal = search(server, "Who?")
    assert refused(refusal, 503, "overloaded", "2 searches wait", "Ask again")
    assert int(refusal.headers["Retry-After"]) > 0
    assert first(search(server, MOOD)) == paths[0]  # of one that is under way already
    assert server.post(SEARCH, {"query": "lamp"}).json()["next"] is None
    encoder.go.set()
    for path in paths:
        settled(server, path)
    assert search(server, "Who?", wait=WAIT / 4).json()["next"] is None


def test_the_reading_of_a_client_that_left_is_kept(index, serve, encoder):
    server = serve()
    body = json.dumps({"query": "calm", "instruction": MOOD, "k": 3}).encode()
    with connected(server) as gone:
        gone.sendall(request(body, path=f"{SEARCH}?wait=60"))
        until(lambda: server.service.readings.unfinished())
    encoder.go.set()
    until(lambda: not server.service.readings.unfinished())
    again = search(server, MOOD).json()
    assert (again["path"], again["next"]) == ("complete", None)
    assert len(encoder.read) == len(TEXTS)


def test_who_asks_again_is_told_once_what_a_reading_failed_of(index, serve, encoder, monkeypatch):
    def fail(*_):
        raise EncoderError("The model fell over.", hint="Start it anew.")

    monkeypatch.setattr(encoder, "_read", fail)
    server = serve()
    path = first(search(server, MOOD))
    encoder.go.set()
    assert server.get(path, params={"wait": WAIT}).json()["error"]["code"] == "model_unavailable"
    assert refused(search(server, MOOD), 503, "model_unavailable")
    monkeypatch.undo()
    assert search(server, MOOD, wait=WAIT / 4).json()["next"] is None


def test_a_comparison_waits_for_the_readings_of_its_searches(index, serve, encoder):
    encoder.go.set()
    server = serve()
    compared = server.post("/indexes/reviews/compare", {"query": "calm", "instructions": [MOOD, PRODUCT]})
    assert compared.json()["paths"] == ["complete", "complete"]


def test_a_comparison_that_takes_too_long_goes_on(index, serve, encoder):
    server = serve(seconds=0.3)
    body = {"query": "calm", "instructions": [MOOD, FAULT]}
    assert refused(server.post("/indexes/reviews/compare", body), 504, "took_too_long", "Reading goes on")
    encoder.go.set()
    until(lambda: not server.service.readings.unfinished())
    assert server.post("/indexes/reviews/compare", body).status_code == 200


def test_agents_get_first_hits_and_ask_again_for_the_settled_ones(index, serve, encoder, monkeypatch):
    monkeypatch.setattr(questions, "SEARCH_WAIT", 0.1)
    server = serve()
    early = answer(server, "search", query="calm", instruction=MOOD, k=3)
    assert (early["status"], early["path"], len(early["hits"])) == ("settling", "base", 3)
    assert "call search again with the same arguments" in early["next"]
    (reading,) = server.service.readings.unfinished()
    encoder.go.set()
    assert reading.wait(WAIT).status == "done"
    late = answer(server, "search", query="calm", instruction=MOOD, k=3)
    assert (late["status"], late["path"], late["hits"][0]["text"]) == ("done", "complete", "a kettle I calm")
    assert answer(server, "search", query="calm")["status"] == "done"
