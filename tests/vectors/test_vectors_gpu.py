import faiss
import numpy as np
import pytest
from vector_corpora import clustered, ids_for

from retriever.core.similarity import normalise
from retriever.vectors.backend import ViewVectors
from retriever.vectors.faiss import index
from retriever.vectors.faiss.building import build_index
from retriever.vectors.faiss.index import has_gpu, place

COUNT, DIM = 4000, 32
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(faiss.get_num_gpus() == 0, reason="FAISS sees no CUDA device")]


@pytest.fixture(scope="module")
def on_cpu():
    ids = ids_for(np.random.default_rng(0), COUNT)
    return build_index(ViewVectors(ids, DIM, [clustered(COUNT, DIM)]), factory="SQfp16").index


@pytest.fixture(scope="module")
def lists():
    return build_index(
        ViewVectors(np.arange(COUNT), DIM, [clustered(COUNT, DIM)]), factory="IVF8,SQfp16", min_recall=0
    ).index


def test_without_a_gpu_an_index_stays(on_cpu, monkeypatch):
    monkeypatch.setattr(index, "has_gpu", lambda: False)
    assert place(on_cpu) is on_cpu


def test_only_exact_indexes_move(lists, monkeypatch):
    monkeypatch.setattr(index, "has_gpu", lambda: True)
    assert place(lists) is lists


def test_no_room_on_the_gpu(on_cpu, monkeypatch):
    def full(*_args):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(index, "has_gpu", lambda: True)
    monkeypatch.setattr(index, "_FlatOnGpu", full)
    assert place(on_cpu) is on_cpu


class TestOnGpu:
    pytestmark = needs_gpu

    @pytest.mark.parametrize("k", [1, 10, 2047, 2048, 3000, COUNT + 5])
    def test_it_finds_what_the_cpu_finds(self, on_cpu, k):
        assert has_gpu()
        queries = normalise(np.random.default_rng(1).standard_normal((50, DIM)))
        assert place(on_cpu) is not on_cpu
        found, expected = place(on_cpu).search(queries, k), on_cpu.search(queries, k)
        np.testing.assert_allclose(found.scores, expected.scores, atol=2e-6)
        assert np.mean(found.ids == expected.ids) > 0.99

    @pytest.mark.parametrize("matches", [0, 3, 400])
    def test_filters_are_applied(self, on_cpu, matches):
        allowed = np.sort(np.random.default_rng(2).choice(on_cpu.ids, matches, replace=False))
        queries = clustered(20, DIM, seed=5)
        found = place(on_cpu).search(queries, 10, allowed=allowed)
        np.testing.assert_array_equal(found.ids, on_cpu.search(queries, 10, allowed=allowed).ids)

    def test_ties_go_to_the_lowest_ids(self):
        ids = ids_for(np.random.default_rng(3), 3000)
        index = build_index(ViewVectors(ids, DIM, [np.repeat(clustered(1, DIM), 3000, axis=0)])).index
        np.testing.assert_array_equal(place(index).search(clustered(1, DIM), 7).ids[0], ids[:7])
