from types import SimpleNamespace

import pytest

from retriever.core.errors import RetrieverError
from retriever.vectors.milvus import building, server

types = pytest.importorskip("pymilvus.client.types")
NOT_LOADED, LOADED = {"state": types.LoadState.NotLoad}, {"state": types.LoadState.Loaded}
NEXT = "may lack memory.*retriever repair --backend faiss"


def loading(percent):
    return {"state": types.LoadState.Loading, "progress": percent}


def indexing(rows, state="InProgress"):
    return {"state": state, "indexed_rows": rows}


class Client:
    """A server that tells one state after the other, and the last for ever."""

    def __init__(self, *, loads=(), builds=()):
        self._told = {"load": list(loads), "build": list(builds)}
        self.begun = 0

    def _next(self, what):
        told = self._told[what]
        return told.pop(0) if len(told) > 1 else told[0]

    def get_load_state(self, name, **_):
        return self._next("load")

    def load_collection(self, name, **_):
        self.begun += 1

    def describe_index(self, name, field, **_):
        return self._next("build")

    def prepare_index_params(self):
        return SimpleNamespace(add_index=lambda *_, **__: None)

    def create_index(self, name, params, **_):
        pass


@pytest.fixture
def clock(monkeypatch):
    """A clock that sleeping alone moves on; it gives up on a test that sleeps for a week."""
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds
        assert now[0] < 7 * 24 * 3600, "it waits for ever"

    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return now


def test_a_collection_that_is_loaded_is_not_loaded_again(clock):
    client = Client(loads=[LOADED])
    server.load(client, "c")
    assert (client.begun, clock) == (0, [0.0])


def test_a_load_is_waited_for_as_long_as_it_goes_on(clock, monkeypatch):
    monkeypatch.setattr(server, "_LONGEST_WAIT", server.STALLED_SECONDS)
    monkeypatch.setattr(server, "STALLED_SECONDS", server.STALLED_SECONDS * 2)
    client = Client(loads=[NOT_LOADED, *map(loading, range(101)), LOADED])
    server.load(client, "c")
    assert client.begun == 1
    assert clock[0] > 10 * server.STALLED_SECONDS


def test_a_server_that_gives_up_a_load_is_an_error_with_a_next_step(clock):
    with pytest.raises(RetrieverError, match=f"cannot load the collection c.*{NEXT}"):
        server.load(Client(loads=[NOT_LOADED, loading(0), loading(40), NOT_LOADED]), "c")
    with pytest.raises(RetrieverError, match="cannot load the collection c"):
        server.load(Client(loads=[NOT_LOADED]), "c")


def test_a_server_that_gets_no_further_with_a_load_is_given_up(clock):
    with pytest.raises(
        RetrieverError, match=f"cannot load the collection c: it has got no further for 30 minutes.*{NEXT}"
    ):
        server.load(Client(loads=[NOT_LOADED, loading(40)]), "c")
    assert server.STALLED_SECONDS < clock[0] < 2 * server.STALLED_SECONDS


def test_a_build_ends_finished_failed_or_given_up(clock):
    kind = server.KINDS["HNSW"]
    building.build_index(
        Client(loads=[LOADED], builds=[indexing(0), indexing(9), indexing(9, "Finished")]), "c", kind, 9
    )
    with pytest.raises(RetrieverError, match=f"cannot build its index HNSW of 9 vectors.*{NEXT}"):
        building.build_index(Client(builds=[indexing(0), indexing(0, "Failed")]), "c", kind, 9)
    with pytest.raises(RetrieverError, match="HNSW of 9 vectors: it has got no further for 30 minutes"):
        building.build_index(Client(builds=[indexing(0), indexing(5)]), "c", kind, 9)
