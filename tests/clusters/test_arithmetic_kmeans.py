import numpy as np
import pytest
from clustering_groups import groups
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from retriever.clusters.arithmetic import choice, consensus, kmeans, projection
from retriever.clusters.arithmetic.choice import FEW, Choice, Tried, choose_k
from retriever.clusters.arithmetic.consensus import WHOLE, Stability
from retriever.clusters.arithmetic.kmeans import assign, spherical_kmeans
from retriever.clusters.arithmetic.projection import project
from retriever.core.errors import UsageError
from retriever.core.similarity import normalise


def test_planted_groups_are_found_the_largest_first():
    vectors, planted = groups([5, 20, 11])
    found = spherical_kmeans(vectors, 3)
    assert np.bincount(found.labels).tolist() == [20, 11, 5]
    assert [set(planted[found.labels == number].tolist()) for number in range(3)] == [{1}, {2}, {0}]
    assert np.allclose(np.linalg.norm(found.centroids, axis=1), 1, atol=1e-6)
    for row in range(len(vectors)):
        cosines = np.sort(found.centroids @ vectors[row])
        assert found.cosines[row] == pytest.approx(cosines[-1], abs=1e-6)
        assert found.margins[row] == pytest.approx(cosines[-1] - cosines[-2], abs=1e-6)


def test_centroids_are_the_directions_of_their_rows():
    vectors, _ = groups([8, 8])
    found = spherical_kmeans(vectors, 2)
    for number in range(2):
        mean = vectors[found.labels == number].mean(axis=0)
        assert np.allclose(found.centroids[number], mean / np.linalg.norm(mean), atol=1e-5)
    whole = spherical_kmeans(vectors, 1)
    assert np.allclose(whole.centroids, normalise(vectors.mean(axis=0, keepdims=True)), atol=1e-6)
    assert whole.stability == WHOLE


def test_a_group_that_most_rows_belong_to_is_one_cluster_of_several():
    vectors, planted = groups([300, 20, 10])
    assert adjusted_rand_score(planted, spherical_kmeans(vectors, 3).labels) > 0.95


def test_more_clusters_than_different_rows_are_as_many_as_differ():
    vectors = normalise(np.array([[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]]))
    assert np.bincount(spherical_kmeans(vectors, 4).labels).tolist() == [3, 2]
    assert spherical_kmeans(vectors[:2], 2).k == 1
    assert spherical_kmeans(vectors[:1], 1).labels.tolist() == [0]


@pytest.mark.parametrize(("k", "says"), [(0, "0 clusters"), (7, "made of 6")])
def test_what_cannot_be_is_refused(k, says):
    with pytest.raises(UsageError, match=says):
        spherical_kmeans(groups([6])[0], k)


def test_new_rows_are_assigned_and_centroids_without_rows_left_out():
    vectors, _ = groups([5, 9])
    found = spherical_kmeans(vectors, 2)
    again = assign(vectors[5:], found.centroids)
    assert (again.k, np.bincount(again.labels).tolist()) == (1, [9])


def test_the_same_vectors_give_the_same_clusters_whatever_the_threads():
    """Rows without groups, where the least difference of a sum moves some row to another side."""
    vectors = normalise(np.random.default_rng(0).normal(size=(3000, 48)))
    with threadpool_limits(1):
        alone = spherical_kmeans(vectors, 12)
    with threadpool_limits(2):
        together = spherical_kmeans(vectors, 12)
    assert (alone.labels.tobytes(), alone.centroids.tobytes()) == (
        together.labels.tobytes(),
        together.centroids.tobytes(),
    )


def test_what_rounding_moves_changes_no_cluster():
    vectors, _ = groups([40, 30, 20, 10], noise=0.15)
    moved = normalise(vectors + np.random.default_rng(1).normal(size=vectors.shape) * 2e-3)  # as bfloat16 rounds
    assert choose_k(moved).k == choose_k(vectors).k == 4
    pair = [spherical_kmeans(rows, 4).labels for rows in (vectors, moved)]
    assert adjusted_rand_score(*pair) >= 0.98


def test_more_clusters_than_compared_rows_are_made(monkeypatch):
    monkeypatch.setattr(kmeans, "COMPARED", 4)
    monkeypatch.setattr(kmeans, "_ROWS_A_CLUSTER", 1)
    vectors, _ = groups([2] * 8)
    found = spherical_kmeans(vectors, 7)
    assert (found.k, len(found.labels)) == (7, 16)


def test_planted_groups_hold_and_a_cloud_does_not():
    vectors, planted = groups([40, 30, 20, 10], noise=0.15)
    found = spherical_kmeans(vectors, 4)
    assert found.stability.holds
    assert found.stability.repeated > 0.98
    assert adjusted_rand_score(planted, found.labels) > 0.95
    cloud = normalise(np.random.default_rng(0).normal(size=(200, 24)))
    fell = spherical_kmeans(cloud, 4).stability
    assert not fell.holds
    assert fell.halves < 0.6
    assert spherical_kmeans(vectors[:29], 2).stability is None  # too few to say


def test_k_is_chosen_among_what_holds():
    vectors, _ = groups([40, 30, 20, 10], noise=0.15)
    chosen = choose_k(vectors)
    assert chosen.holds
    assert next(tried for tried in chosen.curve if tried.k == chosen.k).holds
    cloud = normalise(np.random.default_rng(0).normal(size=(200, 24)))
    nothing = choose_k(cloud)
    assert not nothing.holds
    assert not any(tried.holds for tried in nothing.curve)
    assert nothing.k == FEW


def test_a_long_cloud_that_is_cut_in_two_the_same_each_time_has_no_groups():
    """The halves agree on where its longest axis is cut, and so do those of rows without any groups."""
    draw = np.random.default_rng(0)
    cloud = normalise(np.hstack([draw.normal(size=(200, 1)) * 0.3, 1 + draw.normal(size=(200, 9)) * 0.05]))
    two = choose_k(cloud).curve[0]
    assert two.stability.halves > consensus.HALVES
    assert not two.apart
    assert not two.holds
    assert choose_k(cloud).k >= FEW


def tried(k, halves, chance, silhouette=0.1, median=9.0):
    return Tried(k, silhouette, Stability(0.5, halves, chance), median)


@pytest.mark.parametrize(
    ("curve", "number"),
    [
        ([tried(2, 0.9, 0.8), tried(5, 0.4, 0.2), tried(8, 0.4, 0.2), tried(10, 0.3, 0.2)], 8),  # the finest apart
        ([tried(5, 0.4, 0.2), tried(12, 0.4, 0.2), tried(14, 0.5, 0.1)], 12),  # more are not read
        ([tried(5, 0.4, 0.2), tried(12, 0.4, 0.2, median=4.5)], 5),  # groups of a few rows are none
        ([tried(2, 0.5, 0.4), tried(6, 0.3, 0.2), tried(8, 0.3, 0.2)], 6),  # none is apart
        ([tried(2, 0.5, 0.4), tried(4, 0.3, 0.2)], 4),  # too few rows for five
        ([Tried(4, 0.1, Stability(1, 0.9, 0.4)), Tried(6, 0.2, Stability(1, 0.9, 0.4)), tried(8, 0.5, 0.1)], 6),
        ([], 1),
    ],
)
def test_the_number_by_hand(curve, number):
    assert choice._chosen(curve) == number


def test_the_ladder_has_the_number_chosen_two_and_those_that_are_groups():
    curve = [tried(2, 0.9, 0.8), tried(5, 0.4, 0.2), tried(8, 0.4, 0.2), tried(10, 0.3, 0.2), tried(14, 0.5, 0.1)]
    assert Choice(10, curve).ladder == [2, 5, 8, 10]
    assert Choice(6, [tried(2, 0.9, 0.8), tried(6, 0.3, 0.2)]).ladder == [2, 6]


def test_rows_alone_in_their_cluster_do_not_count_in_stability(monkeypatch):
    labels = np.array([0] * 5 + [1] * 5 + [2])
    joins = np.array([0] * 5 + [1] * 5 + [1])
    monkeypatch.setattr(consensus, "_runs", lambda *_: np.stack([labels, joins]))
    assert consensus._halves(np.eye(11, dtype=np.float32), 3, labels, np.random.default_rng(0)) == 1.0


def test_a_higher_silhouette_that_does_not_hold_is_passed_over(monkeypatch):
    vectors, _ = groups([40, 30, 20, 10], noise=0.15)
    found = consensus.consensus

    def doubtful(rows, k):
        labels, stability = found(rows, k)
        return labels, Stability(0.5, 0.5) if k == 4 else stability

    assert choose_k(vectors).k == 4
    monkeypatch.setattr(choice, "consensus", doubtful)
    assert choose_k(vectors).k != 4


@pytest.mark.parametrize("sizes", [[12, 12], [9, 20, 14, 11], [30, 8, 8, 8, 8, 8]])
def test_k_is_chosen_where_clusters_are_most_apart(sizes):
    chosen = choose_k(groups(sizes)[0])
    assert chosen.k == len(sizes)
    curve = {tried.k: tried.silhouette for tried in chosen.curve}
    assert curve[chosen.k] == max(tried.silhouette for tried in chosen.curve if tried.holds)
    assert list(curve)[:2] == [2, 3]


def test_too_few_or_equal_rows_are_one_cluster():
    assert choose_k(groups([5])[0]).k == 1
    assert choose_k(np.repeat(groups([1])[0], 40, axis=0)).k == 1


# Places on a map.


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
