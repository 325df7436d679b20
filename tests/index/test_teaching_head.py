import numpy as np
import pytest

from retriever.core.similarity import normalise
from retriever.index.sources.head import Head, from_stored
from retriever.index.teaching import learning, tuning
from retriever.index.teaching.learning import Lesson, Settings, choose, learn, scores_by_ridge
from retriever.index.teaching.scoring import folds, held_out_score


def head():
    generator = np.random.default_rng(0)
    return Head(
        ["no", "yes"],
        generator.normal(size=4).astype(np.float32),
        generator.normal(size=(4, 2)).astype(np.float32),
        generator.normal(size=3).astype(np.float32),
        generator.normal(size=(3, 2)).astype(np.float32),
        2.0,
        0.75,
    )


def vectors(n, d, seed=1):
    return normalise(np.random.default_rng(seed).normal(size=(n, d)))


def triples(made, labels):
    return learning.triples_right(made @ made.T, labels)


def lesson(n=40, k=2, *, spread=1.0, plain_spread=0.0, d=32, seed=0):
    """Texts whose answers lie apart by ``spread`` in one direction a answer, under much that all have in common."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % k
    corners, beside = generator.normal(size=(k, d)), generator.normal(size=(k, d))
    asked = normalise(3 + generator.normal(size=(n, d)) * 2 + spread * corners[labels])
    plain = normalise(generator.normal(size=(n, d)) * 2 + plain_spread * beside[labels])
    return Lesson(
        [f"answer {number}" for number in range(k)],
        labels,
        asked,
        plain,
        normalise(3 + spread * corners),
        normalise(beside),
        asked.mean(axis=0),
        plain.mean(axis=0),
    )


def test_a_new_vector_is_the_answers_and_the_rest():
    one, x, b = head(), vectors(5, 4), vectors(5, 3)
    scores = (x - one.mean) @ one.weights + (b - one.plain_mean) @ one.plain_weights
    p = np.exp(2 * scores) / np.exp(2 * scores).sum(axis=1, keepdims=True)
    rest = normalise(x - one.mean)
    made = one.map(x, b)
    assert made.shape == (5, one.dim) == (5, 6)
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-6)
    expected = 0.75 * np.sqrt(p) @ np.sqrt(p).T + 0.25 * rest @ rest.T
    np.testing.assert_allclose(made @ made.T, expected, atol=1e-6)


def test_a_text_like_the_mean_still_has_a_vector():
    one = head()
    made = one.map(one.mean[None], vectors(1, 3))
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-6)
    assert not made[0, 2:].any()


def test_what_is_stored_is_read_back():
    one = head()
    again = from_stored(one.to_bytes(), one.describe())
    assert again.digest() == one.digest()
    np.testing.assert_array_equal(again.map(vectors(3, 4), vectors(3, 3)), one.map(vectors(3, 4), vectors(3, 3)))


def test_another_number_is_another_digest():
    one = head()
    weights = one.weights.copy()
    weights[0, 0] += 1e-3
    other = Head(one.answers, one.mean, weights, one.plain_mean, one.plain_weights, one.sharpness, one.share)
    assert other.digest() != one.digest()


@pytest.mark.parametrize(
    "described",
    [None, [], {}, *({**head().describe(), **changed} for changed in (
        {"answers": []}, {"answers": 3}, {"dim": 5}, {"dim": -4}, {"dim": 10**30}, {"plain_dim": None},
        {"sharpness": float("nan")}, {"sharpness": -1}, {"share": 1.0}, {"share": "much"},
    ))],
)  # fmt: skip
def test_what_describes_no_head_is_refused(described):
    with pytest.raises((KeyError, TypeError, ValueError, OverflowError)):
        from_stored(head().to_bytes(), described)


def test_arrays_that_are_cut_or_hold_no_numbers_are_refused():
    one = head()
    bad = np.full(len(one.to_bytes()) // 4, np.nan, dtype="<f4").tobytes()
    for arrays in (one.to_bytes()[:-4], one.to_bytes()[:-1], bad, b""):
        with pytest.raises(ValueError, match=r"numbers|buffer"):
            from_stored(arrays, one.describe())


@pytest.mark.parametrize("n", [12, 80])
def test_leaving_out_by_formula_is_leaving_out_by_learning_anew(n):
    given = lesson(n, k=3, d=20)
    material = learning._rows(given)
    found = learning._left_out(given, material)
    question, plain = material.scales
    parts = [question * (np.concatenate([given.vectors, given.names]) - given.mean)]
    parts += [plain * (np.concatenate([given.plain, given.plain_names]) - given.plain_mean)]
    rows = np.concatenate(parts, axis=1)
    labels = np.concatenate([given.labels, np.arange(3)])
    codes = np.where(labels[:, None] == np.arange(3), 1.0, -0.5)
    weights = np.concatenate([n / (3 * np.bincount(given.labels))[given.labels], np.full(3, learning.NAME_WEIGHT)])
    for ridge in (0.1, 3.0):
        for left in range(n):
            known = np.arange(n + 3) != left
            a, w = rows[known], weights[known][:, None]
            solved = np.linalg.solve(a.T @ (w * a) + ridge * np.eye(a.shape[1]), a.T @ (w * codes[known]))
            np.testing.assert_allclose(found[ridge][left], rows[left] @ solved, atol=1e-5)


def test_settings_that_were_chosen_elsewhere_are_kept():
    given, asked = lesson(40, k=3, d=20), lesson(9, k=3, d=20)
    for ridge, scores in scores_by_ridge(given, asked).items():
        head = learn(given, Settings(ridge, 4.0))
        assert head.sharpness == 4
        np.testing.assert_allclose(head.scores(asked.vectors, asked.plain), scores, atol=1e-5)


def test_of_settings_those_are_chosen_that_answer_examples_left_out():
    given = lesson(40, k=3, d=20)
    right = np.where(given.labels[:, None] == np.arange(3), 1.0, -0.5)
    noise = np.random.default_rng(0).normal(size=right.shape)
    assert choose(given, {0.1: noise, 1.0: right, 10.0: -right}).ridge == 1
    sure, unsure = (choose(given, {1.0: one}).sharpness for one in (right, 0.2 * right + noise))
    assert sure > unsure


def test_triples_are_counted_one_by_one():
    cosines, labels = np.round(np.random.default_rng(0).normal(size=(9, 9)), 1), np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
    by_label = []
    for label in range(3):
        rights = []
        for row in np.flatnonzero(labels == label):
            pairs = [
                (cosines[row, same] > cosines[row, other]) + (cosines[row, same] == cosines[row, other]) / 2
                for same in np.flatnonzero(labels == label)
                for other in np.flatnonzero(labels != label)
                if same != row
            ]
            rights.append(np.mean(pairs))
        by_label.append(np.mean(rights))
    assert learning.triples_right(cosines, labels) == pytest.approx(np.mean(by_label))


def test_texts_of_one_answer_that_were_never_seen_come_together():
    every = lesson(400, k=2, spread=1.0)
    known, new = every.part(np.arange(40)), every.part(np.arange(40, 400))
    made = learn(known).map(new.vectors, new.plain)
    assert triples(made, new.labels) > triples(new.vectors, new.labels) + 0.1


@pytest.mark.parametrize(("spread", "plain_spread"), [(1.5, 0.0), (0.05, 2.0)])
def test_either_reader_may_be_the_one_that_knows(spread, plain_spread):
    every = lesson(300, spread=spread, plain_spread=plain_spread)
    known, new = every.part(np.arange(60)), every.part(np.arange(60, 300))
    answered = learn(known).probabilities(new.vectors, new.plain).argmax(axis=1)
    assert (answered == new.labels).mean() > 0.8


def test_an_answer_with_few_examples_has_the_same_say():
    every = lesson(400, k=2, spread=0.8)
    first, second = np.flatnonzero(every.labels == 0), np.flatnonzero(every.labels == 1)
    known = every.part(np.concatenate([first[:100], second[:5]]))
    new = every.part(np.concatenate([first[100:], second[100:]]))
    answered = learn(known).probabilities(new.vectors, new.plain).argmax(axis=1)
    recall = [(answered[new.labels == label] == label).mean() for label in (0, 1)]
    assert min(recall) > 0.6


def test_every_example_is_left_out_once_and_answers_are_spread():
    labels = np.array([0] * 11 + [1] * 6 + [2] * 3)
    found = list(folds(labels))
    assert sorted(np.concatenate(found).tolist()) == list(range(20))
    assert len(found) == 3
    assert all(np.bincount(labels[one], minlength=3).min() >= 1 for one in found)


def test_labels_that_mean_nothing_score_as_chance():
    given = lesson(200, k=2, spread=0.0, seed=3)
    score = held_out_score(given)
    assert score.after.low < 0.5 < score.after.high
    assert score.examples == 200


def test_the_score_tells_what_was_gained():
    score = held_out_score(lesson(60, k=2, spread=0.05, plain_spread=2.0))
    assert score.after.value > score.before.value + 0.2
    assert score.after.low <= score.after.value <= score.after.high <= 1
    assert np.mean([right / 30 for right in score.right]) == pytest.approx(score.after.value)
    few = held_out_score(lesson(6, k=2, spread=2.0))
    assert few.after.high - few.after.low > 0.25


def test_many_examples_are_scored_by_a_part(monkeypatch):
    monkeypatch.setattr("retriever.index.teaching.scoring.MANY", 50)
    assert held_out_score(lesson(100)).examples == 20


@pytest.mark.parametrize(
    ("lost", "won", "refused"), [(0, 0, False), (1, 0, False), (2, 0, True), (3, 2, False), (7, 2, True)]
)
def test_fine_tuning_is_refused_where_clearly_fewer_are_right(lost, won, refused):
    for n in (20, 40):
        more = np.array([-1.0] * lost + [1.0] * won + [0.0] * (n - lost - won))
        assert tuning._clearly_fewer(more) is refused
