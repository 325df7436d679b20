"""Milvus's part of the contract: addresses, tokens, kinds of index, recall, and whose collections are whose."""

import json
import os
import shutil
import socket
import sys

import numpy as np
import pymilvus
import pytest
from index_fakes import ALL_WORDS, MOOD, FakeEncoder, documents, found
from vector_corpora import clustered, ids_for, signs

from retriever.core.errors import RetrieverError, UsageError
from retriever.core.similarity import normalise
from retriever.core.types import Document
from retriever.index.generations import IndexType
from retriever.index.upkeep.verify import verify
from retriever.store import connection
from retriever.vectors.backend import BuildOptions, ViewVectors, open_backend
from retriever.vectors.exact import ExactIndex, queries_near
from retriever.vectors.milvus import index as milvus_index
from retriever.vectors.milvus.building import create
from retriever.vectors.milvus.index import MilvusIndex
from retriever.workspace import Index

RNG = np.random.default_rng(0)
ROWS = signs(RNG, 20)


@pytest.fixture
def nobody():
    """Give an address at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    return f"http://127.0.0.1:{port}"


def build(folder, url, rows=ROWS, view=1, **options):
    source = ViewVectors(np.arange(len(rows)), rows.shape[1], [rows])
    return open_backend("milvus", folder).build(view, source, BuildOptions("milvus", url, **options))


@pytest.mark.parametrize(
    "url",
    ["", "localhost:19530", "ftp://host", "http://", "http://a b", "file:///etc/passwd", "http://me:word@host:19530",
     "http://h?x=1", "http://h/path"],
)  # fmt: skip
def test_what_is_no_address_is_refused(tmp_path, url):
    with pytest.raises(UsageError, match=r"no address of a Milvus server.*Say milvus=http://HOST:19530"):
        open_backend("milvus", tmp_path).require(4, BuildOptions("milvus", url))


def test_a_server_that_is_not_there_is_one_error_with_a_next_step(tmp_path, nobody):
    encoder = FakeEncoder()
    with Index(tmp_path / "index", encoder=encoder) as index:
        with pytest.raises(RetrieverError, match=rf"No Milvus server answers at {nobody}.*repair --backend faiss"):
            index.add(documents("toy"), index_type=IndexType(backend=f"milvus={nobody}"))
        assert encoder.read == []
        index.add(documents("toy"))
        assert [view.backend for view in index.views()] == ["faiss"]


def test_a_missing_package_is_told_with_the_line_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(RetrieverError, match=r"pip install '\.\[milvus\]'"):
        open_backend("milvus", tmp_path).require(4, BuildOptions("milvus", "http://host:19530"))
    open_backend("milvus", tmp_path).remove(1)  # other backends clear a view without it


def test_the_token_of_the_environment_is_sent_and_not_stored(tmp_path, milvus, monkeypatch):
    handle = build(tmp_path, milvus.url).handle
    assert milvus.token not in json.dumps(handle)
    assert all(milvus.token.encode() not in path.read_bytes() for path in tmp_path.rglob("*.milvus"))
    monkeypatch.setenv("MILVUS_TOKEN", "root:wrong")
    with pytest.raises(RetrieverError, match=r"refuses: the token is missing or wrong.*MILVUS_TOKEN"):
        open_backend("milvus", tmp_path).require(4, BuildOptions("milvus", milvus.url))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"factory": "HNSV"}, "no index type 'HNSV'.*Did you mean 'HNSW'"),
        ({"factory": "IVF64,SQ8"}, "no index type 'IVF64,SQ8'"),
        ({"factory": "GPU_CAGRA"}, "has no index type GPU_CAGRA"),  # a server without a GPU
        ({"min_recall": 1.5}, "min_recall is 1.5"),
    ],
)
def test_what_nothing_can_be_built_with_is_refused_before_anything_is_read(tmp_path, milvus, options, why):
    before, encoder = milvus.collections, FakeEncoder()
    with Index(tmp_path / "index", encoder=encoder) as index, pytest.raises(UsageError, match=why):
        index.add(documents("toy"), index_type=IndexType(backend=f"milvus={milvus.url}", **options))
    assert encoder.read == []
    assert milvus.collections == before


# Search


@pytest.fixture(scope="module", params=["FLAT", "HNSW", "IVF_SQ8"])
def large(request, milvus, tmp_path_factory):
    """Give ids, vectors, and the index of a kind, built by a server: 3,000 vectors, where it begins to use indexes."""
    folder, rows = tmp_path_factory.mktemp("large"), clustered(3000)
    ids = ids_for(np.random.default_rng(5), 3000)
    source = ViewVectors(ids, 32, [rows[:2000], rows[2000:]])
    built = open_backend("milvus", folder).build(1, source, BuildOptions("milvus", milvus.url, request.param))
    return request.param, ids, rows, built, open_backend("milvus", folder).open(built.handle)


def queries_of(count=6):
    noise = np.random.default_rng(6).standard_normal((count, 32))
    return normalise(clustered(count, seed=1) + 0.1 * noise)


def test_recall_is_measured_and_is_what_searches_find(large):
    kind, ids, rows, built, index = large
    assert built.details == {"factory": kind, "note": ""}
    assert built.recall >= 0.95
    queries = queries_near(rows[::15], seed=9)  # of the same kind as those it was measured with, and not these
    truth = ExactIndex(ids, rows).search(queries, 10).ids
    hits = index.search(queries, 10).ids
    share = np.mean([len(set(one) & set(other)) / 10 for one, other in zip(hits, truth, strict=True)])
    assert share >= built.recall - 0.05
    if kind == "FLAT":
        assert (built.recall, share) == (1, 1)


def test_an_effort_that_was_raised_is_remembered(milvus, tmp_path, monkeypatch):
    rows = normalise(np.random.default_rng(0).standard_normal((6000, 32)))  # no clusters: lists separate nothing
    few = build(tmp_path, milvus.url, rows, factory="IVF_SQ8", min_recall=0.1)
    more = build(tmp_path, milvus.url, rows, factory="IVF_SQ8", min_recall=0.9)
    assert few.handle["effort"] < more.handle["effort"]
    assert few.recall < 0.9 <= more.recall
    assert open_backend("milvus", tmp_path).open(more.handle).effort == more.handle["effort"]


def test_a_recall_that_is_not_reached_ends_in_exact_search_with_the_reason(milvus, tmp_path):
    rows = normalise(np.random.default_rng(0).standard_normal((3000, 32)))
    built = build(tmp_path, milvus.url, rows, factory="IVF_SQ8", min_recall=1.0)
    assert built.handle["kind"] == built.details["factory"] == "FLAT"
    assert (built.recall, built.details["note"].partition(" finds ")[0]) == (1, "IVF_SQ8")
    index = open_backend("milvus", tmp_path).open(built.handle)
    expected = ExactIndex(np.arange(3000), rows).search(queries_of(), 10)
    np.testing.assert_array_equal(index.search(queries_of(), 10).ids, expected.ids)


@pytest.mark.parametrize("share", [0.001, 0.02, 0.3, 0.97])
def test_a_filter_lets_only_the_allowed_through_and_gives_as_many_as_there_are(large, share, monkeypatch):
    kind, ids, rows, _, index = large
    allowed = ids[np.random.default_rng(1).random(3000) < share]
    for limits in ((), (("_IN_EXPRESSION", 50), ("_SPREAD", 2))):
        for name, limit in limits:
            monkeypatch.setattr(milvus_index, name, limit)
        for k in (1, 10, 400):
            answer = index.search(queries_of(), k, allowed=allowed)
            assert np.isin(answer.ids[answer.ids >= 0], allowed).all()
            assert ((answer.ids >= 0).sum(axis=1) == min(k, len(allowed))).all()
            assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in answer.ids)
            if kind == "FLAT":
                expected = ExactIndex(ids, rows).search(queries_of(), k, allowed=allowed)
                np.testing.assert_allclose(answer.scores, expected.scores, atol=2e-6)


def test_allowed_ones_that_lie_far_away_are_found(large, monkeypatch):
    kind, ids, rows, _, index = large
    queries = queries_of(2)
    far = np.argsort(rows @ queries[0])[:600]
    monkeypatch.setattr(milvus_index, "_IN_EXPRESSION", 50)
    monkeypatch.setattr(milvus_index, "_SPREAD", 2)
    answer = index.search(queries, 10, allowed=np.sort(ids[far]))
    assert (answer.ids >= 0).all()
    if kind != "IVF_SQ8":  # whose scores are those of rounded vectors
        expected = ExactIndex(ids, rows).search(queries, 10, allowed=ids[far])
        np.testing.assert_allclose(answer.scores[0], expected.scores[0], atol=2e-6)


@pytest.mark.parametrize("way", ["_checked", "_named", "_continued", "_compared"])
@pytest.mark.parametrize("large", ["FLAT"], indirect=True, scope="module")
def test_every_way_to_search_finds_what_the_oracle_does(large, way):
    _, ids, rows, _, index = large
    queries = queries_of()
    far = np.sort(ids[np.argsort(rows @ queries[0])[:300]])  # behind all batches of an iterator but the last
    for kept in (ids[::3], far):
        answer = getattr(index, way)(queries, 20, kept)
        expected = ExactIndex(ids, rows).search(queries, 20, allowed=kept)
        np.testing.assert_allclose(answer.scores, expected.scores, atol=2e-6)
        np.testing.assert_array_equal(np.sort(answer.ids), np.sort(expected.ids))


def test_more_hits_than_a_server_gives_at_once_are_all_there(milvus, tmp_path):
    rows = normalise(np.random.default_rng(2).standard_normal((17_000, 8)))
    index = open_backend("milvus", tmp_path).open(build(tmp_path, milvus.url, rows).handle)
    answer = index.search(rows[:1], 16_800)
    expected = ExactIndex(np.arange(17_000), rows).search(rows[:1], 16_800)
    np.testing.assert_allclose(answer.scores, expected.scores, atol=2e-6)
    assert len(set(answer.ids[0])) == 16_800


# Whose collections


def test_what_a_killed_build_left_goes_with_the_next_upkeep(tmp_path, milvus):
    def killed():
        yield ROWS[:9]
        raise KeyboardInterrupt

    before, backend = milvus.collections, open_backend("milvus", tmp_path)
    with pytest.raises(KeyboardInterrupt):
        backend.build(1, ViewVectors(np.arange(20), 4, killed()), BuildOptions("milvus", milvus.url))
    assert len(milvus.collections) == len(before) + 1
    kept = build(tmp_path, milvus.url).handle
    backend.remove(1, keep=[kept])
    assert sorted({*milvus.collections} - {*before}) == [kept["collection"]]
    assert backend.check(kept) is None


def test_a_renamed_index_keeps_its_collections_and_drops_them(tmp_path, milvus):
    before = milvus.collections
    handle = build(tmp_path / "old", milvus.url).handle
    (tmp_path / "old").rename(tmp_path / "new")
    backend = open_backend("milvus", tmp_path / "new")
    assert backend.check(handle) is None
    backend.remove(1)
    assert milvus.collections == before


def test_a_copy_of_an_index_leaves_the_originals_collections_alone(tmp_path, milvus):
    handle = build(tmp_path / "one", milvus.url).handle
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    open_backend("milvus", tmp_path / "two").remove(1)
    assert list((tmp_path / "two" / "views" / "1").iterdir()) == []
    assert open_backend("milvus", tmp_path / "one").check(handle) is None


def test_a_collection_that_is_not_the_one_that_was_made_is_neither_searched_nor_dropped(tmp_path, milvus):
    backend, handle = open_backend("milvus", tmp_path), build(tmp_path, milvus.url, index="mine").handle
    other = build(tmp_path / "other", milvus.url, index="theirs").handle
    milvus.client.drop_collection(handle["collection"])
    milvus.client.rename_collection(other["collection"], handle["collection"])
    assert "is another index's" in backend.check(handle)
    backend.remove(1)
    assert handle["collection"] in milvus.collections
    milvus.client.drop_collection(handle["collection"])


def test_no_collection_of_another_name_is_ever_dropped(tmp_path, milvus):
    handle = build(tmp_path, milvus.url).handle
    path = tmp_path / handle["path"]
    line, _, ids = path.read_bytes().partition(b"\n")
    for name in ("production", "retriever_", "retriever_" + "0" * 32):
        create(milvus.client, name, 4, "")
        path.write_bytes(json.dumps({**json.loads(line), "collection": name}).encode() + b"\n" + ids)
        open_backend("milvus", tmp_path).remove(1)
        assert name in milvus.collections
        milvus.client.drop_collection(name)
    milvus.client.drop_collection(handle["collection"])


def test_vectors_that_somebody_deleted_are_damage(tmp_path, milvus):
    backend, handle = open_backend("milvus", tmp_path), build(tmp_path, milvus.url).handle
    milvus.client.delete(handle["collection"], ids=[3])
    assert "holds 19 vectors, not the 20 that were built" in backend.check(handle)


def test_a_collection_that_was_released_is_loaded_again(tmp_path, milvus):
    handle = build(tmp_path, milvus.url).handle
    milvus.client.release_collection(handle["collection"])
    index = open_backend("milvus", tmp_path).open(handle)
    np.testing.assert_array_equal(index.search(ROWS, 3).ids, ExactIndex(np.arange(20), ROWS).search(ROWS, 3).ids)


# An index over a server


def test_an_alias_names_the_collection_in_use_of_every_view(tmp_path, milvus):
    before = milvus.aliases()

    def named(index):
        used = [index._opened.store.generations.active(view.view_id) for view in index._opened.store.views.all()]
        ours = {alias: name for alias, name in milvus.aliases().items() if alias not in before}
        assert sorted(ours.values()) == sorted(one.handle["collection"] for one in used)
        return ours

    with Index(tmp_path / "index", encoder=FakeEncoder()) as index:
        index.add(documents("toy", "lamp"), instructions=[MOOD], index_type=IndexType(backend=f"milvus={milvus.url}"))
        first = named(index)
        index.upkeep.repair()
        second = named(index)
        assert first.keys() == second.keys()
        assert not {*first.values()} & {*second.values()}
        held = milvus.client.query(min(second), filter="", output_fields=["count(*)"], consistency_level="Strong")
        assert held[0]["count(*)"] == 2
        index.upkeep.drop_views([MOOD])
        assert len(named(index)) == 1
        index.upkeep.repair(IndexType(backend="faiss"))
        assert milvus.aliases() == before


def test_a_search_that_is_under_way_when_the_collection_is_replaced_goes_on_in_the_new_one(
    tmp_path, milvus, monkeypatch
):
    search, replaced = MilvusIndex.search, []

    def late(*given, **named):
        if not replaced:
            replaced.append(True)
            with Index(tmp_path / "index", encoder=FakeEncoder()) as writer:
                writer.upkeep.repair()
        return search(*given, **named)

    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.05)  # the search is in a state that the repair waits for
    with Index(tmp_path / "index", encoder=FakeEncoder()) as index:
        index.add(documents("toy", "lamp"), index_type=IndexType(backend=f"milvus={milvus.url}"))
        before = found(index.search("toy", mode="dense"))
        monkeypatch.setattr(MilvusIndex, "search", late)
        assert found(index.search("toy", mode="dense")) == before
    assert replaced


def test_an_index_from_elsewhere_opens_no_server_that_its_user_has_not_named(tmp_path, milvus, monkeypatch):
    corpus = [Document(f"{row:02}", word) for row, word in enumerate(ALL_WORDS)]
    with Index(tmp_path / "index", encoder=FakeEncoder()) as index:
        index.add(corpus, index_type=IndexType(backend=f"milvus={milvus.url}"))
        before = found(index.search("toy", mode="dense"))
    shutil.copytree(tmp_path / "index", tmp_path / "copy")
    connected = []
    client = pymilvus.MilvusClient
    monkeypatch.setattr(pymilvus, "MilvusClient", lambda **given: (connected.append(given), client(**given))[1])
    with Index(tmp_path / "copy", encoder=FakeEncoder()) as copy:
        assert copy.search("toy", mode="lexical").hits
        for work in (lambda: copy.search("toy", mode="dense"), copy.upkeep.repair):
            with pytest.raises(RetrieverError, match=rf"names the server {milvus.url}.*MILVUS_URI={milvus.url}"):
                work()
        assert connected == []
        monkeypatch.setenv("MILVUS_URI", milvus.url)
        assert found(copy.search("toy", mode="dense")) == before
        monkeypatch.delenv("MILVUS_URI")
        copy.upkeep.repair(IndexType(backend=f"milvus={milvus.url}"))
        assert found(copy.search("toy", mode="dense")) == before
    with Index(tmp_path / "index", encoder=FakeEncoder()) as index:
        assert found(index.search("toy", mode="dense")) == before
        index.upkeep.repair(IndexType(backend="faiss"))
    with Index(tmp_path / "copy", encoder=FakeEncoder()) as copy:
        assert found(copy.search("toy", mode="dense")) == before
    assert verify(tmp_path / "copy").findings == []
    assert os.environ["MILVUS_TOKEN"] == milvus.token
