import numpy as np
import pytest

from retriever.clusters.arithmetic.sampling import Sample, draw, weigh


def total(sample: Sample, values: np.ndarray, read: np.ndarray | None = None) -> float:
    return float(weigh(sample, sample.rounds > 0 if read is None else read).texts @ values)


def test_every_text_is_drawn_as_often_as_its_chance_says():
    unsure = np.random.default_rng(1).random(60) ** 2
    samples = [draw(Sample.empty(60), 12, unsure=unsure, seed=seed) for seed in range(4000)]
    drawn = np.array([sample.rounds > 0 for sample in samples])
    chances = np.max([sample.chances for sample in samples], axis=0)
    assert np.all(drawn.sum(axis=1) == 12)
    assert chances.sum() == pytest.approx(12)
    assert chances.min() >= 0.5 * 12 / 60  # even a text that is predicted for sure may be drawn
    assert np.abs(drawn.mean(axis=0) - chances).max() < 4 * np.sqrt(0.25 / 4000)


def test_a_text_much_less_sure_than_the_others_is_always_half_sure_of_a_place():
    unsure = np.array([1000.0] + [1.0] * 99)
    sample = draw(Sample.empty(100), 10, unsure=unsure, seed=next(s for s in range(99) if drawn_first(unsure, s)))
    assert sample.chances[0] == pytest.approx(0.5 * 0.1 + 0.5)
    others = sample.chances[1:][sample.rounds[1:] > 0]
    assert others == pytest.approx(np.full(9, 0.5 * 0.1 + 0.5 * 9 / 99))


def drawn_first(unsure: np.ndarray, seed: int) -> bool:
    return draw(Sample.empty(len(unsure)), 10, unsure=unsure, seed=seed).rounds[0] > 0


def test_uniform_draws_are_simple_random_sampling():
    pairs = np.zeros((6, 6))
    for seed in range(6000):
        pairs += np.outer(*[draw(Sample.empty(6), 3, seed=seed).rounds] * 2)
    assert np.abs(pairs[np.triu_indices(6, 1)] / 6000 - 0.2).max() < 4 * np.sqrt(0.16 / 6000)


def test_a_seed_gives_one_sample_and_another_seed_another():
    first, again, other = (draw(Sample.empty(500), 50, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(first.rounds, again.rounds)
    assert not np.array_equal(first.rounds, other.rounds)


def test_a_sample_grows_and_keeps_what_was_read():
    first = draw(Sample.empty(400), 100)
    known = np.zeros(400, dtype=bool)
    known[:30] = True
    second = draw(first, 200, known=known)
    before = first.rounds > 0
    assert np.array_equal(second.rounds[before], first.rounds[before])
    assert np.array_equal(second.chances[before], first.chances[before])
    stratum = known & ~before
    assert np.all(second.rounds[stratum] == 2)
    assert np.all(second.chances[stratum] == 1)
    drawn = (second.rounds == 2) & ~stratum
    assert drawn.sum() == 200
    assert second.chances[drawn] == pytest.approx(np.full(200, 200 / (400 - 100 - stratum.sum())))
    assert second.random.sum() == 300


def test_a_total_is_unbiased_though_later_chances_hang_on_earlier_answers():
    rng = np.random.default_rng(5)
    values = np.where(rng.random(150) < 0.2, 10.0, 1.0)
    searched = np.argsort(-values + rng.standard_normal(150))[:15]
    known = np.isin(np.arange(150), searched)
    totals = []
    for seed in range(3000):
        sample = draw(Sample.empty(150), 15, known=known, seed=seed)
        answered = values * (sample.rounds > 0)
        sample = draw(sample, 20, unsure=1 + np.roll(answered, 1), seed=seed)
        totals.append(total(draw(sample, 10, seed=seed), values))
    error = np.std(totals) / np.sqrt(len(totals))
    assert abs(np.mean(totals) - values.sum()) < 3.5 * error
    naive = 150 * values[sample.rounds > 0].mean()
    assert abs(naive - values.sum()) > 20 * error


def test_weights_come_to_the_number_of_texts_and_to_one_each_where_all_were_read():
    sample = draw(draw(Sample.empty(90), 20), 30, unsure=np.arange(90.0))
    weights = weigh(sample, sample.rounds > 0)
    assert weights.texts.sum() == pytest.approx(90)
    assert sum(part.share for part in weights.rounds) == pytest.approx(1)
    assert np.all(weights.texts[sample.rounds == 0] == 0)
    complete = draw(sample, 90)
    assert weigh(complete, complete.rounds > 0).texts == pytest.approx(np.ones(90))


def test_texts_that_could_not_be_read_are_stood_for_by_their_round():
    first = draw(Sample.empty(300), 60, seed=2)
    sample = draw(first, 60, seed=2)
    failed = np.flatnonzero(sample.rounds == 2)[:40]
    read = (sample.rounds > 0) & ~np.isin(np.arange(300), failed)
    weights = weigh(sample, read)
    assert weights.texts.sum() == pytest.approx(300)
    assert np.all(weights.texts[failed] == 0)
    few, many = weights.rounds[1], weights.rounds[0]
    assert (len(many.rows), len(few.rows)) == (60, 20)
    assert few.weights == pytest.approx(np.full(20, 12.0))
    assert few.share < many.share


def test_texts_read_outside_the_sample_do_not_count():
    sample = draw(Sample.empty(50), 10)
    assert np.array_equal(weigh(sample, np.ones(50, dtype=bool)).texts, weigh(sample, sample.rounds > 0).texts)


def test_without_draws_nothing_is_estimated():
    assert weigh(Sample.empty(5), np.ones(5, dtype=bool)).texts.sum() == 0
    known = np.array([True, False, False])
    assert weigh(draw(Sample.empty(3), 0, known=known), known).texts.sum() == 0
    assert len(weigh(Sample.empty(0), np.zeros(0, dtype=bool)).rounds) == 0
