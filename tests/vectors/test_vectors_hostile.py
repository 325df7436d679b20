"""FAISS files that are not what they say: parsed in a child process, with the right checksum, so that nothing helps."""

import faiss
import numpy as np
import pytest
from fuzzing import MIB, damaged, limited
from hypothesis import settings
from vector_corpora import clustered, ids_for

from retriever.core.errors import IndexDamagedError
from retriever.core.fingerprint import file_hash
from retriever.vectors.backend import ViewVectors
from retriever.vectors.faiss.backend import read_faiss, write_faiss
from retriever.vectors.faiss.building import build_index
from retriever.vectors.faiss.index import FaissIndex

COUNT, DIM = 300, 16
KINDS = {"exact": "SQfp16", "flat": "Flat", "lists": "IVF8,SQfp16", "product": "IVF8,PQ4x4", "graph": "HNSW8,SQfp16"}


@pytest.fixture(params=KINDS)
def written(request, tmp_path):
    ids = ids_for(np.random.default_rng(0), COUNT)
    rows = clustered(COUNT, DIM)
    factory = KINDS[request.param]
    write_faiss(
        build_index(ViewVectors(ids, DIM, [rows]), factory=factory, min_recall=0).index, tmp_path / "whole.faiss"
    )
    return tmp_path / "whole.faiss"


def try_copies(whole, copies):
    """Open and search some copies of a file; return how each went and how often; run in a child."""
    faiss.omp_set_num_threads(1)
    went = {"refused": 0, "answered": 0}
    path = whole.with_name("copy.faiss")
    queries = clustered(3, DIM, seed=9)
    for data in copies(whole.read_bytes()):
        path.write_bytes(data)
        try:
            index = read_faiss(path, sha256=file_hash(path), size=COUNT, dim=DIM, probes=4)
            for allowed in (None, index.ids[::3]):
                found = index.search(queries, 5, allowed=allowed)
                assert set(found.ids.flat) <= {-1, *index.ids.tolist()}
        except IndexDamagedError:
            went["refused"] += 1
        else:
            went["answered"] += 1
    return went


def random_copies(data):
    return (damaged(data, seed) for seed in range(2 * settings.default.max_examples))


def boastful_copies(data):
    """Put a huge number at every fourth byte where a header may stand: the claims of lengths are among these."""
    for at in [*range(0, min(400, len(data)), 4), *range(max(0, len(data) - 200), len(data), 4)]:
        for claim in (1 << 20, 1 << 33, (1 << 63) - 1):
            yield data[:at] + claim.to_bytes(8, "little") + data[at + 8 :]


@pytest.mark.parametrize("copies", [random_copies, boastful_copies])
def test_a_damaged_file_is_refused_or_answers_without_a_crash(written, copies, record_property):
    went = limited(try_copies, written, copies, memory=256 * MIB, seconds=360)
    record_property("files", sum(went.values()))
    assert went["refused"] > 10


def on_disk(tmp_path):
    """Write an index whose lists lie in another file, as FAISS can make one."""
    container = faiss.index_factory(DIM, "IDMap,IVF4,Flat", faiss.METRIC_INNER_PRODUCT)
    rows = clustered(COUNT, DIM)
    container.train(rows)
    container.add_with_ids(rows, np.arange(COUNT))
    lists = faiss.downcast_index(container.index)
    elsewhere = faiss.OnDiskInvertedLists(lists.nlist, lists.code_size, str(tmp_path / "elsewhere"))
    elsewhere.merge_from(lists.invlists, 0)
    lists.replace_invlists(elsewhere, False)
    faiss.write_index(container, str(tmp_path / "a.faiss"))
    return tmp_path / "a.faiss"


def test_a_file_that_names_another_file_is_refused_before_that_is_opened(tmp_path):
    path = on_disk(tmp_path)
    assert b"elsewhere" in path.read_bytes()
    assert faiss.read_index(str(path)).ntotal == COUNT  # FAISS itself follows the path
    with pytest.raises(IndexDamagedError, match="is not the index it should be"):
        read_faiss(path, sha256=file_hash(path), size=COUNT, dim=DIM)
    (tmp_path / "elsewhere").unlink()
    with pytest.raises(IndexDamagedError, match="ONDISK_SAME_DIR"):
        read_faiss(path, sha256=file_hash(path), size=COUNT, dim=DIM)


def container_of(rows, ids, *, factory="Flat", metric=faiss.METRIC_INNER_PRODUCT):
    container = faiss.index_factory(rows.shape[1], f"IDMap,{factory}", metric)
    container.add_with_ids(rows, ids)
    return container


@pytest.mark.parametrize(
    ("container", "problem"),
    [
        (lambda rows, ids: container_of(rows[:, :8].copy(), ids), "not 300 of 16"),
        (lambda rows, ids: container_of(rows[:9], ids[:9]), "not 300 of 16"),
        (lambda rows, ids: container_of(rows, ids, metric=faiss.METRIC_L2), "its metric or its ids are wrong"),
        (lambda rows, ids: container_of(rows, ids[::-1].copy()), "its metric or its ids are wrong"),
        (lambda rows, ids: faiss.IndexFlatIP(DIM), "it has no ids"),
    ],
    ids=["dimension", "number", "metric", "order", "no ids"],
)
def test_a_file_of_another_shape_is_refused(tmp_path, container, problem):
    path = tmp_path / "a.faiss"
    faiss.write_index(container(clustered(COUNT, DIM), np.arange(COUNT)), str(path))
    with pytest.raises(IndexDamagedError, match=problem):
        read_faiss(path, sha256=file_hash(path), size=COUNT, dim=DIM)


def test_the_limits_of_the_reader_hold_while_a_file_is_read_and_not_afterwards(tmp_path, monkeypatch):
    names = ("vector_byte", "loop", "lattice_r2")

    def limits():
        return [getattr(faiss, f"get_deserialization_{name}_limit")() for name in names]

    before, seen, read = limits(), [], faiss.read_index
    monkeypatch.setattr(faiss, "read_index", lambda *given: (seen.append(limits()), read(*given))[1])
    ids = np.arange(COUNT)
    index = FaissIndex(container_of(clustered(COUNT, DIM), ids, factory="SQfp16"))
    sha256 = write_faiss(index, tmp_path / "a.faiss")
    assert read_faiss(tmp_path / "a.faiss", sha256=sha256, size=COUNT, dim=DIM).size == COUNT
    assert seen == [[1 << 16, 1 << 16, 1 << 10]]
    assert limits() == before
