import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import edit_json

from retriever import load_encoder
from retriever.core.errors import EncoderError
from retriever.core.protocols import TUNED, Tuning
from retriever.encoders.bert import tensors
from retriever.encoders.bert.arrays import (
    LINEAR,
    ArrayBert,
    Factors,
    plan_packs,
    read_weights,
    to_tuning,
    tuned_weights,
)
from retriever.encoders.bert.encoder import BertEncoder
from retriever.encoders.bert.layout import read_layout
from retriever.encoders.sentence_encoder import StockModel

OPENINGS = ["knife", "toy", "lamp", "dog", "child", "red", "blue", "kettle"]
LENGTHS = [3, 0, 3, 3, 0, 1, 1, 0]  # a pack has the longest first
TEXTS = [
    f"{one} {'water ' * more}{'sharp' if number % 2 else 'heavy'}"
    for number, (one, more) in enumerate(zip(OPENINGS, LENGTHS, strict=True))
]
LABELS = np.arange(len(TEXTS)) % 2
STEPS = 20


@pytest.fixture(scope="module")
def folder(tiny):
    return tiny("sentence")


@pytest.fixture(scope="module")
def encoder(folder):
    return load_encoder(f"st:{folder}", device="cpu")


@pytest.fixture(scope="module")
def learned(encoder):
    return encoder.tune(TEXTS, LABELS, steps=STEPS)


def factors(folder, rank=3, seed=0):
    """Factors of the size of a model: of the first layer's attention, of what follows it, and so on."""
    generator = np.random.default_rng(seed)
    shapes = [
        getattr(layer, name).weight.shape for layer in read_weights(read_layout(folder)).layers for name in LINEAR
    ]

    def drawn(*shape):
        return generator.normal(size=shape).astype(np.float32)

    return [Factors(drawn(out, rank), drawn(rank, inner)) for out, inner in shapes]


def apart(encoder):
    """The mean cosine of two texts of one label, less that of texts of two."""
    vectors = encoder.encode(TEXTS)
    cosines, same = vectors @ vectors.T, LABELS[:, None] == LABELS
    return float(cosines[same & ~np.eye(len(TEXTS), dtype=bool)].mean() - cosines[~same].mean())


def test_texts_of_one_label_come_nearer(encoder, learned):
    assert apart(encoder.tuned(learned)) > apart(encoder) + 0.3


def test_the_same_examples_tune_the_same(folder, encoder, learned):
    other = load_encoder(f"st:{folder}", device="cpu")
    again = other.tune(TEXTS, LABELS, steps=STEPS)
    assert again.arrays == learned.arrays
    assert again.digest() == learned.digest()
    assert encoder.tune(TEXTS, LABELS, steps=STEPS - 1).digest() != learned.digest()
    assert encoder.tune(TEXTS, np.sort(LABELS), steps=STEPS).digest() != learned.digest()


def test_the_encoder_stays_as_it_was(folder):
    encoder = load_encoder(f"st:{folder}", device="cpu")
    before = encoder.encode(TEXTS)
    made = encoder.tuned(encoder.tune(TEXTS, LABELS, steps=STEPS))
    assert abs(made.encode(TEXTS) - before).max() > 0.01
    np.testing.assert_array_equal(encoder.encode(TEXTS), before)
    assert encoder.fingerprint == load_encoder(f"st:{folder}", device="cpu").fingerprint


def test_the_tuned_model_reads_the_same_with_numpy_and_with_torch(encoder, learned, monkeypatch):
    expected = encoder.tuned(learned).encode_queries(TEXTS)
    monkeypatch.setattr("retriever.encoders.bert.tensors.multiplies_bfloat16", lambda: False)
    monkeypatch.setattr(ArrayBert, "read", lambda *_: pytest.fail("NumPy reads"))
    untuned = encoder.encode(TEXTS)  # its model in torch is made before the tuned one's
    np.testing.assert_allclose(encoder.tuned(learned).encode(TEXTS), expected, atol=1e-5)
    assert abs(untuned - expected).max() > 0.01


def test_what_is_learned_is_added_to_the_weights(folder):
    weights, drawn = read_weights(read_layout(folder)), factors(folder)
    changed = tuned_weights(weights, to_tuning(drawn))
    pairs = [(one, name) for one in range(len(weights.layers)) for name in LINEAR]
    for (layer, name), one in zip(pairs, drawn, strict=True):
        before, after = (getattr(of.layers[layer], name) for of in (weights, changed))
        np.testing.assert_allclose(after.weight, before.weight + one.up @ one.down, atol=1e-6)
        assert after.bias is before.bias
    assert changed.words is weights.words


def test_what_was_stored_tunes_the_same(encoder, learned):
    stored = Tuning(bytes(learned.arrays), json.loads(json.dumps(learned.description)))
    assert stored.digest() == learned.digest()
    first, second = encoder.tuned(learned), encoder.tuned(stored)
    assert first.fingerprint == second.fingerprint
    np.testing.assert_array_equal(first.encode(TEXTS), second.encode(TEXTS))


def test_fingerprints_tell_tunings_apart_and_end_with_the_one_before(folder, encoder, learned):
    other = to_tuning(factors(folder))
    assert len({encoder.fingerprint, *(encoder.tuned(one).fingerprint for one in (learned, other))}) == 3
    made = encoder.tuned(learned).fingerprint
    assert (made[: len(TUNED)], made[-len(encoder.fingerprint) :]) == (TUNED, encoder.fingerprint)
    assert replace(learned, description={**learned.description, "rank": 4}).digest() != learned.digest()
    assert encoder.tuned(learned).spec == replace(encoder.spec, name="", fingerprint=made)


def spoiled(value):
    def change(drawn):
        drawn[3].down[1, 2] = value
        return to_tuning(drawn)

    return change


def described(**changes):
    return lambda drawn: replace(to_tuning(drawn), description={"kind": "low-rank", "rank": 3, **changes})


def cut(length):
    return lambda drawn: replace(to_tuning(drawn), arrays=to_tuning(drawn).arrays[:length])


@pytest.mark.parametrize(
    "change",
    [
        lambda drawn: to_tuning(drawn[: len(LINEAR)]),  # of a model with a layer less
        lambda drawn: to_tuning([*drawn, *drawn[: len(LINEAR)]]),
        spoiled(np.nan),
        cut(-4),
        cut(0),
        described(kind="cues"),
        described(rank=2),
        described(rank="3"),
        described(rank=None),
        lambda drawn: replace(to_tuning(drawn), description={}),
    ],
)
def test_what_is_not_of_this_model_is_refused(folder, encoder, change):
    assert abs(encoder.tuned(to_tuning(factors(folder))).encode(TEXTS) - encoder.encode(TEXTS)).max() > 0.01
    with pytest.raises(EncoderError, match="do not fit"):
        encoder.tuned(change(factors(folder)))


def test_what_a_step_raises_ends_it(folder):
    class StoppedError(Exception):
        pass

    def stop():
        told.append(1)
        if len(told) == 3:
            raise StoppedError

    encoder, told = load_encoder(f"st:{folder}", device="cpu"), []
    before = encoder.encode(TEXTS)
    with pytest.raises(StoppedError):
        encoder.tune(TEXTS, LABELS, steps=7, on_step=stop)
    assert len(told) == 3
    np.testing.assert_array_equal(encoder.encode(TEXTS), before)


@pytest.mark.parametrize(("count", "answers"), [(48, 3), (100, 2), (110, 55)])
def test_many_texts_and_many_labels_are_learned_from_in_parts(encoder, monkeypatch, count, answers):
    texts = [f"{OPENINGS[number % 8]} {'toy ' * (number // 8)}" for number in range(count)]
    labels = np.arange(count) % answers
    label_of = {tuple(ids): label for ids, label in zip(encoder.model.tokens.ids(texts), labels, strict=True)}
    assert len(label_of) == count
    seen, batches = set(), []

    def watched(ids, budget):
        batches.append([label_of[tuple(one)] for one in ids])
        seen.update(map(tuple, ids))
        return plan_packs(ids, budget)

    monkeypatch.setattr(tensors, "plan_packs", watched)
    learned = encoder.tune(texts, labels, steps=30)
    assert np.isfinite(encoder.tuned(learned).encode(texts)).all()
    assert len(batches) == 30
    for batch in batches:
        assert len(batch) <= 48
        assert np.bincount(batch)[np.unique(batch)].min() > 1  # none without its like
        assert len(set(batch)) > 1
    assert {label_of[one] for one in seen} == set(range(answers))


def test_what_is_learned_from_a_text_is_its_beginning(encoder, monkeypatch):
    monkeypatch.setattr(tensors, "MOST_TOKENS", 3)
    texts = ["knife toy lamp", "knife lamp", "toy lamp red", "toy red"]
    others = ["knife toy dog blue", "knife lamp child", "toy lamp", "toy red red red"]  # alike to the second word
    learned, again = (encoder.tune(one, LABELS[:4], steps=3) for one in (texts, others))
    assert learned.digest() == again.digest()
    assert encoder.tune(texts[::-1], LABELS[:4], steps=3).digest() != learned.digest()


def test_only_the_cosines_of_pairs_are_moved():
    cosines = torch.tensor([[1.0, 0.5, 0.25], [0.5, 1.0, -0.5], [0.25, -0.5, 1.0]])
    # (1 - 0.5)^2 of the one pair of a label, and the mean of 0.25^2 and 0.5^2 of the two pairs of two
    assert tensors._pair_loss(cosines, torch.tensor([0, 0, 1])).item() == (0.25 + (0.0625 + 0.25) / 2) / 2


def test_another_models_reader_refuses(tiny, tmp_path):
    folder = shutil.copytree(tiny("sentence"), tmp_path / "model")
    edit_json(folder / "1_Pooling" / "config.json", pooling_mode="max")
    encoder = load_encoder(f"st:{folder}", device="cpu")
    assert isinstance(encoder.model, StockModel)
    assert not isinstance(encoder.model, BertEncoder)
    with pytest.raises(EncoderError, match="cannot be fine-tuned on a few examples"):
        encoder.tune(TEXTS, LABELS, steps=1)
    with pytest.raises(EncoderError, match="cannot be fine-tuned on a few examples"):
        encoder.tuned(to_tuning(factors(tiny("sentence"))))
