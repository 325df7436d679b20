import faiss
import numpy as np
import pytest
from vector_corpora import clustered, ids_for

from retriever.core.errors import UsageError
from retriever.core.similarity import normalise
from retriever.vectors.backend import ViewVectors
from retriever.vectors.exact import overlap
from retriever.vectors.faiss import building
from retriever.vectors.faiss.building import Built, build_index, choose_factory, sample_queries

COUNT, DIM = 2000, 32


@pytest.fixture(scope="module")
def corpus():
    return clustered(COUNT, DIM, clusters=200)


def build(corpus, **options) -> Built:
    return build_index(ViewVectors(np.arange(len(corpus)), DIM, [corpus]), **options)


def file_bytes(built: Built) -> bytes:
    return faiss.serialize_index(built.index.container).tobytes()


def test_the_kind_follows_the_size():
    assert choose_factory(0, 576, device="cpu") == "SQfp16"
    assert choose_factory(200_000, 576, device="cpu") == "SQfp16"
    assert choose_factory(200_001, 576, device="cpu") == "IVF2048,SQfp16"
    assert choose_factory(1_000_000, 576, device="cpu") == "IVF4096,SQfp16"


def test_a_gpu_takes_more_vectors_exactly(monkeypatch):
    monkeypatch.setattr(building, "has_gpu", lambda: True)
    assert choose_factory(1_000_000, 576) == "SQfp16"
    assert choose_factory(1_000_000, 576, device="cpu") == "IVF4096,SQfp16"
    assert choose_factory(50_000_000, 576).startswith("IVF")


def test_small_corpora_are_searched_exactly(corpus):
    built = build(corpus)
    assert (built.factory, built.index.probes, built.recall, built.note) == ("SQfp16", 0, 1.0, "")
    assert len(file_bytes(built)) / COUNT == pytest.approx(2 * DIM + 8, abs=1)


def test_batches_are_the_same_as_one_matrix(corpus):
    parts = build_index(
        ViewVectors(np.arange(COUNT), DIM, iter([corpus[:7], corpus[7:7], corpus[7:1999], corpus[1999:]]))
    )
    assert file_bytes(parts) == file_bytes(build(corpus))


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("factory", ["SQfp16", "IVF32,SQfp16", "IVF16,PQ4x4"])
def test_equal_vectors_give_equal_bytes(corpus, factory):
    first, second = (file_bytes(build(corpus, factory=factory, min_recall=0)) for _ in range(2))
    assert first == second


def recall_of(index, exact, queries):
    return overlap(index.search(queries, 10).ids, exact.search(queries, 10).ids)


def test_probes_are_raised_until_the_recall_is_reached(corpus, monkeypatch):
    monkeypatch.setattr(building, "_FIRST_PROBES", 1)
    lax = build(corpus, factory="IVF64,SQfp16", min_recall=0.1)
    strict = build(corpus, factory="IVF64,SQfp16", min_recall=0.97)
    assert lax.index.probes < strict.index.probes
    assert lax.recall < 0.97 <= strict.recall
    assert strict.factory == "IVF64,SQfp16"


def test_the_recall_told_is_the_recall_of_the_index(corpus):
    built = build(corpus, factory="IVF64,SQfp16", min_recall=0.9)
    exact = build(corpus).index
    queries = sample_queries(exact)
    assert np.linalg.norm(queries, axis=1) == pytest.approx(1, abs=1e-5)
    assert recall_of(built.index, exact, queries) == built.recall
    assert recall_of(exact, exact, queries) == 1


def test_the_sample_lies_near_stored_vectors(corpus):
    queries = sample_queries(build(corpus).index, size=300)
    nearest = (queries @ corpus.T).max(axis=1)
    assert 0.75 < nearest.mean() < 0.9
    assert len(queries) == 300


def test_measuring_sees_a_broken_graph(corpus):
    exact = build(corpus).index
    built = build(corpus, factory="HNSW16,SQfp16")
    assert built.recall >= 0.95
    graph = faiss.downcast_index(built.index.container.index).hnsw
    links = faiss.rev_swig_ptr(graph.neighbors.data(), graph.neighbors.size())
    known = links >= 0
    links[known] = np.random.default_rng(0).integers(0, COUNT, known.sum())
    assert recall_of(built.index, exact, sample_queries(exact)) < built.recall - 0.1


def test_an_index_that_cannot_reach_the_recall_gives_way_to_exact_search(corpus):
    built = build(corpus, factory="PQ2x4", min_recall=0.95)
    assert (built.factory, built.index.probes, built.recall) == ("SQfp16", 0, 1.0)
    assert "PQ2x4 finds 0." in built.note
    assert "0.95" in built.note


def test_too_few_vectors_to_train_on_give_way_to_exact_search(corpus):
    built = build(corpus[:20], factory="IVF64,SQfp16")
    assert built.factory == "SQfp16"
    assert "cannot be built from 20 vectors" in built.note
    assert "failed" not in built.note


def test_no_vectors_at_all():
    built = build(np.empty((0, DIM), np.float32), factory="IVF64,SQfp16")
    assert built.index.size == 0
    assert "without vectors" in built.note


def test_inverted_lists_hold_the_very_vectors_of_the_exact_index(corpus):
    built = build(corpus, factory="IVF32,SQfp16", min_recall=0)
    built.index.probes = 32
    queries = normalise(np.random.default_rng(1).standard_normal((20, DIM)))
    found, expected = built.index.search(queries, 50), build(corpus).index.search(queries, 50)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("factory", ["IVFx", "nonsense", "IDMap,Flat", "PQ7"])
def test_factory_strings_faiss_does_not_know_are_refused(corpus, factory):
    with pytest.raises(UsageError, match=factory.split(",")[0]):
        build(corpus, factory=factory)


def test_a_recall_above_one_is_refused(corpus):
    with pytest.raises(UsageError, match=r"1\.5"):
        build(corpus, min_recall=1.5)


def test_training_reads_a_bounded_sample(corpus, monkeypatch):
    monkeypatch.setattr(building, "_TRAINING_BYTES", 4 * DIM * 500)
    ids = ids_for(np.random.default_rng(0), COUNT)
    assert build_index(ViewVectors(ids, DIM, [corpus]), factory="IVF8,SQfp16", min_recall=0.5).factory == "IVF8,SQfp16"
