import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from api_fakes import WAIT, refused
from index_fakes import FAULT, MOOD, PRODUCT

from retriever.workspace import Index


@pytest.fixture
def server(make, serve):
    make()
    return serve()


def ids(response):
    assert response.status_code == 200, response.text
    return [one["id"] for one in response.json()["hits"]]


def events(response):
    """Names and contents of the events of a stream."""
    blocks = [block.split("\n") for block in response.text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def test_the_indexes_are_named_and_described(server, make):
    make("other", ["a lamp"])
    assert server.get("/indexes").json() == {"indexes": ["other", "reviews"]}
    status = server.get("/indexes/reviews").json()
    assert (status["path"], status["documents"], status["texts"]) == ("reviews", 5, 5)
    assert [view["instruction"] for view in status["views"]] == ["", PRODUCT]
    assert status["fields"] == {"half": "numbers", "stars": "numbers"}
    assert refused(server.get("/indexes/gone"), 404, "index_not_found", "no index 'gone' here", "GET /indexes")


def test_a_search_answers_as_the_command_line_does(server, indexes, encoder):
    body = {"query": "kettle", "instruction": PRODUCT, "k": 2, "mode": "dense", "where": "stars <= 3"}
    found = server.post("/indexes/reviews/search", body)
    assert ids(found) == ["r1", "r2"]  # r3 has four stars
    with Index(indexes / "reviews", encoder=encoder) as index:
        expected = index.search("kettle", instruction=PRODUCT, k=2, mode="dense", where="stars <= 3").to_json()
    document = found.json()
    del document["took_ms"], expected["took_ms"]
    assert document == {**expected, "next": None}
    assert ids(server.post("/indexes/reviews/search", {"query": "leaks", "mode": "lexical"})) == ["r3"]


def test_the_first_event_comes_before_the_second_is_worked_out(server, encoder):
    body = {"query": "calm", "instruction": FAULT, "stream": True, "mode": "dense"}
    read = encoder._read

    def held(texts, instructions):
        encoder.go.clear()
        assert encoder.go.wait(WAIT)
        read(texts, instructions)

    encoder._read = held
    with httpx.stream("POST", f"{server.url}/indexes/reviews/search", json=body, timeout=WAIT) as response:
        lines = response.iter_lines()
        assert next(lines) == "event: first"
        next(lines), next(lines)
        encoder._read = read
        encoder.go.set()
        assert next(lines) == "event: settled"


def test_what_fails_before_the_first_event_is_an_error_and_later_an_event(server, encoder, caplog):
    stream = {"query": "calm", "stream": True}
    assert refused(server.post("/indexes/gone/search", stream), 404, "index_not_found")
    assert refused(server.post("/indexes/reviews/search", {**stream, "where": "stars <"}), 400, "invalid_request")
    encoder._fail_at = len(encoder.passes) + 1
    found = events(server.post("/indexes/reviews/search", {**stream, "instruction": MOOD, "mode": "dense"}))
    assert [name for name, _ in found] == ["first", "error"]
    assert found[1][1]["error"]["code"] == "unexpected"
    assert "fell over" not in str(found)
    assert "the encoder fell over" in caplog.text  # and the log says where
    assert server.lives()


def test_what_resembles_a_document_is_found_without_it(server):
    found = server.post("/indexes/reviews/search", {"like": "r1", "instruction": PRODUCT, "k": 1})
    assert ids(found) == ["r3"]
    assert refused(server.post("/indexes/reviews/search", {"like": "r9"}), 400, "invalid_request", "'r9'")


def test_hits_are_compared_under_two_instructions(server):
    found = server.post("/indexes/reviews/compare", {"query": "toy hate", "instructions": [PRODUCT, MOOD], "k": 2})
    assert found.status_code == 200, found.text
    assert found.json()["instructions"] == [PRODUCT, MOOD]
    ranks = {one["id"]: one["ranks"] for one in found.json()["documents"]}
    assert ranks["r2"][1] == 1


def test_documents_are_fetched_in_the_order_asked_for(server):
    found = server.get("/indexes/reviews/documents", params={"id": ["r2", "no", "r1"]}).json()
    assert [one["id"] for one in found["documents"]] == ["r2", "r1"]
    assert found["documents"][1] == {"id": "r1", "text": "a kettle I love", "metadata": {"stars": 2, "half": 1}}
    assert found["missing"] == ["no"]
    assert refused(server.get("/indexes/reviews/documents"), 400, "invalid_request", "'id' is missing")


SENSELESS = [
    ({}, ["nothing to search for"]),
    ({"query": " "}, ["A query is empty"]),
    ({"query": "x", "k": 0}, ["k", "greater than or equal to 1"]),
    ({"query": "x", "k": 51}, ["k is 51", "50"]),
    ({"query": "x", "k": "5"}, ["k", "integer"]),
    ({"query": "x", "mode": "fast"}, ["mode"]),
    ({"query": "x", "where": "colour = 'red'"}, ["colour"]),
    ({"query": "x", "filter": "stars = 1"}, ["Unknown field 'filter'"]),
    ({"query": "x" * 101}, ["query has 101 characters"]),
    ({"query": "x", "instruction": "y" * 51}, ["instruction has 51 characters"]),
]


def test_a_search_that_makes_no_sense_is_said(make, serve):
    make()
    server = serve(hits=50, text_characters=100, instruction_characters=50)
    for body, parts in SENSELESS:
        assert refused(server.post("/indexes/reviews/search", body), 400, "invalid_request", *parts)


def test_an_index_that_is_deleted_or_replaced_is_said_or_read(server, make, indexes):
    body = {"query": "lamp", "mode": "dense", "instruction": PRODUCT, "k": 1}
    assert ids(server.post("/indexes/reviews/search", body)) == ["r4"]
    while (indexes / "reviews").exists():  # the search before may still write its use
        shutil.rmtree(indexes / "reviews", ignore_errors=True)
    assert refused(server.post("/indexes/reviews/search", body), 404, "index_not_found")
    make("reviews", ["a toy", "a lamp"])
    assert ids(server.post("/indexes/reviews/search", body)) == ["r2"]
    (indexes / "reviews" / "corpus.sqlite3").write_bytes(b"no database" * 1000)
    damaged = server.post("/indexes/reviews/search", body)
    assert refused(damaged, 500, "index_damaged")
    make("other", ["a lamp"])
    assert ids(server.post("/indexes/other/search", body)) == ["r1"]


def test_too_many_requests_at_once_are_told_to_come_again(make, serve, encoder):
    make()
    server = serve(threads=1, waiting_requests=1)
    body = {"query": "kettle", "instruction": PRODUCT, "mode": "dense"}
    server.post("/indexes/reviews/search", body)
    encoder.go.clear()
    encoder.began.clear()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(server.post, "/indexes/reviews/search", body)
        assert encoder.began.wait(WAIT)
        second = threads.submit(server.post, "/indexes/reviews/search", body)
        while server.service.workers._pending < 2:
            assert not second.done()
        assert refused(server.post("/indexes/reviews/search", body), 429, "busy", "2 requests")
        encoder.go.set()
        assert first.result().status_code == second.result().status_code == 200


def test_a_search_in_two_phases_comes_as_two_events(server):
    body = {"query": "calm love", "instruction": MOOD, "stream": True, "mode": "dense", "k": 3}
    response = server.post("/indexes/reviews/search", body)
    assert response.headers["Content-Type"].startswith("text/event-stream")
    assert (response.headers["Cache-Control"], response.headers["X-Accel-Buffering"]) == ("no-store", "no")
    (first, early), (settled, final) = events(response)
    assert (first, settled) == ("first", "settled")
    assert (early["path"], final["path"]) == ("base", "complete")
    assert final["hits"][0]["id"] == "r1"
    (only,) = events(server.post("/indexes/reviews/search", body))
    assert only[0] == "settled"
    assert [hit["id"] for hit in only[1]["hits"]] == [hit["id"] for hit in final["hits"]]
