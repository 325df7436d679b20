"""What goes wrong around a server: each is a clear answer that names no file, the server lives, and no data is lost."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from api_fakes import WRITER, refused
from index_fakes import MOOD
from test_api_mcp import asked

from retriever.api.http.run import listening
from retriever.api.problems import without_places
from retriever.core.errors import IndexDamagedError, UsageError
from retriever.index.upkeep.verify import verify
from retriever.workspace import Index

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
    indexing = command("index", "corpus.jsonl", "--index", "indexes/reviews", "--plain", "none")
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
        assert set(index.documents(["first", "n0", "n1", "n2"])) == {"first", "n0", "n1", "n2"}


FOLDER = Path("/srv/my data/indexes")


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("/srv/my data/indexes/old reviews/corpus.sqlite3 is damaged: row 3.", "old reviews is damaged: row 3."),
        ("/srv/my data/indexes/reviews/views/3/ab-1.faiss is not there.", "reviews is not there."),
        ("There is no index at /srv/my data/indexes/reviews.", "There is no index at reviews."),
        ("Process 3 is writing to /srv/my data/indexes/model: index.", "Process 3 is writing to model: index."),
        ("Made by /home/me/models/reviews, which is gone.", "Made by reviews, which is gone."),
        (
            "[Errno 13] Permission denied: '/srv/my data/indexes/reviews/writer.lock'",
            "[Errno 13] Permission denied: 'reviews'",
        ),
        ("GET /v1/models and /indexes/reviews tell.", "GET /v1/models and /indexes/reviews tell."),
        ("http://there:6333/path/to does not answer.", "http://there:6333/path/to does not answer."),
    ],
)
def test_what_becomes_of_paths(message, told):
    assert without_places(message, FOLDER) == told


def test_what_a_client_said_is_told_as_it_was_said(make, serve):
    make()
    server = serve()
    missing = server.post("/indexes/reviews/search", {"like": "/2024/views/3.txt"})
    assert refused(missing, 400, "invalid_request", "'/2024/views/3.txt'")
    assert "'/2024/views/3.txt'" in asked(server, "fetch", id="/2024/views/3.txt").content[0].text


def test_no_error_of_a_server_tells_where_its_files_lie(make, serve, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make()
    server = serve(index=Path("indexes"))
    damaged = Path("indexes/reviews/corpus.sqlite3")
    damaged.write_bytes(b"no database" * 1000)
    search = {"query": "lamp", "mode": "dense", "instruction": MOOD}
    answers = [
        server.post("/indexes/reviews/search", search),
        server.get("/indexes/reviews"),
        server.post("/indexes/reviews/cluster?wait=30", {"instruction": MOOD}),
    ]
    assert all(refused(one, 500, "index_damaged", "reviews is damaged") for one in answers)
    broken = IndexDamagedError(f"{damaged.absolute()} is damaged.")
    monkeypatch.setattr(Index, "cluster", lambda *_, **options: (_ for _ in ()).throw(broken))
    make("whole")
    begun = server.post("/indexes/whole/cluster", {"instruction": MOOD}).json()
    later = server.get(f"/jobs/{begun['id']}?wait=30").json()["error"]["message"]
    agent = asked(server, "search", index="reviews", query="lamp").content[0].text
    for told in (*(one.text for one in answers), later, agent):
        assert "reviews is damaged" in told
        assert "sqlite3" not in told
        assert str(tmp_path) not in told
        assert "indexes/" not in told
