import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from training_models import TEXTS, model

from retriever.core.errors import CheckpointError, EncoderError, UsageError
from retriever.encoders.backbone import load_backbone
from retriever.encoders.checkpoint import load_checkpoint
from retriever.encoders.options import EncoderOptions
from retriever.encoders.sources import check_manifest
from retriever.index.models import merge
from retriever.training.adapter_files import load_trained, save_trained


@pytest.fixture
def trained(tiny, tmp_path):
    """Save a tiny model whose training moved it, and give its folder's name."""

    def make(name, *, seed=6, method="instemb", options=None, dtype=torch.float32, of="llama", **settings):
        adapted = model(tiny(of), seed=seed, **settings)
        folder = tmp_path / name
        save_trained(adapted, folder, method=method, options=options or EncoderOptions(), card="", dtype=dtype)
        return str(folder)

    return make


def weights(folder):
    """Every weight of a checkpoint's model in float32, and what it learned besides."""
    encoder = load_checkpoint(Path(folder), EncoderOptions(), device="cpu", dtype="float32")
    return {name: weight.double() for name, weight in {**encoder.backbone.weights(), **encoder.learned}.items()}


def assert_mean(folder, parts, *, atol=1e-6):
    found = weights(folder)
    wanted = [(weights(part), share) for part, share in parts]
    moved = 0
    for name, weight in found.items():
        mean = sum(share * one[name] for one, share in wanted)
        torch.testing.assert_close(weight, mean, rtol=0, atol=atol)
        moved += not torch.equal(wanted[0][0][name], wanted[1][0][name])
    assert moved


def test_the_weights_are_the_mean_of_the_models_weights_whatever_their_ranks(trained, tmp_path):
    one = trained("one", look_ahead=2, rank=2, alpha=8)
    other = trained("other", seed=7, look_ahead=2, rank=5, alpha=3)
    third = trained("third", seed=8, look_ahead=2, rank=1, alpha=1)
    merge([one, other, third], tmp_path / "mean")
    assert_mean(tmp_path / "mean", [(one, 1 / 3), (other, 1 / 3), (third, 1 / 3)])
    config = json.loads((tmp_path / "mean" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (8, 8)
    merge([one, other], tmp_path / "uneven", share=0.7)
    assert_mean(tmp_path / "uneven", [(one, 0.7), (other, 0.3)])


def test_places_that_one_adapter_alone_has_count_as_untrained_in_the_other(trained, tmp_path):
    one = trained("one", look_ahead=1, projections=("q_proj",))
    other = trained("other", seed=7, look_ahead=1, projections=("q_proj", "up_proj"), layers=1)
    merge([one, other], tmp_path / "mean")
    assert_mean(tmp_path / "mean", [(one, 0.5), (other, 0.5)])


def test_whole_layers_are_averaged_too(trained, tmp_path):
    one, other = (trained(f"layers {n}", seed=n, kind="layers", layers=n, look_ahead=1) for n in (1, 2))
    merge([one, other], tmp_path / "mean")
    assert_mean(tmp_path / "mean", [(one, 0.5), (other, 0.5)])
    lora = trained("lora", look_ahead=1)
    with pytest.raises(CheckpointError, match="Some models have an adapter and some whole layers"):
        merge([one, lora], tmp_path / "mixed")
    assert not (tmp_path / "mixed").exists()


def test_a_mean_is_a_checkpoint_that_is_loaded_and_trained_further(trained, tmp_path):
    one, other = (trained(f"part {n}", seed=n, look_ahead=2, dtype=torch.bfloat16) for n in (1, 2))
    folder = merge([one, other], tmp_path / "mean")
    check_manifest(folder, hint="")
    assert {tensor.dtype for tensor in load_file(folder / "adapter_model.safetensors").values()} == {torch.bfloat16}
    assert_mean(folder, [(one, 0.5), (other, 0.5)], atol=1e-3)
    card = (folder / "README.md").read_text()
    assert card.startswith("# mean\n")
    assert f"| `{one}` | 0.5 |" in card
    encoders = [
        load_checkpoint(Path(each), EncoderOptions(), device="cpu", dtype="float32") for each in (one, other, folder)
    ]
    assert len({encoder.fingerprint for encoder in encoders}) == 3
    further = load_trained(folder, device="cpu", dtype="float32")
    assert (further.settings.rank, further.look_ahead_length) == (4, 2)
    read = load_checkpoint(folder, EncoderOptions(), device="cpu", dtype="float32").encode(TEXTS)
    merged = further.peft.merge_and_unload()
    own = load_backbone(further.backbone.source.name, device="cpu", dtype="float32").weights()
    assert read.shape == (4, 32)
    assert any(not torch.equal(weight, own[name]) for name, weight in merged.named_parameters())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "inbedder"}, "their method is instemb and inbedder"),
        ({"of": "mistral"}, "their backbone is "),
        ({"options": EncoderOptions(template="instruct-query")}, "their template is input-first and instruct-query"),
        ({"look_ahead": 3}, "have learned look_ahead of different shapes"),
    ],
)
def test_models_that_differ_are_refused_and_nothing_is_written(trained, tmp_path, changes, message):
    one = trained("one", look_ahead=2)
    other = trained("other", **{"look_ahead": 2, **changes})
    before = sorted(tmp_path.iterdir())
    with pytest.raises(CheckpointError, match=message):
        merge([one, other], tmp_path / "mean")
    assert sorted(tmp_path.iterdir()) == before


def test_an_adapter_of_another_kind_is_refused(trained, tmp_path):
    one, other = (trained(name, of="gpt2", look_ahead=1) for name in ("one", "other"))
    with pytest.raises(CheckpointError, match="of another kind than plain LoRA"):
        merge([one, other], tmp_path / "mean")


def test_what_makes_no_sense_is_refused(trained, tmp_path):
    one = trained("one", look_ahead=1)
    with pytest.raises(UsageError, match="One model has no mean"):
        merge([one], tmp_path / "mean")
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(UsageError, match="The share is"):
            merge([one, one], tmp_path / "mean", share=share)
    with pytest.raises(UsageError, match="exists already"):
        merge([one, one], tmp_path / "one")
    with pytest.raises(EncoderError, match="minilm is not trained"):
        merge([one, "minilm"], tmp_path / "mean")
