import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from objective_checks import BATCH, EVERY, ONE_BY_ONE, ROWS, agree, learner, row, vector
from training_models import move

from retriever.encoders.behind_prompt import LEARNED, InstEmbEncoder, untrained_look_ahead
from retriever.encoders.checkpoint import load_checkpoint
from retriever.encoders.methods import EncoderOptions, build
from retriever.training.adapter_files import load_trained, save_trained, trained_encoder
from retriever.training.loss_parts import order_error, similarity_error, squared_error, unit
from retriever.training.objectives import distillation, reading
from retriever.training.objectives.distillation import (
    GROUP_SIZE,
    FusionObjective,
    FusionSettings,
    RelatedTexts,
    SimilarityObjective,
    SimilaritySettings,
    fused_targets,
    nearest,
    pool,
)
from retriever.training.objectives.inbedder import InBedderObjective, InBedderSettings

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


class Reader(Letters):
    """Notes the texts that it reads."""

    def __init__(self):
        super().__init__()
        self.read = []

    def encode(self, texts):
        self.read.extend(texts)
        return super().encode(texts)


def test_the_teacher_reads_what_an_epoch_compares_and_no_more(tiny):
    rows = [row(f"text {i}", f"question {i}", f"answer {i}") for i in range(50)]
    assert len(set(pool(rows, 40, 0))) == 40 == len(pool(rows, 40, 0))
    assert pool(rows, 40, 0) == pool(rows, 40, 0) != pool(rows, 40, 1)
    assert set(pool(rows, 999, 0)) == {f"{kind} {i}" for kind in ("text", "question", "answer") for i in range(50)}
    reader = Reader()
    one = learner(tiny("llama"))
    trained = SimilarityObjective(Nothing(), one, rows, SETTINGS, reader, held_tokens=9999)
    trained.backward([0, 1])
    assert len(reader.read) == 4 * SETTINGS.texts


@pytest.mark.parametrize("count", [3, 12])
def test_the_nearest_rows_are_those_of_a_sort(count):
    vectors = np.random.default_rng(0).normal(size=(1200, 5)).astype(np.float32)
    cosines = np.concatenate([vectors[:1024] @ vectors.T, vectors[1024:] @ vectors.T])
    np.fill_diagonal(cosines, -np.inf)
    expected = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(nearest(vectors, count), expected)


def test_a_pool_has_no_more_texts_than_the_cap(tiny, monkeypatch):
    monkeypatch.setattr(distillation, "MOST_TEXTS", 11)
    reader = Reader()
    trained = SimilarityObjective(Nothing(), learner(tiny("llama")), MANY, SETTINGS, reader, held_tokens=9999)
    assert len(reader.read) == 11
    assert set(trained.drawn([0, 1])) < set(reader.read)


def test_few_rows_give_each_different_text_once(tiny):
    rows = [row("x", "mood", "love"), row("x", "", "love")]
    assert sorted(objective(learner(tiny("llama")), rows=rows).drawn([0])) == ["love", "mood", "x"]
    alone = [row("x", "", "x")]
    assert objective(learner(tiny("llama")), rows=alone).backward([0])["similarity"] == 0


TEXTS = [one.text for one in ROWS]
ASKED = [one.instruction for one in ROWS]
METHODS = {
    "last": ("inbedder", 0, None, "layers"),
    "daap": ("instemb", 2, None, "lora"),
    "soft-tokens": ("gircse", 0, 3, "lora"),
}


def encoded(encoder):
    """Every text by the encoder, under its own instruction."""
    return np.stack([encoder.encode([text], instruction=asked)[0] for text, asked in zip(TEXTS, ASKED, strict=True)])


def before(untrained, method, look_ahead, steps):
    if look_ahead:
        return InstEmbEncoder(untrained, EncoderOptions(), {LEARNED: untrained_look_ahead(untrained, look_ahead)})
    return build(method, untrained, EncoderOptions(steps=steps))


@pytest.mark.parametrize(("method", "look_ahead", "steps", "kind"), METHODS.values(), ids=METHODS)
def test_targets_fuse_what_the_trained_and_the_untrained_encoder_give(
    tiny, backbone, monkeypatch, method, look_ahead, steps, kind
):
    monkeypatch.setattr(reading, "PIECE_TOKENS", 120)
    one = learner(tiny("llama"), kind=kind, look_ahead=look_ahead, dropout=0.4)
    kept = {name: values.detach().clone() for name, values in one.adapted.parameters.items()}
    found = fused_targets(one, TEXTS, ASKED, FusionSettings(new_weight=0.4), steps=steps)
    new = encoded(trained_encoder(one.adapted, method, EncoderOptions(steps=steps)))
    base = encoded(before(backbone("llama"), method, look_ahead, steps))
    mixed = 0.4 * new + 0.6 * base
    expected = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
    assert np.abs(found.numpy() - expected).max() < 1e-5
    assert np.abs(new - base).max() > 0.05
    assert not found.requires_grad
    for name, values in one.adapted.parameters.items():
        assert torch.equal(values, kept[name])


def test_targets_of_a_model_that_was_trained_before_fuse_it_with_what_it_was_then(tiny, tmp_path):
    trained = learner(tiny("llama"), look_ahead=2).adapted
    save_trained(trained, tmp_path / "base", method="instemb", options=EncoderOptions())
    base = load_checkpoint(tmp_path / "base", EncoderOptions(), device="cpu", dtype="float32")
    one = learner(tiny("llama"), fresh=True)
    one = replace(one, adapted=load_trained(tmp_path / "base", device="cpu", dtype="float32"))
    move(one.adapted, seed=1)
    found = fused_targets(one, TEXTS, ASKED, FusionSettings(new_weight=0.4), base=base)
    mixed = 0.4 * encoded(trained_encoder(one.adapted, "instemb", EncoderOptions())) + 0.6 * encoded(base)
    expected = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
    assert np.abs(found.numpy() - expected).max() < 1e-5
    bare = fused_targets(one, TEXTS, ASKED, FusionSettings(new_weight=0.4))
    assert (found - bare).abs().max() > 0.05


@pytest.mark.parametrize(("look_ahead", "steps"), [(0, None), (2, None), (0, 3)])
def test_loss_and_gradients_are_those_of_texts_read_alone(tiny, monkeypatch, look_ahead, steps):
    monkeypatch.setattr(reading, "PIECE_TOKENS", 120)
    one = learner(tiny("llama"), look_ahead=look_ahead)
    targets = torch.nn.functional.normalize(
        torch.randn(len(ROWS), 32, generator=torch.Generator().manual_seed(1)), dim=-1
    )
    whole, pieces = (FusionObjective(one, TEXTS, ASKED, targets, batch, steps=steps) for batch in (BATCH, ONE_BY_ONE))
    chosen = [5, 0, 1, 7, 3]

    def reference():
        student = torch.stack([vector(one, TEXTS[i], ASKED[i], steps) for i in chosen])
        return squared_error(student, targets[chosen])

    agree(one, reference, lambda: whole.backward(chosen), lambda: pieces.backward(chosen))


def test_the_trained_model_itself_as_target_leaves_nothing_to_learn(tiny):
    one = learner(tiny("llama"))
    targets = fused_targets(one, TEXTS, ASKED, FusionSettings(new_weight=1.0))
    assert FusionObjective(one, TEXTS, ASKED, targets, BATCH).backward([*EVERY])["loss"] == pytest.approx(0, abs=1e-9)
