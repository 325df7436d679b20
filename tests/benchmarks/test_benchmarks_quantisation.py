import numpy as np
import pytest
from quantisation import K, built, drawn_out, found_by, recall, truth

from retriever.core.similarity import normalise

BASE = normalise(np.random.default_rng(2).normal(size=(60, 16)))
QUERIES = normalise(np.random.default_rng(3).normal(size=(7, 16)))
COUNT = 700


@pytest.fixture(scope="module")
def rows():
    return np.concatenate([*drawn_out(BASE, COUNT, 5)])


def test_vectors_are_the_same_for_a_seed_and_of_length_one(rows):
    np.testing.assert_array_equal(rows, np.concatenate([*drawn_out(BASE, COUNT, 5)]))
    assert rows.shape == (COUNT, 16)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)


def test_truth_is_the_nearest_of_all(rows, monkeypatch):
    expected = np.argsort(-(QUERIES @ rows.T), axis=1, kind="stable")[:, :K]
    np.testing.assert_array_equal(truth(BASE, QUERIES, COUNT, 5), expected)


def test_a_second_look_orders_by_the_exact_vectors(rows):
    exact, coarse = built("SQfp16", BASE, COUNT, 5), built("RR16,RaBitQ", BASE, COUNT, 5)
    wanted = truth(BASE, QUERIES, COUNT, 5)
    assert recall(found_by(exact, exact, QUERIES, 0), wanted) > 0.97
    alone, again = (recall(found_by(coarse, exact, QUERIES, times), wanted) for times in (0, 20))
    assert alone < again
    everything = found_by(coarse, exact, QUERIES, COUNT // K)
    assert recall(everything, wanted) > 0.97
