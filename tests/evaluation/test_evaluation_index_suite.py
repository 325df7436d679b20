from dataclasses import replace

import numpy as np
import pytest
from retrieval_fakes import BagEncoder, bench, by_name

from retriever.core.errors import UsageError
from retriever.evaluation.index_suite import (
    FactoryMeasure,
    clustered_vectors,
    default_factories,
    factory_scores,
    measure_factories,
    queries_near,
    synthetic,
)
from retriever.vectors.faiss.building import build_index


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    from retriever.vectors.faiss._faiss import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


VECTORS = clustered_vectors(600, 16, clusters=10, seed=0)
NEAR = queries_near(VECTORS, 40, seed=0)


def overlap(found, k):
    """Share of the exact k nearest, by sets of ids."""
    truth = np.argsort(-(NEAR @ VECTORS.T), axis=1)[:, :k]
    return [len(set(a) & set(b)) / k for a, b in zip(truth.tolist(), found.tolist(), strict=True)]


def test_vectors_lie_in_clusters_and_queries_near_them():
    assert np.allclose(np.linalg.norm(VECTORS, axis=1), 1, atol=1e-6)
    assert np.array_equal(VECTORS, clustered_vectors(600, 16, clusters=10, seed=0))
    assert (NEAR @ VECTORS.T).max(axis=1).mean() == pytest.approx(0.8, abs=0.05)


def test_exact_indexes_find_all_and_others_what_sets_of_ids_say():
    measures = {one.factory: one for one in measure_factories(VECTORS, NEAR, ["Flat", "SQfp16", "PQ4x4", "HNSW8"])}
    assert measures["Flat"].recall.tolist() == [1] * 40
    assert measures["SQfp16"].recall.mean() > 0.99
    assert measures["SQfp16"].bytes_per_vector < measures["Flat"].bytes_per_vector
    quantized = build_index(np.arange(600), [VECTORS], 16, factory="PQ4x4", min_recall=0).index.search(NEAR, 10).ids
    assert measures["PQ4x4"].recall.tolist() == pytest.approx(overlap(quantized, 10))
    assert 0.1 < measures["PQ4x4"].recall.mean() < 0.9  # poor, and not replaced by the exact index
    assert measures["HNSW8"].probes >= 32
    assert all((one.seconds > 0).all() and one.seconds.shape == (40,) for one in measures.values())


def test_the_number_of_threads_is_put_back():
    from retriever.vectors.faiss._faiss import faiss

    faiss.omp_set_num_threads(2)
    list(measure_factories(VECTORS, NEAR, ["Flat"]))
    assert faiss.omp_get_max_threads() == 2
    faiss.omp_set_num_threads(1)


def test_probes_rise_until_the_recall_is_reached():
    (few,) = measure_factories(VECTORS, NEAR, ["IVF64,Flat"], min_recall=0)
    (many,) = measure_factories(VECTORS, NEAR, ["IVF64,Flat"], min_recall=1)
    assert (few.probes, many.probes) == (8, 64)
    assert many.recall.tolist() == [1] * 40
    assert few.recall.mean() < 1


def test_equal_vectors_may_stand_for_each_other():
    doubled = np.repeat(VECTORS[:30], 20, axis=0)
    (flat,) = measure_factories(doubled, NEAR, ["Flat"])
    assert flat.recall.tolist() == [1] * 40


def test_fewer_vectors_than_k():
    (flat,) = measure_factories(VECTORS[:4], NEAR, ["Flat"], k=10)
    assert flat.recall.tolist() == [1] * 40


@pytest.mark.parametrize("factory", ["Nonsense", "IVF5000,Flat"])
def test_a_factory_that_cannot_be_built_is_refused(factory):
    with pytest.raises(UsageError, match=factory.partition(",")[0]):
        list(measure_factories(VECTORS, NEAR, [factory]))


def test_queries_a_second_are_queries_over_time():
    measured = FactoryMeasure("Flat", np.array([1.0, 0.5]), np.array([0.001, 0.003]), 0, 64)
    recall, speed = factory_scores(measured, k=10, seed=0)
    assert (recall.metric, recall.value, recall.headline) == ("recall@10", 75, True)
    assert (speed.metric, speed.value, speed.headline) == ("queries/s", pytest.approx(500), False)
    assert (speed.low, speed.high) == (pytest.approx(1 / 0.003), pytest.approx(1000))


def test_the_task_compares_the_default_kinds(tmp_path):
    scores = by_name(synthetic(bench(tmp_path, BagEncoder("unused"), limit=300)))
    assert [task for task, metric in scores if metric == "recall@10"] == list(default_factories(300))
    assert scores["Flat", "recall@10"].value == pytest.approx(100, abs=0.2)  # vectors are kept in half precision
    assert all(scores[factory, "recall@10"].value > 90 for factory in default_factories(300))
    assert default_factories(20_000) == ("Flat", "SQfp16", "IVF256,Flat", "HNSW32")


def test_the_factories_asked_for_are_compared_and_no_others(tmp_path):
    given = replace(bench(tmp_path, BagEncoder("unused"), limit=300), factories=("PQ8x4",))
    assert {one.task for one in synthetic(given)} == {"PQ8x4"}
