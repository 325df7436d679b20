from pathlib import Path

import pytest
from api_fakes import refused
from index_fakes import MOOD
from test_api_mcp import asked

from retriever.api.places import without_places

FOLDER = Path("/srv/my data/indexes")


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("/srv/my data/indexes/old reviews/corpus.sqlite3 is damaged: row 3.", "old reviews is damaged: row 3."),
        ("/srv/my data/indexes/reviews/views/3/ab-1.faiss is not there.", "reviews is not there."),
        ("There is no index at /srv/my data/indexes/reviews.", "There is no index at reviews."),
        ("Process 3 is writing to /srv/my data/indexes/model: index.", "Process 3 is writing to model: index."),
        ("Shard 1 of /srv/my data/indexes/all/shard-0001/corpus.sqlite3.", "Shard 1 of all."),
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
    missing = server.post("/indexes/reviews/like", {"id": "/2024/views/3.txt"})
    assert refused(missing, 404, "not_found", "'/2024/views/3.txt'")
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
    begun = server.post("/indexes/reviews/cluster", {"instruction": MOOD}).json()
    later = server.get(f"/jobs/{begun['id']}?wait=30").json()["error"]["message"]
    agent = asked(server, "search", query="lamp").content[0].text
    for told in (*(one.text for one in answers), later, agent):
        assert "reviews is damaged" in told
        assert "sqlite3" not in told
        assert str(tmp_path) not in told
        assert "indexes/" not in told
