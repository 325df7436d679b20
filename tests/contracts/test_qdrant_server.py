"""What Qdrant on a server adds to the contract: addresses, keys, requests, and what killed builds and copies leave."""

import json
import shutil
import socket
import sys

import numpy as np
import pytest
from index_fakes import FakeEncoder, documents, found
from qdrant_server import qdrant_server
from vector_corpora import clustered, signs

from retriever.core.errors import RetrieverError, UsageError
from retriever.index.durability.verify import verify
from retriever.index.generations import IndexType
from retriever.vectors.backend import BuildOptions, ViewVectors, open_backend
from retriever.vectors.exact import ExactIndex
from retriever.vectors.qdrant import QdrantBackend
from retriever.workspace import Index

RNG = np.random.default_rng(0)
ROWS = signs(RNG, 20)


@pytest.fixture
def server():
    with qdrant_server() as running:
        yield running


@pytest.fixture
def nobody():
    """Give an address at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    return f"http://127.0.0.1:{port}"


def build(folder, url, rows=ROWS, view=1):
    source = ViewVectors(np.arange(len(rows)), rows.shape[1], [rows])
    return open_backend("qdrant", folder).build(view, source, BuildOptions("qdrant", url)).handle


@pytest.mark.parametrize(
    "url",
    ["localhost:6333", "ftp://host", "http://", "http://a b", "file:///etc/passwd", "http://me:word@host:6333", "http://h?x=1"],
)  # fmt: skip
def test_what_is_no_address_is_refused(tmp_path, url):
    with pytest.raises(UsageError, match=r"no address of a Qdrant server.*One is http://HOST:6333"):
        open_backend("qdrant", tmp_path).require(4, BuildOptions("qdrant", url))


@pytest.mark.parametrize("name", ["faiss", "exact"])
def test_other_backends_take_no_address(tmp_path, name):
    with pytest.raises(UsageError, match="takes no address"):
        open_backend(name, tmp_path).require(4, BuildOptions(name, "http://host:6333"))


def test_a_server_that_is_not_there_is_one_error_with_a_next_step(tmp_path, nobody):
    encoder = FakeEncoder()
    with Index(tmp_path / "index", encoder=encoder) as index:
        with pytest.raises(RetrieverError, match=rf"No Qdrant server answers at {nobody}.*compact --backend faiss"):
            index.add(documents("toy"), index_type=IndexType(backend=f"qdrant={nobody}"))
        assert encoder.read == []
        index.add(documents("toy"))
        assert [view.backend for view in index.views()] == ["faiss"]


def test_a_server_that_stops_is_told_apart_from_damage(tmp_path):
    with qdrant_server() as server, Index(tmp_path / "index", encoder=FakeEncoder()) as index:
        url = server.url
        index.add(documents("toy", "lamp"), index_type=IndexType(backend=f"qdrant={url}"))
        before = found(index.search("toy", mode="dense"))
    with Index(tmp_path / "index", encoder=FakeEncoder()) as index:
        with pytest.raises(RetrieverError, match="No Qdrant server answers") as caught:
            index.search("toy", mode="dense")
        assert caught.value.exit_code == 1
        assert "No Qdrant server answers" in verify(tmp_path / "index").findings[0].problem
        index.compact(IndexType(backend="faiss"))
        assert found(index.search("toy", mode="dense")) == before
        assert len(list((tmp_path / "index").rglob("*.qdrant"))) == 1  # removed when the server is back


def test_the_key_of_the_environment_is_sent_and_not_stored(tmp_path, server, monkeypatch):
    server.key = "secret"
    with pytest.raises(RetrieverError, match=r"refuses: 401.*QDRANT_API_KEY"):
        build(tmp_path, server.url)
    monkeypatch.setenv("QDRANT_API_KEY", "secret")
    with pytest.warns(UserWarning, match="insecure"):
        assert "secret" not in json.dumps(build(tmp_path, server.url))
    assert all(b"secret" not in path.read_bytes() for path in tmp_path.rglob("*.qdrant"))


def test_a_missing_package_is_told_with_the_line_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(RetrieverError, match=r"pip install retriever\[qdrant\]"):
        open_backend("qdrant", tmp_path).require(4, BuildOptions("qdrant"))
    open_backend("qdrant", tmp_path).remove(1)  # other backends clear a view without it


def conditions(server):
    """Return the ids excluded and those asked for in all searches so far, each filter once."""
    sent = {(bool(one.must_not), tuple((one.must_not or one.must)[0].has_id)) for one in server.conditions}
    server.conditions.clear()
    return sorted(sent)


def test_a_filter_is_sent_as_few_excluded_ids_or_as_the_allowed_ones_in_parts(tmp_path, server):
    handle, ids = build(tmp_path, server.url), np.arange(20)
    index = QdrantBackend(tmp_path, condition=4).open(handle)
    for allowed, sent in [
        (None, []),
        (ids, []),
        (ids[2:], [(True, (0, 1))]),
        (ids[:2], [(False, (0, 1))]),
        (ids[::2], [(False, (0, 2, 4, 6)), (False, (8, 10, 12, 14)), (False, (16, 18))]),
    ]:
        answer = index.search(ROWS[:3], 5, allowed=allowed)
        expected = ExactIndex(ids, ROWS).search(ROWS[:3], 5, allowed=allowed)
        np.testing.assert_array_equal(answer.ids, expected.ids)
        np.testing.assert_array_equal(answer.scores, expected.scores)
        assert conditions(server) == sent


def test_long_vectors_go_in_requests_that_a_server_takes(tmp_path, server):
    build(tmp_path, server.url, clustered(200, 4096))
    assert 1 << 20 < server.largest < 16 << 20


def test_what_a_killed_build_left_on_the_server_goes_with_the_next_upkeep(tmp_path, server):
    def killed():
        yield ROWS[:9]
        raise KeyboardInterrupt

    backend = open_backend("qdrant", tmp_path)
    with pytest.raises(KeyboardInterrupt):
        backend.build(1, ViewVectors(np.arange(20), 4, killed()), BuildOptions("qdrant", server.url))
    assert len(server.collections) == 1
    kept = build(tmp_path, server.url)
    backend.remove(1, keep=[kept])
    assert server.collections == [kept["collection"]]
    assert backend.check(kept) is None


def test_a_copy_of_an_index_leaves_the_originals_collections_alone(tmp_path, server):
    handle = build(tmp_path / "one", server.url)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    open_backend("qdrant", tmp_path / "two").remove(1)
    assert list((tmp_path / "two" / "views" / "1").iterdir()) == []
    assert open_backend("qdrant", tmp_path / "one").check(handle) is None


@pytest.mark.parametrize("name", ["production", "retriever-", "retriever-../x", "retriever-" + "0" * 31 + "g"])
def test_no_collection_of_another_name_is_ever_removed(tmp_path, server, name):
    server.client.create_collection("production", vectors_config={})
    (tmp_path / "views" / "1").mkdir(parents=True)
    note = {"url": server.url, "collection": name, "folder": str(tmp_path)}
    (tmp_path / "views" / "1" / "x.qdrant").write_text(json.dumps(note))
    open_backend("qdrant", tmp_path).remove(1)
    assert server.collections == ["production"]


def test_another_collection_under_the_name_is_damage(tmp_path, server):
    backend, handle = open_backend("qdrant", tmp_path), build(tmp_path, server.url)
    server.client.delete(handle["collection"], [3])
    assert "holds 19 vectors, not the 20 that were built" in backend.check(handle)
    assert "vectors of another kind than 5 numbers each" in backend.check({**handle, "dim": 5})


def test_local_mode_keeps_no_pickle_and_no_lock(tmp_path):
    handle = build(tmp_path, "")
    backend = open_backend("qdrant", tmp_path)
    both = [backend.open(handle), open_backend("qdrant", tmp_path).open(handle)]
    assert all(one.search(ROWS[:1], 1).ids.shape == (1, 1) for one in both)
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    with path.open("rb") as file:
        np.testing.assert_array_equal(np.load(file, allow_pickle=False), np.arange(20))
        np.testing.assert_array_equal(np.load(file, allow_pickle=False), ROWS)
