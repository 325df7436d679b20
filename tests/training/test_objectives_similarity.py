import itertools
import random

import numpy as np
import pytest
import torch
from objective_checks import BATCH, EVERY, ROWS, agree, learner, row, vector

from retriever.core.errors import UsageError
from retriever.training.losses.afd import order_error, similarity_error
from retriever.training.losses.vectors import unit
from retriever.training.objectives import reading, similarity
from retriever.training.objectives.inbedder import InBedderObjective, InBedderSettings
from retriever.training.objectives.similarity import (
    GROUP_SIZE,
    RelatedTexts,
    SimilarityObjective,
    SimilaritySettings,
    nearest,
    pool,
)

SETTINGS = SimilaritySettings(weight=0.3, texts=7)
MANY = [row(f"text {i}", f"question {i}", f"answer {i}") for i in range(50)]


class Letters:
    """Counts of a few letters: vectors that a person can check."""

    def encode(self, texts):
        return np.array([[text.count(letter) + 0.1 for letter in "aeoty"] for text in texts], dtype=np.float32)


class Nothing:
    """An objective without losses of its own."""

    def batches(self, epoch):
        return [[*EVERY]] * 4

    def backward(self, batch):
        return {"loss": 2.0, "other": 1.0}


def both_errors(student, texts):
    taught = torch.tensor(Letters().encode(texts))
    return similarity_error(student, taught) + 0.05 * order_error(student, taught)


def objective(one, inner=None, *, rows=ROWS, settings=SETTINGS, held_tokens=9999, steps=None):
    return SimilarityObjective(inner or Nothing(), one, rows, settings, Letters(), held_tokens=held_tokens, steps=steps)


@pytest.mark.parametrize(("look_ahead", "steps"), [(0, None), (2, None), (0, 3)])
def test_similarities_and_gradients_are_those_of_texts_read_alone(tiny, monkeypatch, look_ahead, steps):
    monkeypatch.setattr(reading, "PIECE_TOKENS", 120)
    one = learner(tiny("llama"), look_ahead=look_ahead)
    trained = objective(one, steps=steps)
    cached = objective(one, held_tokens=1, steps=steps)
    texts = trained.drawn([2, 0])
    assert len(texts) == 7

    def reference():
        student = torch.stack([vector(one, text, "", steps) for text in texts])
        return 2 + 0.3 * both_errors(student, texts)

    losses = agree(one, reference, lambda: trained.backward([2, 0]), lambda: cached.backward([2, 0]))
    assert losses["other"] == 1
    assert losses["loss"] == pytest.approx(2 + 0.3 * losses["similarity"])


def test_it_adds_to_the_gradients_of_the_other_objective(tiny):
    one = learner(tiny("llama"))
    inner = InBedderObjective(one, ROWS, InBedderSettings(), BATCH)
    trained = objective(one, inner)
    assert trained.batches(2) == inner.batches(2)

    def both():
        expected = inner.backward([1, 4])["loss"]
        student = torch.stack([vector(one, text) for text in trained.drawn([1, 4])])
        return expected + 0.3 * both_errors(student, trained.drawn([1, 4]))

    agree(one, both, lambda: trained.backward([1, 4]))


def test_seed_and_batch_alone_decide_what_is_drawn(tiny):
    one = learner(tiny("llama"))
    first, again = (objective(one, rows=MANY, settings=SimilaritySettings(texts=12)) for _ in range(2))
    first.backward([0, 1])
    assert first.drawn([3, 4]) == again.drawn([3, 4])
    assert first.drawn([3, 4]) != first.drawn([4, 5])
    other = type(one)(one.adapted, one.tokeniser, seed=4)
    assert objective(other, rows=MANY).drawn([3, 4]) != objective(one, rows=MANY).drawn([3, 4])


def test_a_draw_holds_texts_that_the_teacher_finds_alike():
    texts = ["".join(letters) for letters in itertools.product("aeot", repeat=4)]
    vectors = unit(torch.tensor(Letters().encode(texts))).numpy()
    related, draws = RelatedTexts(texts, vectors), [random.Random(seed) for seed in range(40)]
    drawn = np.array([related.draw(GROUP_SIZE + 1, draw) for draw in draws])
    assert all(len(set(one)) == GROUP_SIZE + 1 for one in drawn)
    cosines = np.einsum("ngd,nd->ng", vectors[drawn], vectors[drawn[:, 0]])
    assert cosines[:, 1:GROUP_SIZE].min() > 0.9
    assert cosines[:, GROUP_SIZE].mean() < 0.8  # another group begins


def test_the_teacher_reads_what_an_epoch_compares_and_no_more(tiny):
    rows = [row(f"text {i}", f"question {i}", f"answer {i}") for i in range(50)]
    assert len(set(pool(rows, 40, 0))) == 40 == len(pool(rows, 40, 0))
    assert pool(rows, 40, 0) == pool(rows, 40, 0) != pool(rows, 40, 1)
    assert set(pool(rows, 999, 0)) == {f"{kind} {i}" for kind in ("text", "question", "answer") for i in range(50)}
    read = []

    class Reader(Letters):
        def encode(self, texts):
            read.extend(texts)
            return super().encode(texts)

    one = learner(tiny("llama"))
    trained = SimilarityObjective(Nothing(), one, rows, SETTINGS, Reader(), held_tokens=9999)
    trained.backward([0, 1])
    assert len(read) == 4 * SETTINGS.texts


@pytest.mark.parametrize("signs", [False, True], ids=["vectors", "ties"])
@pytest.mark.parametrize("count", [1, 3, 1199])
def test_the_nearest_rows_are_those_of_a_stable_sort(signs, count):
    vectors = np.random.default_rng(0).normal(size=(1200, 5)).astype(np.float32)
    if signs:
        vectors = np.sign(vectors)  # 32 different ones, so that most cosines are equal to many others
    cosines = np.concatenate([vectors[:1024] @ vectors.T, vectors[1024:] @ vectors.T])
    np.fill_diagonal(cosines, -np.inf)
    expected = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(nearest(vectors, count), expected)


def test_a_pool_has_no_more_texts_than_the_cap(tiny, monkeypatch):
    monkeypatch.setattr(similarity, "MOST_TEXTS", 11)
    read = []

    class Reader(Letters):
        def encode(self, texts):
            read.extend(texts)
            return super().encode(texts)

    trained = SimilarityObjective(Nothing(), learner(tiny("llama")), MANY, SETTINGS, Reader(), held_tokens=9999)
    assert len(read) == 11
    assert set(trained.drawn([0, 1])) < set(read)


def test_few_rows_give_each_different_text_once(tiny):
    rows = [row("x", "mood", "love"), row("x", "", "love")]
    assert sorted(objective(learner(tiny("llama")), rows=rows).drawn([0])) == ["love", "mood", "x"]
    alone = [row("x", "", "x")]
    assert objective(learner(tiny("llama")), rows=alone).backward([0])["similarity"] == 0


def test_training_brings_the_similarities_nearer(tiny):
    one = learner(tiny("llama"), fresh=True)
    trained = objective(one)
    optimizer = torch.optim.Adam(one.adapted.parameters.values(), lr=0.003)
    values = []
    for _ in range(12):
        optimizer.zero_grad()
        values.append(trained.backward([0, 1])["similarity"])
        optimizer.step()
    assert values[-1] < 0.8 * values[0]


def test_what_makes_no_sense_is_refused(tiny):
    with pytest.raises(UsageError, match=r"weight is -0\.1"):
        SimilaritySettings(weight=-0.1)
    with pytest.raises(UsageError, match="1 texts make no pair"):
        SimilaritySettings(texts=1)
    with pytest.raises(UsageError, match="needs a causal one"):
        objective(learner(tiny("bert")))
