"""The promises of every index, held to sums done by hand in float64."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_corpora import ids_for, signs

from retriever.core.errors import UsageError
from retriever.core.protocols import VectorIndex
from retriever.core.types import Neighbours
from retriever.vectors.backend import ViewVectors
from retriever.vectors.exact import ExactIndex
from retriever.vectors.faiss.building import build_index

Make = Callable[[np.ndarray, np.ndarray], VectorIndex]


def exact_faiss(ids, embeddings):
    return build_index(ViewVectors(ids, embeddings.shape[1], [embeddings]), factory="SQfp16").index


def inverted_faiss(ids, embeddings):
    index = build_index(ViewVectors(ids, embeddings.shape[1], [embeddings]), factory="IVF4,SQfp16", min_recall=0).index
    index.probes = index.structure.most_probes
    return index


@pytest.fixture(params=[ExactIndex, exact_faiss, inverted_faiss], ids=lambda make: make.__name__)
def make(request) -> Make:
    return request.param


def by_hand(ids, embeddings, queries, k, allowed=None) -> Neighbours:
    """The definition itself, one query and one vector at a time."""
    found, scores = [], []
    keep = set(ids.tolist() if allowed is None else allowed.tolist())
    for query in queries:
        pairs = [
            (-np.float32(np.dot(query.astype(float), row.astype(float))), int(i))
            for i, row in zip(ids, embeddings, strict=True)
            if int(i) in keep
        ]
        best = sorted(pairs)[:k]
        found.append([i for _, i in best] + [-1] * (k - len(best)))
        scores.append([-s for s, _ in best] + [-np.inf] * (k - len(best)))
    shape = (len(queries), k)
    return Neighbours(np.array(found, np.int64).reshape(shape), np.array(scores, np.float32).reshape(shape))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(0, 60),
    queries=st.integers(0, 6),
    k=st.integers(1, 70),
    share=st.none() | st.floats(0, 1),
    spread=st.sampled_from([1, 3, 10**9]),
)
@pytest.mark.parametrize("make", [ExactIndex, exact_faiss, inverted_faiss], ids=lambda make: make.__name__)
def test_hits_scores_and_ties_are_exact(make, seed, count, queries, k, share, spread):
    rng = np.random.default_rng(seed)
    ids, corpus, asked = ids_for(rng, count, step=spread), signs(rng, count), signs(rng, queries)
    allowed = None if share is None else ids[rng.random(count) < share]
    found = make(ids, corpus).search(asked, k, allowed=allowed)
    expected = by_hand(ids, corpus, asked, k, allowed)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert found.ids.dtype == np.int64
    assert found.scores.dtype == np.float32


def test_allowed_ids_that_are_not_stored_are_ignored(make):
    ids = np.array([3, 2**40, 2**62])
    index = make(ids, signs(np.random.default_rng(0), 3))
    allowed = np.array([0, 3, 4, 2**40 + 1, 2**62, 2**63 - 1])
    found = index.search(signs(np.random.default_rng(1), 1), 3, allowed=allowed)
    assert sorted(found.ids[0].tolist()) == [-1, 3, 2**62]


def test_inputs_are_left_as_they_were(make):
    ids, corpus = np.arange(9), signs(np.random.default_rng(0), 9)
    queries, allowed = corpus[:3].copy(), ids[2:6].copy()
    make(ids, corpus).search(queries, 4, allowed=allowed)
    np.testing.assert_array_equal(queries, corpus[:3])
    np.testing.assert_array_equal(allowed, ids[2:6])
    np.testing.assert_array_equal(corpus, signs(np.random.default_rng(0), 9))


@pytest.mark.parametrize(
    ("ids", "embeddings", "message"),
    [
        (np.array([1, 1]), np.ones((2, 4), np.float32), "twice"),
        (np.array([-1, 1]), np.ones((2, 4), np.float32), "negative"),
        (np.array([1.0, 2.0]), np.ones((2, 4), np.float32), "integers"),
        (np.array([1, 2, 3]), np.ones((2, 4), np.float32), "3 ids were given for 2 vectors"),
        (np.array([1, 2]), np.full((2, 4), np.nan, np.float32), "NaN"),
        (np.array([1, 2]), np.ones((2, 4), np.float16), "float16"),
    ],
)
def test_senseless_corpora_are_refused(make, ids, embeddings, message):
    with pytest.raises(UsageError, match=message):
        make(ids, embeddings)
