"""The promises of every vector backend of the catalog, held to the exact oracle. A new row is tested by being a row."""

import itertools
import json
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from index_fakes import ALL_WORDS, MOOD, FakeEncoder, found, gives
from vector_corpora import clustered, ids_for, signs

from retriever.core.errors import IndexDamagedError, UsageError
from retriever.core.similarity import normalise
from retriever.core.types import Document
from retriever.index.generations import IndexType
from retriever.index.upkeep.archive import export_index, import_index
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.vectors.backend import BACKENDS, BuildOptions, VectorBackend, ViewVectors, open_backend
from retriever.vectors.exact import ExactIndex
from retriever.workspace import Index


@pytest.fixture(params=BACKENDS, scope="module")
def chosen(request):
    """Give the spelling of --backend for every row."""
    if request.param == "milvus":
        return f"milvus={request.getfixturevalue('milvus').url}"
    return request.param


@pytest.fixture(scope="module")
def options(chosen):
    name, _, location = chosen.partition("=")
    return BuildOptions(name, location)


@pytest.fixture
def backend(options, tmp_path):
    return open_backend(options.backend, tmp_path)


def in_batches(ids, rows):
    return ViewVectors(ids, rows.shape[1], [rows[start : start + 700] for start in range(0, len(rows), 700)])


@pytest.fixture
def build(backend, options):
    def built(ids, rows, view=1):
        return backend.build(view, in_batches(ids, rows), options)

    return built


@dataclass
class Whole:
    """A view that was built once for the tests that change nothing."""

    folder: Path
    backend: VectorBackend
    ids: np.ndarray
    rows: np.ndarray
    handle: dict


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    rng, folder = np.random.default_rng(3), tmp_path_factory.mktemp("whole")
    ids, rows = ids_for(rng, 60), signs(rng, 60)  # sixteen different rows: nearly everything is a tie
    backend = open_backend(options.backend, folder)
    return Whole(folder, backend, ids, rows, dict(backend.build(1, in_batches(ids, rows), options).handle))


def same(index, ids, rows, queries, k, allowed=None):
    """Require the ids and scores of the oracle, to the last bit."""
    expected = ExactIndex(ids, rows).search(queries, k, allowed=allowed)
    answer = index.search(queries, k, allowed=allowed)
    np.testing.assert_array_equal(answer.ids, expected.ids)
    np.testing.assert_array_equal(answer.scores, expected.scores)
    assert (answer.ids.dtype, answer.scores.dtype) == (np.int64, np.float32)


def test_hits_scores_ties_and_padding_are_those_of_the_oracle(whole):
    rng, ids, rows = np.random.default_rng(4), whole.ids, whole.rows
    index = whole.backend.open(whole.handle)
    for share, k in itertools.product([None, 0, 0.02, 0.3, 0.97, 1], [1, 7, 60, 200]):
        allowed = None if share is None else ids[rng.random(60) < share]
        same(index, ids, rows, signs(rng, 5), k, allowed)
    assert (index.size, index.dim) == (60, 4)
    np.testing.assert_array_equal(index.ids, ids)


def test_real_vectors_are_found_as_by_the_oracle_in_an_index_and_in_a_tail(backend, build):
    rng = np.random.default_rng(5)
    ids, rows = ids_for(rng, 3000), clustered(3000)
    queries = normalise(clustered(6, seed=1) + 0.1 * rng.standard_normal((6, 32)))
    index = backend.open(build(ids, rows).handle)
    for share in (None, 0.001, 0.3, 0.999):
        allowed = None if share is None else ids[rng.random(3000) < share]
        answer = index.search(queries, 10, allowed=allowed)
        expected = ExactIndex(ids, rows).search(queries, 10, allowed=allowed)
        np.testing.assert_allclose(answer.scores, expected.scores, atol=2e-6)
        steps = np.diff(np.where(expected.ids < 0, -2, expected.scores), axis=1, prepend=3, append=-3)
        clear = (np.abs(steps[:, :-1]) > 4e-6) & (np.abs(steps[:, 1:]) > 4e-6) | (expected.ids < 0)
        np.testing.assert_array_equal(answer.ids[clear], expected.ids[clear])
        assert clear.mean() > 0.9
    held = backend.hold(ids[:40], rows[:40])  # a tail has the scores of the built index
    np.testing.assert_allclose(
        index.search(queries, 40, allowed=ids[:40]).scores, held.search(queries, 40).scores, atol=1e-6
    )
    np.testing.assert_array_equal(held.ids, ids[:40])


def test_more_equal_vectors_than_are_fetched_at_first_give_the_lowest_ids(backend, build):
    rng = np.random.default_rng(0)
    ids, rows = np.arange(0, 3000, 2), np.tile(np.array([[0.5, 0.5, 0.5, 0.5]], np.float32), (1500, 1))
    rows[::5] = -rows[::5]
    index = backend.open(build(ids, rows).handle)
    same(index, ids, rows, rows[1:2], 4)
    same(index, ids, rows, rows[:2], 4, ids[rng.random(1500) < 0.5])


def test_one_vector_and_ids_beyond_32_bits(backend, build):
    ids, rows = np.array([2**62]), signs(np.random.default_rng(0), 1)
    same(backend.open(build(ids, rows).handle), ids, rows, rows, 3)


def test_an_empty_view_can_be_built_and_answers_with_padding(backend, build):
    index = backend.open(build(np.empty(0, np.int64), np.empty((0, 4), np.float32)).handle)
    answer = index.search(signs(np.random.default_rng(0), 2), 3)
    assert (index.size, index.dim, answer.ids.tolist()) == (0, 4, [[-1] * 3] * 2)
    assert np.isneginf(answer.scores).all()
    assert index.search(np.empty((0, 4), np.float32), 3).ids.shape == (0, 3)


def test_senseless_searches_are_refused(whole):
    index = whole.backend.open(whole.handle)
    for queries, k, why in [
        (np.ones((1, 5), np.float32), 3, "shape"),
        (np.ones((1, 4), np.float64), 3, "float32"),
        (np.full((1, 4), np.nan, np.float32), 3, "NaN"),
        (np.ones((1, 4), np.float32), 0, "k is 0"),
    ]:
        with pytest.raises(UsageError, match=why):
            index.search(queries, k)


@pytest.mark.parametrize(
    ("ids", "rows", "why"),
    [
        (np.array([1, 2, 3]), signs(np.random.default_rng(0), 2), "3 ids were given for 2"),
        (np.array([1]), signs(np.random.default_rng(0), 2), "more vectors than the 1 ids"),
        (np.array([2, 1]), signs(np.random.default_rng(0), 2), "do not ascend"),
        (np.array([1, 1]), signs(np.random.default_rng(0), 2), "twice"),
        (np.array([1, 2]), np.full((2, 4), np.inf, np.float32), "NaN or infinity"),
    ],
)
def test_vectors_that_do_not_fit_their_ids_are_refused_and_leave_nothing(backend, build, tmp_path, ids, rows, why):
    with pytest.raises(UsageError, match=why):
        build(ids, rows)
    backend.remove(1)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_handle_is_json_and_opens_the_index_in_another_process(whole, options):
    program = (
        "import json, sys, numpy, pathlib\n"
        "from retriever.vectors.backend import open_backend\n"
        "name, folder, handle = sys.argv[1:]\n"
        "index = open_backend(name, pathlib.Path(folder)).open(json.loads(handle))\n"
        "print(index.search(numpy.array([[.5, .5, -.5, .5]], 'float32'), 4).ids[0].tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, options.backend, str(whole.folder), json.dumps(whole.handle)],
        capture_output=True,
        text=True,
    )
    expected = ExactIndex(whole.ids, whole.rows).search(np.array([[0.5, 0.5, -0.5, 0.5]], np.float32), 4).ids[0]
    assert (done.stdout, done.stderr) == (f"{expected.tolist()}\n", "")


def test_the_index_in_use_stays_while_another_is_built_and_goes_when_it_is_not_kept(backend, build, tmp_path, chosen):
    rng = np.random.default_rng(1)
    ids, rows = ids_for(rng, 9), signs(rng, 9)
    first, other = build(ids, rows).handle, build(ids, rows, view=2).handle
    second = build(ids[:5], rows[:5]).handle
    same(backend.open(first), ids, rows, rows[:2], 3)
    (tmp_path / "views" / "1" / "half-k2j3.tmp").write_bytes(b"half a file")
    (tmp_path / "views" / "1" / "notes.txt").write_text("mine")
    backend.remove(1, keep=[second])
    assert backend.check(second) is backend.check(other) is None
    same(backend.open(second), ids[:5], rows[:5], rows[:2], 3)
    assert backend.check(first)
    with pytest.raises(IndexDamagedError):
        backend.open(first)
    backend.remove(1)
    backend.remove(1)
    assert backend.check(second)
    assert [path.name for path in (tmp_path / "views" / "1").iterdir()] == ["notes.txt"]
    assert backend.check(other) is None
    backend.remove(2)
    backend.remove(3)  # was never there


@pytest.mark.parametrize("how", ["flipped", "cut", "gone", "other", "link"])
def test_a_changed_file_is_found_and_not_opened(whole, tmp_path, how):
    backend, path = whole.backend, whole.folder / whole.handle["path"]
    data = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert backend.check(whole.handle) is None
    path.unlink()
    if how == "flipped":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif how == "cut":
        path.write_bytes(data[:-4])
    elif how == "other":
        path.write_bytes(data + data)
    elif how == "link":
        (tmp_path / "elsewhere").write_bytes(data)
        path.symlink_to(tmp_path / "elsewhere")
    try:
        assert str(path) in backend.check(whole.handle)
        with pytest.raises(IndexDamagedError, match=path.name):
            backend.open(whole.handle)
    finally:
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        path.chmod(0o600)


@pytest.mark.parametrize(
    ("key", "value"),
    [("path", "../x"), ("path", "/etc/passwd"), ("path", None), ("path", 3), ("size", "3"), ("size", -1), ("dim", True),
     ("dim", 5), ("size", 4)],
)  # fmt: skip
def test_a_handle_that_somebody_changed_opens_nothing(whole, key, value):
    changed = {**whole.handle, key: value}
    assert whole.backend.check(changed)
    with pytest.raises(IndexDamagedError):
        whole.backend.open(changed)


# An index over each backend


PLAIN = FakeEncoder()


def best(corpus, query, k, instruction=""):
    """Ids and cosines of the k best documents: all compared, sorted in Python."""
    query = PLAIN.vectors([query], instruction)[0]
    scored = [(one.id, float(PLAIN.vectors([one.text], instruction)[0] @ query)) for one in corpus]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:k]


def agrees(index, corpus):
    for k in (1, 5, 70):
        assert found(index.search("kettle love toy", k=k, mode="dense")) == best(corpus, "kettle love toy", k)
    few = [one for one in corpus if one.metadata["row"] < 4]
    assert found(index.search("rug", k=9, mode="dense", where="row < 4")) == best(few, "rug", 9)


def test_an_index_gives_the_oracles_hits_through_all_its_life(chosen, tmp_path):
    rng = random.Random(0)
    corpus = [Document(f"{row:02}", " ".join(rng.choices(ALL_WORDS, k=4)), {"row": row}) for row in range(60)]
    path = tmp_path / "index"
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(corpus[:40], instructions=[MOOD], index_type=IndexType(backend=chosen))
        agrees(index, corpus[:40])
        index.add(corpus[40:43])  # a tail
        assert index.views()[0].tail == 3
        agrees(index, corpus[:43])
        index.delete(["00", "41"])
        left = [one for one in corpus[:43] if one.id not in ("00", "41")]
        agrees(index, left)
        index.add(corpus[43:])  # a new generation
        left += corpus[43:]
        assert index.views()[0].tail == 0
        agrees(index, left)
        index.upkeep.repair()
        agrees(index, left)
        name, _, location = chosen.partition("=")
        assert {view.backend for view in index.views()} == {name}
        assert index.status().vector_index == {
            "backend": name, "location": location, "factory": "auto", "min_recall": 0.95
        }  # fmt: skip
    with Index(path, encoder=FakeEncoder()) as index:
        agrees(index, left)
    assert verify(path, deep=True, load=gives(FakeEncoder)).findings == []


def test_an_index_is_damaged_repaired_dropped_and_carried_elsewhere(chosen, tmp_path, request):
    path = tmp_path / "index"
    server = request.getfixturevalue("milvus")
    before = server.collections
    corpus = [Document(f"{row:02}", word, {"row": row}) for row, word in enumerate(ALL_WORDS)]
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(corpus, instructions=[MOOD], index_type=IndexType(backend=chosen))
        handle = index._opened.store.generations.active(1).handle
    if handle.get("url"):
        server.client.drop_collection(handle["collection"])
    else:
        (path / handle["path"]).unlink()
    assert [one.artefact for one in verify(path).findings] == [handle["path"]]
    with Index(path, encoder=FakeEncoder()) as index, pytest.raises(IndexDamagedError):
        index.search("toy", mode="dense")
    assert len(repair(path, load=gives(FakeEncoder)).generations) == 2
    assert verify(path).findings == []
    export_index(path, tmp_path / "one.tar")
    import_index(tmp_path / "one.tar", tmp_path / "there")
    with Index(tmp_path / "there", encoder=FakeEncoder()) as index:
        agrees(index, corpus)
        assert [view.backend for view in index.views()] == ["faiss" if "=" in chosen else chosen] * 2
    with Index(path, encoder=FakeEncoder()) as index:
        agrees(index, corpus)
        index.upkeep.drop_views([MOOD])
        assert [one.name for one in (path / "views").iterdir()] == ["1"]
        index.upkeep.repair(IndexType(backend="faiss"))
        agrees(index, corpus)
        assert [one.suffix for one in (path / "views" / "1").iterdir()] == [".faiss"]
    assert server.collections == before
