"""A Milvus server that is killed during a build, a search and a switch; it comes back over its data each time."""

import pytest
from index_fakes import ALL_WORDS, FakeEncoder, found
from milvus_server import MilvusServer

from retriever.core.errors import RetrieverError
from retriever.core.types import Document
from retriever.index import generations
from retriever.index.generations import IndexType
from retriever.index.upkeep.verify import verify
from retriever.vectors.milvus import building
from retriever.workspace import Index

pytestmark = pytest.mark.durability

CORPUS = [Document(f"{row:03}", f"{ALL_WORDS[row % len(ALL_WORDS)]} {row}") for row in range(60)]


@pytest.fixture
def server(milvus_programs, tmp_path, monkeypatch):
    running = MilvusServer(tmp_path / "server", milvus_programs)
    running.start()
    monkeypatch.setenv("MILVUS_TOKEN", running.token)
    for module in ("backend", "building", "index", "server"):
        monkeypatch.setattr(f"retriever.vectors.milvus.{module}.ANSWER_SECONDS", 3)
    for module in ("building", "index"):
        monkeypatch.setattr(f"retriever.vectors.milvus.{module}.WORK_SECONDS", 3)
    yield running
    running.kill()


@pytest.fixture
def index(server, tmp_path):
    with Index(tmp_path / "index", encoder=FakeEncoder()) as made:
        made.add(CORPUS[:40], index_type=IndexType(backend=f"milvus={server.url}"))
        yield made


def dense(index):
    return found(index.search("kettle love toy", k=9, mode="dense"))


def only_its_own(index, server):
    assert server.collections == [index._opened.store.generations.active(1).handle["collection"]]
    assert set(server.aliases().values()) == set(server.collections)


@pytest.mark.parametrize("when", ["filled", "build_index", "count"])
def test_a_server_killed_during_a_build_loses_nothing(index, server, monkeypatch, when):
    before, done = dense(index), getattr(building, when)

    def killed(*given):
        server.kill()
        return done(*given)

    with monkeypatch.context() as patch:
        patch.setattr(building, when, killed)
        with pytest.raises(RetrieverError, match="No Milvus server answers"):
            index.upkeep.repair()
    server.start()
    assert dense(index) == before
    assert len(server.collections) == 2
    index.upkeep.repair()
    assert dense(index) == before
    only_its_own(index, server)
    assert verify(index.path).findings == []


def test_a_server_killed_during_searches_is_an_error_until_it_is_back(index, server):
    before = dense(index)
    server.kill()
    with pytest.raises(RetrieverError, match=r"No Milvus server answers.*--mode lexical"):
        dense(index)
    assert index.search("kettle", mode="lexical").hits
    assert index.search(regex="kettle").hits
    with Index(index.path, encoder=FakeEncoder()) as another:
        with pytest.raises(RetrieverError, match="No Milvus server answers") as caught:
            dense(another)
        assert caught.value.exit_code == 1
    assert "No Milvus server answers" in verify(index.path).findings[0].problem
    server.start()
    assert dense(index) == before
    assert verify(index.path).findings == []


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_server_killed_during_a_switch_serves_the_new_generation(index, server, monkeypatch, step):
    clear = generations.clear_view

    def killed(*given, **named):
        server.kill()
        clear(*given, **named)

    index.add(CORPUS[40:50])
    before, old = dense(index), index._opened.store.generations.active(1).handle["collection"]
    with monkeypatch.context() as patch:
        if step == "before":  # the database has switched, the alias has not
            patch.setattr(generations, "clear_view", killed)
        else:  # the alias has switched, the old collection is still there
            patch.setattr(
                "retriever.vectors.milvus.building.drop",
                lambda client, note: server.kill() or client.list_collections(timeout=2),
            )
        index.upkeep.repair()
    server.start()
    assert len(server.collections) == 2
    assert dense(index) == before
    assert old in server.collections
    index.upkeep.repair()
    assert dense(index) == before
    only_its_own(index, server)
