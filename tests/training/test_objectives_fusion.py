from dataclasses import replace

import numpy as np
import pytest
import torch
from objective_checks import BATCH, EVERY, ONE_BY_ONE, ROWS, agree, falls, learner, vector
from training_models import move

from retriever.core.errors import UsageError
from retriever.encoders.checkpoint import load_checkpoint
from retriever.encoders.instemb import LEARNED, InstEmbEncoder, untrained_look_ahead
from retriever.encoders.methods import build
from retriever.encoders.options import EncoderOptions
from retriever.training.adapter_files import load_trained, save_trained, trained_encoder
from retriever.training.losses.afd import squared_error
from retriever.training.objectives import reading
from retriever.training.objectives.fusion import FusedTargets, FusionObjective, FusionSettings, fused_targets

TEXTS = [one.text for one in ROWS]
ASKED = [one.instruction for one in ROWS]
METHODS = {"last": ("inbedder", 0, None), "daap": ("instemb", 2, None), "soft-tokens": ("gircse", 0, 3)}


def encoded(encoder):
    """Every text by the encoder, under its own instruction."""
    return np.stack([encoder.encode([text], instruction=asked)[0] for text, asked in zip(TEXTS, ASKED, strict=True)])


def before(untrained, method, look_ahead, steps):
    if look_ahead:
        return InstEmbEncoder(untrained, EncoderOptions(), {LEARNED: untrained_look_ahead(untrained, look_ahead)})
    return build(method, untrained, EncoderOptions(steps=steps))


@pytest.mark.parametrize("kind", ["lora", "layers"])
@pytest.mark.parametrize(("method", "look_ahead", "steps"), METHODS.values(), ids=METHODS)
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
    assert np.abs(found.vectors.numpy() - expected).max() < 1e-5
    assert np.abs(new - base).max() > 0.05
    assert not found.vectors.requires_grad
    for name, values in one.adapted.parameters.items():
        assert torch.equal(values, kept[name])


def test_targets_of_a_model_that_was_trained_before_fuse_it_with_what_it_was_then(tiny, tmp_path):
    trained = learner(tiny("llama"), look_ahead=2).adapted
    save_trained(trained, tmp_path / "base", method="instemb", options=EncoderOptions(), card="")
    base = load_checkpoint(tmp_path / "base", EncoderOptions(), device="cpu", dtype="float32")
    one = learner(tiny("llama"), fresh=True)
    one = replace(one, adapted=load_trained(tmp_path / "base", device="cpu", dtype="float32"))
    move(one.adapted, seed=1)
    found = fused_targets(one, TEXTS, ASKED, FusionSettings(new_weight=0.4), base=base)
    mixed = 0.4 * encoded(trained_encoder(one.adapted, "instemb", EncoderOptions())) + 0.6 * encoded(base)
    expected = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
    assert np.abs(found.vectors.numpy() - expected).max() < 1e-5
    bare = fused_targets(one, TEXTS, ASKED, FusionSettings(new_weight=0.4))
    assert (found.vectors - bare.vectors).abs().max() > 0.05


@pytest.mark.parametrize(("look_ahead", "steps"), [(0, None), (2, None), (0, 3)])
def test_loss_and_gradients_are_those_of_texts_read_alone(tiny, monkeypatch, look_ahead, steps):
    monkeypatch.setattr(reading, "PIECE_TOKENS", 120)
    one = learner(tiny("llama"), look_ahead=look_ahead)
    targets = torch.nn.functional.normalize(
        torch.randn(len(ROWS), 32, generator=torch.Generator().manual_seed(1)), dim=-1
    )
    whole, pieces = (
        FusionObjective(one, FusedTargets(TEXTS, ASKED, targets), batch, steps=steps) for batch in (BATCH, ONE_BY_ONE)
    )
    chosen = [5, 0, 1, 7, 3]

    def reference():
        student = torch.stack([vector(one, TEXTS[i], ASKED[i], steps) for i in chosen])
        return squared_error(student, targets[chosen])

    agree(one, reference, lambda: whole.backward(chosen), lambda: pieces.backward(chosen))


def test_batches_hold_every_text_once_an_epoch(tiny):
    one = learner(tiny("llama"))
    objective = FusionObjective(one, FusedTargets(TEXTS, ASKED, torch.zeros(len(ROWS), 32)), BATCH)
    assert sorted(row for batch in objective.batches(0) for row in batch) == [*EVERY]


def test_the_trained_model_itself_as_target_leaves_nothing_to_learn(tiny):
    one = learner(tiny("llama"))
    targets = fused_targets(one, TEXTS, ASKED, FusionSettings(new_weight=1.0))
    assert FusionObjective(one, targets, BATCH).backward([*EVERY])["loss"] == pytest.approx(0, abs=1e-9)


def test_training_lowers_the_loss(tiny):
    one = learner(tiny("llama"), fresh=True)
    targets = fused_targets(one, TEXTS, ASKED, FusionSettings())
    assert falls(one, FusionObjective(one, targets, BATCH))


def test_what_makes_no_sense_is_refused(tiny):
    with pytest.raises(UsageError, match=r"new_weight is 1\.5"):
        FusionSettings(new_weight=1.5)
    one = learner(tiny("llama"))
    with pytest.raises(UsageError, match="one for each"):
        fused_targets(one, TEXTS, ASKED[:2], FusionSettings())
    with pytest.raises(UsageError, match="0 texts"):
        fused_targets(one, [], [], FusionSettings())
    with pytest.raises(UsageError, match="at least 1"):
        fused_targets(one, TEXTS, ASKED, FusionSettings(), steps=0)
