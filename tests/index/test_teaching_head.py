import numpy as np
import pytest

from retriever.core.errors import IndexDamagedError
from retriever.core.similarity import normalise
from retriever.index.teaching import learning
from retriever.index.teaching.head import Head, from_stored, softmax
from retriever.index.teaching.learning import Lesson, learn
from retriever.index.teaching.scoring import folds, held_out_score


def head(*, plain=True):
    generator = np.random.default_rng(0)
    e = 3 if plain else 0
    return Head(
        ["no", "yes"],
        generator.normal(size=4).astype(np.float32),
        generator.normal(size=(4, 2)).astype(np.float32),
        generator.normal(size=e).astype(np.float32),
        generator.normal(size=(e, 2)).astype(np.float32),
        2.0,
        0.75,
    )


def vectors(n, d, seed=1):
    return normalise(np.random.default_rng(seed).normal(size=(n, d)))


def lesson(n=40, k=2, *, spread=1.0, plain_spread=0.0, d=32, seed=0, names=False):
    """Texts whose answers lie apart by ``spread`` in one direction a answer, under much that all have in common."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % k
    corners, beside = generator.normal(size=(k, d)), generator.normal(size=(k, d))
    asked = normalise(3 + generator.normal(size=(n, d)) * 2 + spread * corners[labels])
    plain = normalise(generator.normal(size=(n, d)) * 2 + plain_spread * beside[labels])
    named = normalise(3 + spread * corners) if names else None
    return Lesson(
        [f"answer {number}" for number in range(k)],
        labels,
        asked,
        plain,
        named,
        None if named is None else normalise(beside),
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
    one = head(plain=False)
    made = one.map(one.mean[None])
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-6)
    assert not made[0, 2:].any()


def test_a_head_that_looks_at_the_plain_reader_asks_for_it():
    with pytest.raises(ValueError, match="plain reader"):
        head().map(vectors(2, 4))


@pytest.mark.parametrize("plain", [True, False])
def test_what_is_stored_is_read_back(plain):
    one = head(plain=plain)
    again = from_stored(one.to_bytes(), one.describe())
    assert again.digest() == one.digest()
    assert again.uses_plain is plain
    b = vectors(3, 3) if plain else None
    np.testing.assert_array_equal(again.map(vectors(3, 4), b), one.map(vectors(3, 4), b))


def test_another_number_is_another_digest():
    one = head()
    weights = one.weights.copy()
    weights[0, 0] += 1e-3
    other = Head(one.answers, one.mean, weights, one.plain_mean, one.plain_weights, one.sharpness, one.share)
    assert other.digest() != one.digest()


@pytest.mark.parametrize(
    "changed",
    [
        {"answers": []},
        {"answers": 3},
        {"dim": 5},
        {"dim": -4},
        {"dim": 10**30},
        {"plain_dim": None},
        {"sharpness": float("nan")},
        {"sharpness": -1},
        {"share": 1.0},
        {"share": "much"},
    ],
)
def test_what_no_head_is_made_of_is_damage(changed):
    one = head()
    with pytest.raises(IndexDamagedError, match="cannot be read"):
        from_stored(one.to_bytes(), {**one.describe(), **changed})


@pytest.mark.parametrize("described", [None, [], {}])
def test_what_does_not_describe_a_head_is_damage(described):
    with pytest.raises(IndexDamagedError, match="cannot be read"):
        from_stored(head().to_bytes(), described)


def test_arrays_that_are_cut_or_hold_no_numbers_are_damage():
    one = head()
    bad = np.full(len(one.to_bytes()) // 4, np.nan, dtype="<f4").tobytes()
    for arrays in (one.to_bytes()[:-4], one.to_bytes()[:-1], bad, b""):
        with pytest.raises(IndexDamagedError, match="cannot be read"):
            from_stored(arrays, one.describe())


@pytest.mark.parametrize("n", [12, 80])
def test_leaving_out_by_formula_is_leaving_out_by_learning_anew(n):
    given = lesson(n, k=3, d=20, names=True)
    features = list(learning._features(given))[2]
    found = {(one.ridge, one.sharpness): one.loss for one in learning._left_out(given, features, 2)}
    rows = np.concatenate([features.rows, features.names])
    labels = np.concatenate([given.labels, np.arange(3)])
    codes = np.where(labels[:, None] == np.arange(3), 1.0, -0.5)
    weights = np.concatenate([n / (3 * np.bincount(given.labels))[given.labels], np.full(3, learning.NAME_WEIGHT)])
    for ridge in (0.1, 3.0):
        loss = 0.0
        for left in range(n):
            known = np.arange(n + 3) != left
            a, w = rows[known], weights[known][:, None]
            solved = np.linalg.solve(a.T @ (w * a) + ridge * np.eye(a.shape[1]), a.T @ (w * codes[known]))
            p = softmax(2.0 * rows[left : left + 1] @ solved)[0, given.labels[left]]
            loss -= np.log(p) / (np.bincount(given.labels)[given.labels[left]] * 3)
        assert found[ridge, 2.0] == pytest.approx(loss, rel=1e-5)


def triplets(made, labels):
    """The share of triples of a text, one with its answer and one with another whose first two are nearer."""
    cosines = made @ made.T
    same = labels[:, None] == labels
    right = [
        (cosines[row][same[row] & (np.arange(len(labels)) != row)][:, None] > cosines[row][~same[row]]).mean()
        for row in range(len(labels))
    ]
    return np.mean(right)


def test_texts_of_one_answer_that_were_never_seen_come_together():
    every = lesson(400, k=2, spread=1.0)
    known, new = every.part(np.arange(40)), every.part(np.arange(40, 400))
    made = learn(known).map(new.vectors, new.plain)
    assert triplets(made, new.labels) > triplets(new.vectors, new.labels) + 0.1


def test_what_the_plain_reader_knows_is_used_where_it_helps():
    assert learn(lesson(60, spread=0.05, plain_spread=2.0)).uses_plain
    assert not learn(lesson(60, spread=1.5, plain_spread=0.0)).uses_plain


def test_one_reader_alone_is_enough():
    given = lesson(30)
    alone = Lesson(given.answers, given.labels, given.vectors, None, None, None, given.mean, None)
    found = learn(alone)
    assert not found.uses_plain
    assert found.probabilities(given.vectors).argmax(axis=1).tolist() == given.labels.tolist()


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
    few = held_out_score(lesson(6, k=2, spread=2.0))
    assert few.after.high - few.after.low > 0.25


def test_many_examples_are_scored_by_a_part(monkeypatch):
    monkeypatch.setattr("retriever.index.teaching.scoring.MANY", 50)
    assert held_out_score(lesson(100)).examples == 20
