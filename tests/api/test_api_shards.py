"""A server of shards: in this process here, where one that is started has them in Ray actors."""

import pytest
from api_fakes import TOKENS, WRITER, refused
from index_fakes import MOOD, PRODUCT

from retriever.serving import shards
from retriever.shards.splitting import shard_index
from retriever.shards.transport import InProcess


@pytest.fixture
def server(make, serve, tmp_path, monkeypatch):
    def in_process(folders, *, address):
        assert address == "local"
        return InProcess(folders)

    monkeypatch.setattr(shards, "RayShards", in_process)
    shard_index(make(), 2, tmp_path / "split")
    return serve(index=tmp_path / "split", ray="local", tokens=TOKENS)


def test_shards_are_served_as_one_index(server, make, serve, tmp_path):
    assert server.get("/indexes", token=WRITER).json() == {"indexes": ["split"]}
    assert server.get("/indexes/split", token=WRITER).json()["documents"] == 5
    plain = serve()
    instructed, filtered = {"query": "calm love", "instruction": MOOD}, {"query": "toy", "where": "stars > 2"}
    for body in ({"query": "kettle"}, instructed, filtered):
        one = plain.post("/indexes/reviews/search", body).json()
        other = server.post("/indexes/split/search", body, token=WRITER).json()
        assert other["hits"] == one["hits"]
        assert "seen" not in other
    found = server.post("/indexes/split/like", {"id": "r1"}, token=WRITER)
    assert found.json()["hits"][0]["id"] == "r3"


def test_a_partial_answer_says_so(server, monkeypatch):
    transport = server.service.index("split").fleet.transport
    send = transport.send
    monkeypatch.setattr(transport, "send", lambda part, *rest: send(part, *rest) if part else object())
    document = server.post("/indexes/split/search", {"query": "kettle"}, token=WRITER).json()
    assert document["seen"] == 0.4


def test_documents_come_and_go(server):
    new = {"documents": [{"id": "new", "text": "a kettle that is new", "metadata": {}}]}
    assert server.post("/indexes/split/documents?wait=30", new, token=WRITER).json()["status"] == "done"
    hits = server.post("/indexes/split/search", {"query": "new", "mode": "lexical"}, token=WRITER).json()["hits"]
    assert [hit["id"] for hit in hits] == ["new"]
    allowed = {"Authorization": f"Bearer {WRITER}"}
    gone = server.http.request("DELETE", "/indexes/split/documents?id=new&id=no", headers=allowed)
    assert gone.json()["result"] == {"deleted": ["new"], "missing": ["no"]}


def test_what_shards_do_not_do_is_refused(server):
    begun = server.post("/indexes/split/cluster?wait=30", {"instruction": PRODUCT}, token=WRITER)
    assert "in shards" in begun.text
    assert refused(server.get("/indexes/reviews", token=WRITER), 404, "index_not_found", "no index 'reviews' here")
