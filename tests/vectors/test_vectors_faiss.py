import faiss
import numpy as np
import pytest
from vector_corpora import clustered, ids_for

from retriever.core.similarity import normalise
from retriever.vectors.backend import ViewVectors
from retriever.vectors.exact import ExactIndex
from retriever.vectors.faiss.building import build_index
from retriever.vectors.faiss.index import FaissIndex

COUNT, DIM = 1200, 32
KINDS = ["SQfp16", "Flat", "SQ8", "IVF16,SQfp16", "IVF16_HNSW8,SQfp16", "IVF16,PQ8x4fs", "HNSW8,SQfp16", "PQ8x4fs"]


def built(factory, ids, corpus) -> FaissIndex:
    result = build_index(ViewVectors(ids, corpus.shape[1], [corpus]), factory=factory, min_recall=0)
    assert result.factory == factory, result.note
    return result.index


def recall(found, truth) -> float:
    return (truth[:, :, None] == found[:, None, :]).any(axis=2).mean()


@pytest.fixture(scope="module")
def ids():
    return ids_for(np.random.default_rng(2), COUNT, first=2**50)


@pytest.fixture(scope="module")
def corpus():
    return clustered(COUNT, DIM)


@pytest.fixture(scope="module", params=KINDS)
def narrow(request, ids, corpus) -> FaissIndex:
    """An index that visits as little as it can."""
    index = built(request.param, ids, corpus)
    index.probes = 1
    return index


@pytest.mark.parametrize("matches", [0, 1, 7, 30, 500, COUNT])
@pytest.mark.parametrize("k", [1, 10, 600])
def test_a_filtered_search_returns_k_hits_or_all_that_match(narrow, ids, corpus, matches, k, monkeypatch):
    monkeypatch.setattr(
        "retriever.vectors.faiss.structures._SMALL", 5
    )  # so that the quick filtered searches are used too
    rng = np.random.default_rng(matches)
    allowed = np.sort(rng.choice(ids, matches, replace=False))
    for queries in (corpus[:1], normalise(rng.standard_normal((25, DIM)))):
        found = narrow.search(queries, k, allowed=allowed)
        assert ((found.ids >= 0).sum(axis=1) == min(k, matches)).all()
        assert np.isin(found.ids[found.ids >= 0], allowed).all()
        assert all(len(set(row[row >= 0])) == min(k, matches) for row in found.ids)
        assert (found.scores[:, :-1] >= found.scores[:, 1:]).all()


def test_an_unfiltered_search_returns_k_hits_however_few_probes(narrow, corpus):
    assert (narrow.search(corpus[:5], 700).ids >= 0).all()


@pytest.mark.parametrize("factory", ["SQfp16", "IVF16,SQfp16", "HNSW8,SQfp16"])
def test_scores_are_the_same_on_every_way_through_an_index(factory, ids, corpus, monkeypatch):
    index = built(factory, ids, corpus)
    index.probes = COUNT
    queries = normalise(np.random.default_rng(3).standard_normal((30, DIM)))
    together = index.search(queries, COUNT)
    alone = [index.search(queries[row : row + 1], COUNT) for row in range(len(queries))]
    np.testing.assert_array_equal(together.scores, np.concatenate([one.scores for one in alone]))
    half = ids[::2]
    keep = np.isin(together.ids, half)
    for gather_from in (1, 10**9):
        monkeypatch.setattr("retriever.vectors.faiss.structures._GATHER_QUERIES", gather_from)
        filtered = index.search(queries, len(half), allowed=half)
        np.testing.assert_array_equal(filtered.ids.ravel(), together.ids[keep])
        np.testing.assert_array_equal(filtered.scores.ravel(), together.scores[keep])


@pytest.mark.parametrize("factory", ["SQfp16", "SQ8", "IVF4,SQfp16"])
@pytest.mark.parametrize("filtered", [False, True])
def test_more_ties_than_were_fetched_still_give_the_lowest_ids(factory, filtered):
    rng = np.random.default_rng(0)
    corpus = np.repeat(clustered(4, 8, 4), 800, axis=0)[rng.permutation(3200)]
    ids = ids_for(rng, 3200)
    index = built(factory, ids, corpus)
    index.probes = 4
    allowed = ids[ids % 3 != 0] if filtered else None
    found = index.search(corpus[:6], 5, allowed=allowed)
    same = [(corpus == query).all(axis=1) & (True if allowed is None else ids % 3 != 0) for query in corpus[:6]]
    np.testing.assert_array_equal(found.ids, [ids[rows][:5] for rows in same])


def test_probes_trade_recall_for_time(ids, corpus):
    index = built("IVF16,SQfp16", ids, corpus)
    queries = normalise(np.random.default_rng(4).standard_normal((60, DIM)))
    truth = ExactIndex(ids, corpus).search(queries, 10).ids
    shares = []
    for index.probes in (1, 4, 16):
        shares.append(
            np.mean([np.isin(a, b).mean() for a, b in zip(truth, index.search(queries, 10).ids, strict=True)])
        )
    assert shares[0] < shares[1] < shares[2] == 1
    index.probes = 10**6
    assert index.probes == 16


@pytest.fixture
def near(corpus):
    """Queries beside stored vectors."""
    return normalise(corpus[:200] + 0.7 * normalise(np.random.default_rng(7).standard_normal((200, DIM))))


def test_a_filter_makes_the_search_visit_more_lists(ids, corpus, near, monkeypatch):
    monkeypatch.setattr("retriever.vectors.faiss.structures._SMALL", 5)
    index = built("IVF32,SQfp16", ids, corpus)
    index.probes = 2
    allowed = np.sort(np.random.default_rng(6).choice(ids, 120, replace=False))
    truth = ExactIndex(ids, corpus).search(near, 10, allowed=allowed).ids
    found = index.search(near, 10, allowed=allowed).ids
    unfiltered = recall(index.search(near, 10).ids, ExactIndex(ids, corpus).search(near, 10).ids)
    assert recall(found, truth) > max(unfiltered, 0.95)


@pytest.mark.parametrize("factory", ["HNSW8,SQfp16", "IVF16,SQfp16"])
def test_narrow_filters_are_answered_exactly(factory, ids, corpus, near, monkeypatch):
    if factory.startswith("HNSW"):
        monkeypatch.setattr("retriever.vectors.faiss.structures._SMALL", 5)
    index = built(factory, ids, corpus)
    index.probes = 1
    allowed = np.sort(np.random.default_rng(6).choice(ids, 100, replace=False))
    found, expected = (kind.search(near, 10, allowed=allowed) for kind in (index, ExactIndex(ids, corpus)))
    assert recall(found.ids, expected.ids) > 0.999  # all but what rounding turns around


def test_lists_an_approximate_quantizer_does_not_find_are_searched_all_the_same(ids, corpus):
    index = built("IVF16_HNSW8,SQfp16", ids, corpus)
    quantizer = faiss.downcast_index(faiss.downcast_index(index.container.index).quantizer).hnsw
    faiss.rev_swig_ptr(quantizer.neighbors.data(), quantizer.neighbors.size())[:] = -1
    assert (index.search(corpus[:5], COUNT).ids >= 0).all()


def test_decoded_vectors_score_the_same_alone_and_in_a_batch():
    corpus = clustered(6000, 96)
    index = built("PQ24x4fs", np.arange(6000), corpus)
    allowed, queries = np.arange(5500), clustered(200, 96, seed=1)
    together = index.search(queries, 40, allowed=allowed).scores
    alone = [index.search(query[None], 40, allowed=allowed).scores for query in queries]
    np.testing.assert_array_equal(together, np.concatenate(alone))
