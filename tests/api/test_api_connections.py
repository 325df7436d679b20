"""Clients that go away, or take their time: nobody is worked for who does not listen, and nothing is held for good."""

import json
import socket
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from api_fakes import WAIT, refused
from index_fakes import MOOD
from waiting import until

EMBED = "/v1/embeddings"


def connected(server):
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=WAIT)


def request(body, length=None, path=EMBED):
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return (head + f"Content-Length: {len(body) if length is None else length}\r\n\r\n").encode() + body


def is_held(server, client):
    """Whether a server, a thread of this process, holds a connection, by the ports of both."""
    rows = [line.split()[1:4] for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    ports = [(int(local.split(":")[1], 16), int(remote.split(":")[1], 16), state) for local, remote, state in rows]
    return (server, client, "01") in ports  # 01: established


@pytest.fixture
def held(encoder):
    """An encoder that reads nothing until it is let go; give what lets others see that it has begun."""

    def hold(server):
        server.post(EMBED, {"input": "loaded"})
        encoder.forget()
        encoder.go.clear()
        encoder.began.clear()

    return hold


def test_what_a_client_that_left_asked_for_is_not_read(serve, encoder, held):
    server = serve()
    held(server)
    with connected(server) as first, connected(server) as gone, connected(server) as stays:
        first.sendall(request(b'{"input": "first"}'))
        assert encoder.began.wait(WAIT)
        gone.sendall(request(json.dumps({"input": ["gone"] * 50}).encode()))
        stays.sendall(request(b'{"input": "stays"}'))
        until(lambda: server.service.queue.waiting == 52)
        gone.close()
        until(lambda: server.service.queue.waiting == 2)
        encoder.go.set()
        assert stays.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert encoder.queries == ["first", "stays"]


def test_a_stream_whose_client_left_is_ended(make, serve, encoder):
    make()
    server = serve()
    read = encoder._read

    def slow(texts, instructions):
        encoder.began.set()
        assert encoder.go.wait(WAIT)
        read(texts, instructions)

    encoder._read = slow
    body = {"query": "calm", "instruction": MOOD, "stream": True, "mode": "dense"}
    with httpx.stream("POST", f"{server.url}/indexes/reviews/search", json=body, timeout=WAIT) as response:
        assert next(response.iter_lines()) == "event: first"
        encoder.go.clear()
    encoder.go.set()
    until(lambda: server.service.workers._pending == 0)
    assert server.post("/indexes/reviews/search", {"query": "kettle"}).status_code == 200


def test_who_does_not_finish_asking_is_cut_off_while_others_are_answered(serve):
    server = serve(body_seconds=0.8)
    with connected(server) as silent, connected(server) as half, connected(server) as slow:
        half.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: loc")
        slow.sendall(request(b'{"input"', length=90))
        assert server.post(EMBED, {"input": "a"}).status_code == 200
        assert (silent.recv(1000), half.recv(1000)) == (b"", b"")
        assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")
    assert server.lives()


def test_a_second_request_that_is_not_finished_is_cut_off_and_a_slow_answer_is_not(serve, encoder, held):
    server = serve(body_seconds=0.8)
    held(server)
    with connected(server) as one:
        one.sendall(request(b'{"input": "a"}'))
        assert encoder.began.wait(WAIT)
        time.sleep(1)  # longer than a request may take to come
        encoder.go.set()
        answer = one.recv(100_000)
        assert answer.startswith(b"HTTP/1.1 200 ")
        one.sendall(b"GET /health HTTP/1.1\r\n")
        rest = one.recv(100_000)
        assert b"HTTP/1.1" not in rest
        while rest:
            rest = one.recv(100_000)


def test_who_does_not_listen_is_cut_off(serve):
    server = serve(body_seconds=0.5)
    body = json.dumps({"input": ["kettle"] * 2000}).encode()
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.settimeout(WAIT)
        host, port = server.url.removeprefix("http://").split(":")
        deaf.connect((host, int(port)))
        ports = int(port), deaf.getsockname()[1]
        until(lambda: is_held(*ports))
        with suppress(ConnectionError):  # cut off already
            for _ in range(30):  # more than the system holds for a connection
                deaf.sendall(request(body))
        until(lambda: not is_held(*ports))
        heard = b""
        with suppress(ConnectionError):
            while part := deaf.recv(65_536):
                heard += part
    assert heard.count(b"HTTP/1.1 200 ") < 30
    assert server.lives()


def test_all_bodies_together_are_bounded(serve, encoder, held):
    server = serve(body_bytes=2000)  # so 32,000 for all
    held(server)
    body = json.dumps({"input": "x" * 1900}).encode()
    senders = [connected(server) for _ in range(16)]
    for one in senders:
        one.sendall(request(body))
    until(lambda: server.service.queue.waiting == 16)
    assert refused(server.post(EMBED, {"input": "x" * 1950}), 429, "busy", "too many large requests")
    assert server.lives()
    encoder.go.set()
    for one in senders:
        assert one.recv(100_000).startswith(b"HTTP/1.1 200 ")
        one.close()
    assert server.post(EMBED, {"input": "x" * 1950}).status_code == 200
