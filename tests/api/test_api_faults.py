"""Faults around a server: each is a clear answer, the server lives, and no data is lost."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from api_fakes import WAIT, WRITER, refused
from test_api_mcp import asked

from retriever.core.addresses import listening
from retriever.core.errors import UsageError
from retriever.index.upkeep.verify import verify

ROOT = Path(__file__).parents[2]
EMBED = "/v1/embeddings"
SERVE = """
import sys, time
sys.path[:0] = [{tests!r}, {cli!r}]
from cli_fakes import KeywordEncoder
from retriever.encoders import catalog
class Slow(KeywordEncoder):
    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        time.sleep(0.05 * bool(words))
        if on_tokens:
            on_tokens(len(texts))
        return super().encode_views(texts, instructions, words=words, on_tokens=on_tokens)
catalog.load_encoder = lambda name="default", **options: Slow("keywords")
from retriever.cli.main import run
sys.argv[1:] = {argv!r}
run()
"""


@pytest.fixture
def command(tmp_path):
    """Start `retriever` in a process of its own, with a slow encoder that a person can compute."""
    processes = []

    def start(*argv):
        code = SERVE.format(tests=str(ROOT / "tests/index"), cli=str(ROOT / "tests/cli"), argv=list(map(str, argv)))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "RETRIEVER_WRITER_TOKEN": WRITER}
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
        )
        processes.append(process)
        return process

    yield start
    for one in processes:
        one.kill()
        one.wait()


@pytest.fixture
def started(command, tmp_path):
    """Serve an index of one document in a process of its own; give it and its address."""
    (tmp_path / "corpus.jsonl").write_text('{"id": "first", "text": "The kettle broke."}\n')
    indexing = command("index", "corpus.jsonl", "--index", "indexes/reviews", "--base", "none")
    assert indexing.wait(120) == 0, indexing.stderr.read()
    process = command("serve", "--indexes", "indexes", "--port", "0")
    line = process.stderr.readline()
    assert line.startswith("Serving at http://127.0.0.1:"), line + process.stderr.read()
    return process, line.split()[2].rstrip(",")


def test_a_gigabyte_is_refused_in_bounded_memory(serve):
    psutil = pytest.importorskip("psutil")
    server, piece = serve(), b"x" * 1_000_000
    before = psutil.Process().memory_info().rss
    pieces = (piece for _ in range(1000))
    response = server.http.post(
        EMBED, content=pieces, headers={"Content-Type": "application/json", "Content-Length": "1000000000"}
    )
    assert refused(response, 413, "body_too_large", "16000000 bytes")
    assert psutil.Process().memory_info().rss - before < 200_000_000
    assert server.lives()


def test_answers_are_sent_at_once():
    with listening("127.0.0.1", 0) as place, socket.create_connection(place.getsockname(), WAIT):
        accepted, _ = place.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_second_server_at_a_port_is_told_so():
    with listening("127.0.0.1", 0) as place:
        with pytest.raises(UsageError, match="Another program listens at port"):
            listening("127.0.0.1", place.getsockname()[1])
    with pytest.raises(UsageError, match=r"cannot listen at 203\.0\.113\.7"):
        listening("203.0.113.7", 0)


def test_a_signal_in_the_middle_of_a_job_keeps_what_was_stored(started, tmp_path):
    process, url = started
    documents = [{"id": f"n{row}", "text": f"The toy number {row} broke."} for row in range(900)]
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {WRITER}"}, timeout=120) as http:
        done = http.post("/indexes/reviews/documents", json={"documents": documents[:3]}, params={"wait": 60})
        assert done.json()["status"] == "done", done.text
        job = http.post("/indexes/reviews/documents", json={"documents": documents[3:]})
        assert job.status_code == 202
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
    assert process.wait(180) == 0, process.stderr.read()
    assert process.stderr.read().endswith("Stopped.\n")
    assert verify(tmp_path / "indexes/reviews").whole
    from retriever import open_index

    with open_index(tmp_path / "indexes/reviews") as index:
        assert set(index.get(["first", "n0", "n1", "n2"])) == {"first", "n0", "n1", "n2"}


def test_what_a_client_said_is_told_as_it_was_said(make, serve):
    make()
    server = serve()
    missing = server.post("/indexes/reviews/search", {"like": "/2024/views/3.txt"})
    assert refused(missing, 400, "invalid_request", "'/2024/views/3.txt'")
    assert "'/2024/views/3.txt'" in asked(server, "fetch", id="/2024/views/3.txt").content[0].text
