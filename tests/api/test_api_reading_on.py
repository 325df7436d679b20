"""Reading on while nobody waits: what starts, stops and shows it, over HTTP and for agents."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from api_fakes import WAIT, WRITER
from index_fakes import FAULT, MOOD, PRODUCT
from test_api_connections import until
from test_api_mcp import answer

from retriever.api.settings import Tokens
from retriever.core.types import Document
from retriever.workspace import Index

TEXTS = [f"a {product} I {mood}" for product in ("kettle", "toy", "lamp") for mood in ("love", "hate", "calm")]


@pytest.fixture
def index(indexes, encoder, plain, monkeypatch):
    """An index of nine texts, of which two are read under a question; nobody waits as soon as an answer is given."""
    monkeypatch.setattr("retriever.serving.foreground.PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("retriever.serving.reading_on.LOOK_SECONDS", 0.01)
    monkeypatch.setattr("retriever.serving.reading_on.IDLE_SECONDS", 0.05)
    with Index(indexes / "reviews", encoder=encoder, plain=plain) as made:
        made.add(Document(f"r{row}", text) for row, text in enumerate(TEXTS))
        made.upkeep.complete([MOOD], ids=["r0", "r1"])
    encoder.forget()
    encoder.began.clear()
    plain.began.clear()
    return indexes / "reviews"


def status(server):
    return server.get("/indexes/reviews").json()["reading_on"]


def test_a_server_reads_on_and_says_so(index, serve, encoder):
    encoder.go.clear()
    server = serve(read_on=30)
    assert encoder.began.wait(WAIT)
    waiting = {"minutes_left": 30.0, "questions": [{"instruction": MOOD, "read": 2, "texts": 9}]}
    assert status(server) == waiting
    assert answer(server, "describe")["reading_on"] == waiting
    encoder.go.set()
    until(lambda: not status(server)["questions"])
    assert sorted(text for text, _ in encoder.read) == sorted(TEXTS[2:])
    found = server.post("/indexes/reviews/search", {"query": "calm", "instruction": MOOD}).json()
    assert (found["path"], found["hits"][0]["text"]) == ("complete", "a kettle I calm")


def test_a_server_that_reads_nothing_on_says_that(index, serve, encoder):
    server = serve()
    assert status(server) is None
    assert answer(server, "describe")["reading_on"] is None
    assert not encoder.began.is_set()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "a toy", "instruction": MOOD}),
        ("/indexes/reviews/search?wait=0", {"query": "calm", "instruction": FAULT}),
        ("/indexes/reviews/cluster", {"instruction": PRODUCT, "k": 2}),
        ("/indexes/reviews/documents", {"documents": [{"id": "new", "text": "a rug"}]}),
    ],
)
def test_nothing_is_read_on_while_something_is_asked(index, serve, encoder, plain, path, body):
    server = serve(tokens=Tokens(writer=WRITER))  # its reader is not begun: each look of it is taken here
    quiet = server.service._rests
    assert quiet()
    encoder.go.clear()
    plain.go.clear()
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(server.post, path, body, token=WRITER)
        until(lambda: encoder.began.is_set() or plain.began.is_set())
        busy = not quiet()
        encoder.go.set()
        plain.go.set()
        asked.result(WAIT)
    assert busy
    until(quiet)


def test_nothing_is_read_on_while_texts_are_read_for_a_search_that_was_answered_first(index, serve, encoder):
    server = serve()
    encoder.go.clear()
    answered = server.post("/indexes/reviews/search?wait=0", {"query": "calm", "instruction": FAULT}).json()
    assert answered["next"]
    until(lambda: server.service.foreground.rests)
    busy = not server.service._rests()
    encoder.go.set()
    assert busy
    until(server.service._rests)
