import numpy as np
import pytest
from sample_coverage import Setting, measured

from retriever.clusters.arithmetic.prediction import UNREAD, agreement, outcome, predict
from retriever.clusters.arithmetic.sampling import Sample

TEXTS = 800


def material(apart: float, classes: int = 3, seed: int = 0):
    """Vectors (n, 12) whose first axes tell the classes apart, the classes, and the answers of 200 texts."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(classes, TEXTS, p=np.arange(1, classes + 1) / np.arange(1, classes + 1).sum())
    vectors = rng.standard_normal((TEXTS, 12))
    vectors[np.arange(TEXTS), truth] += apart
    drawn = rng.permutation(TEXTS) < 200
    return vectors, truth, np.where(drawn, truth, UNREAD), Sample(drawn, drawn)


def test_texts_that_were_not_read_are_predicted_from_their_vectors():
    vectors, truth, answers, _ = material(6)
    prediction = predict([vectors], answers, 3)
    assert prediction.probabilities.sum(axis=1) == pytest.approx(np.ones(TEXTS))
    assert prediction.probabilities.min() >= 0
    unread = answers == UNREAD
    assert np.mean(prediction.probabilities.argmax(axis=1)[unread] == truth[unread]) > 0.95


def test_no_text_is_predicted_by_a_model_that_saw_its_answer():
    vectors, _, answers, _ = material(1)
    usual = predict([vectors], answers, 3).probabilities
    for text in np.flatnonzero(answers != UNREAD)[:10]:
        changed = answers.copy()
        changed[text] = (answers[text] + 1) % 3
        moved = np.abs(predict([vectors], changed, 3).probabilities - usual).max(axis=1)
        assert moved[text] == 0
        assert moved[answers == UNREAD].max() > 0
        assert 0.7 < np.mean(moved[answers != UNREAD] > 0) < 0.9  # the fold of the text has the same model as before


def test_a_text_that_was_not_read_has_the_mean_of_the_folds_models():
    vectors, _, answers, _ = material(1, classes=2)
    vectors[:61] = vectors.mean(axis=0)  # equal texts; the last was not read, and the models of the others differ
    answers[:60], answers[60] = np.arange(60) % 2, UNREAD
    equal = predict([vectors], answers, 2).probabilities[:61, 1]
    folds = np.unique(np.round(equal[:60], 6))
    assert len(folds) == 5
    assert equal[60] == pytest.approx(folds.mean(), abs=1e-5)


def test_vectors_that_say_nothing_predict_no_better_than_the_commonest_answer():
    better = [check.better for check in (checked(0, seed) for seed in range(40))]
    assert np.mean(better) <= 0.05
    check = checked(4, 0)
    assert check.better
    assert check.predicted.interval.low > check.commonest.interval.high
    gap = check.predicted.interval.value - check.commonest.interval.value
    assert check.gain.interval.value == pytest.approx(gap)


def checked(apart: float, seed: int):
    vectors, _, answers, sample = material(apart, seed=seed)
    return agreement(predict([vectors], answers, 3, seed=seed), answers, sample)


def test_held_out_agreement_is_that_of_the_corpus():
    vectors, truth, answers, sample = material(2, seed=4)
    prediction = predict([vectors], answers, 3)
    unread = answers == UNREAD
    actual = np.mean(prediction.probabilities.argmax(axis=1)[unread] == truth[unread])
    interval = agreement(prediction, answers, sample).predicted.interval
    assert interval.low < actual < interval.high


def test_blocks_of_vectors_weigh_the_same_whatever_their_lengths():
    vectors, _, answers, _ = material(2)
    usual = predict([vectors[:, :4], vectors[:, 4:]], answers, 3).probabilities
    longer = predict([vectors[:, :4] * 1000 + 7, vectors[:, 4:]], answers, 3).probabilities
    assert longer == pytest.approx(usual, abs=1e-3)
    assert np.array_equal(predict([vectors[:, :4], vectors[:, 4:]], answers, 3).probabilities, usual)
    assert not np.array_equal(predict([vectors[:, :4], vectors[:, 4:]], answers, 3, seed=1).probabilities, usual)
    assert np.isfinite(predict([np.ones((TEXTS, 3)), vectors], answers, 3).probabilities).all()


def test_an_answer_that_occurs_once_or_never_is_predicted_rarely():
    vectors, _, answers, _ = material(4)
    answers[np.flatnonzero(answers != UNREAD)[0]] = 3
    probabilities = predict([vectors], answers, 5).probabilities
    assert probabilities[:, 3].mean() < 0.05
    assert np.all(probabilities[:, 4] == 0)


def test_where_nothing_can_be_learned_nothing_is_predicted():
    vectors, _, answers, _ = material(4)
    assert predict([vectors], np.where(answers == UNREAD, UNREAD, 2), 3) is None
    few = np.where(np.cumsum(answers != UNREAD) <= 19, answers, UNREAD)
    assert predict([vectors], few, 3) is None
    assert predict([vectors], np.full(TEXTS, UNREAD), 3) is None
    assert predict([], answers, 3) is None
    assert outcome(answers, 2).predicted is None
    assert np.array_equal(outcome(answers, 2).has, answers == 2)


@pytest.mark.parametrize(
    ("setting", "narrower"),
    [
        (Setting(600, 200, "useless", 0.2), 1.05),
        (Setting(600, 300, "good", None), 0.75),
        (Setting(2000, 200, "perfect", 0.2), 0.5),
    ],
)
def test_intervals_hold_in_a_small_simulation(setting, narrower):
    rows = {row["estimate"]: row for row in measured(setting, 100)}
    for row in rows.values():
        assert row["missed"] <= 0.11  # 5 of 100 are meant to; 12 or more are by chance in 1 of 250
    assert rows["share 20%"]["given"] > 0.9
    assert rows["share 20%"]["width"] < narrower * rows["share 20%"]["width_alone"]
