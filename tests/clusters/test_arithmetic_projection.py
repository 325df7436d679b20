import numpy as np
import pytest
from clustering_groups import groups

from retriever.clusters.arithmetic import projection
from retriever.clusters.arithmetic.projection import project


def apart(places, planted):
    """Whether every row's nearest other row is of its own group."""
    distances = np.linalg.norm(places[:, None] - places[None], axis=2) + np.diag(np.full(len(places), np.inf))
    return (planted[distances.argmin(axis=1)] == planted).mean()


def test_groups_stay_together_on_the_map():
    vectors, planted = groups([30, 40, 25])
    places = project(vectors)
    assert places.shape == (95, 2)
    assert np.abs(places).max() == pytest.approx(1)
    assert apart(places, planted) == 1
    assert np.array_equal(places, project(vectors))


def test_beyond_the_landmarks_rows_stand_among_their_nearest(monkeypatch):
    monkeypatch.setattr(projection, "LANDMARKS", 40)
    vectors, planted = groups([60, 60])
    places = project(vectors)
    assert apart(places, planted) == 1
    assert np.isfinite(places).all()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_few_rows_have_places_of_their_own(count):
    places = project(groups([count])[0])
    assert len(np.unique(places, axis=0)) == count
    assert np.isfinite(places).all()


def test_equal_texts_share_a_place():
    vectors, _ = groups([6])
    places = project(vectors[[0, 1, 2, 0, 3, 4, 5]])
    assert np.array_equal(places[0], places[3])
