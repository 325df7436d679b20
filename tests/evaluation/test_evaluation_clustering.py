import numpy as np
import pytest
from sklearn.metrics import v_measure_score

from retriever.core.errors import UsageError
from retriever.core.similarity import normalise
from retriever.evaluation.clustering import (
    ClusteringTask,
    cluster_v_measures,
    clustering_score,
    clustering_seeds,
    v_measure,
)


@pytest.mark.parametrize("seed", range(20))
def test_the_v_measure_is_scikit_learns(seed):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, generator.integers(1, 9), 60)
    clusters = np.where(generator.random(60) < 0.6, labels, generator.integers(0, 9, 60))
    assert v_measure(labels, clusters) == pytest.approx(v_measure_score(labels, clusters), abs=1e-12)


@pytest.mark.parametrize(
    "labels, clusters, value",
    [
        ([0, 0, 1, 1], [5, 5, 2, 2], 1),
        ([0, 0, 1, 1], [0, 1, 0, 1], 0),
        ([0, 0, 1, 1], [0, 0, 0, 0], 0),
        ([3, 3, 3], [1, 1, 1], 1),
        ([0, 0, 1, 1], [0, 0, 1, 2], 2 * (2 / 3) / (1 + 2 / 3)),  # completeness is 1 - (ln 2 / 2) / (3 ln 2 / 2)
    ],
)
def test_the_v_measure_of_cases_done_by_hand(labels, clusters, value):
    assert v_measure(np.array(labels), np.array(clusters)) == pytest.approx(value)


def test_length_does_not_matter_and_seeds_decide():
    generator = np.random.default_rng(0)
    centres = np.eye(4, 8)[generator.integers(0, 4, 200)]
    rows = normalise(centres + 0.3 * generator.standard_normal((200, 8)))
    labels = [str(one) for one in centres.argmax(axis=1)]
    seeds = clustering_seeds(3)
    assert len(set(seeds) | set(clustering_seeds(2))) == 10
    once = cluster_v_measures(rows, labels, seeds)
    again = cluster_v_measures(rows * generator.uniform(1, 50, (200, 1)).astype(np.float32), labels, seeds)
    assert once.assignments.shape == (5, 200)
    assert np.allclose(once.values, again.values)
    assert once.mean(np.arange(200)) == pytest.approx(np.mean([v_measure_score(labels, a) for a in once.assignments]))
    assert once.values.mean() > 0.8


def test_the_interval_surrounds_the_value_though_there_are_many_labels():
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 40, 400)
    noisy = [np.where(generator.random(400) < 0.5, labels, generator.integers(0, 40, 400)) for _ in range(3)]
    clusterings = ClusteringTask(labels, np.array(noisy))
    found = clustering_score("task", clusterings, seed=0, note="under 'x'")
    assert found.value == pytest.approx(100 * np.mean([v_measure_score(labels, one) for one in noisy]))
    assert found.low < found.value < found.high < found.low + 8
    assert found.resampled.mean() == pytest.approx(found.value)
    assert found.note.startswith("under 'x'; 3 runs, standard deviation ")


def test_every_vector_needs_a_label():
    with pytest.raises(UsageError, match="2 vectors have 1 labels"):
        cluster_v_measures(np.eye(2, dtype=np.float32), ["a"], [0])
    with pytest.raises(UsageError, match="0 vectors have 0 labels"):
        cluster_v_measures(np.zeros((0, 2), dtype=np.float32), [], [0])
