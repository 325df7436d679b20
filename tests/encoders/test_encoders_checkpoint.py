import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from tiny_models import edit_json, flip_byte

from retriever import load_encoder
from retriever.core.errors import CheckpointError
from retriever.encoders.behind_prompt import LEARNED, InstEmbEncoder
from retriever.encoders.checkpoint import load_checkpoint, save_checkpoint
from retriever.encoders.methods import EncoderOptions, build
from retriever.encoders.sources import write_manifest
from retriever.encoders.transformers_backbone import load_trainable

TEXTS = ["the toy broke", "kettle boils water fast", "x"]
INSTRUCTION = "what kind of product"


def learned(length=8):
    return torch.randn(length, 32, generator=torch.Generator().manual_seed(5)) * 0.3


def load(folder, **options):
    return load_encoder(str(folder), device="cpu", dtype="float32", **options)


def with_adapter(folder, seed=6, **config):
    """A fresh backbone with a LoRA adapter at work in it, and the PEFT model around it."""
    backbone = load_trainable(str(folder), device="cpu", dtype="float32")
    config = {"r": 2, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"], **config}
    name = config.pop("adapter_name", "default")
    adapted = get_peft_model(backbone.model, LoraConfig(task_type="CAUSAL_LM", **config), adapter_name=name)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, weight in adapted.named_parameters():
            if "lora_" in key:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
    return backbone, adapted.eval()


@pytest.fixture(scope="module")
def adapted(tiny, tmp_path_factory):
    """An InstEmb checkpoint with an adapter, and the vectors of the model as it was saved."""
    folder = tmp_path_factory.mktemp("checkpoints") / "adapted"
    backbone, adapter = with_adapter(tiny("llama"))
    encoder = InstEmbEncoder(backbone, EncoderOptions(default_instruction=INSTRUCTION), {LEARNED: learned()})
    save_checkpoint(encoder, folder, card="# A card\n", adapter=adapter)
    return folder, encoder.encode(TEXTS)


def test_look_ahead_tokens_survive_a_round_trip(backbone, tmp_path):
    options = EncoderOptions(pooling="all-mean", look_ahead=5, template="instruct-query", default_instruction="mood")
    encoder = InstEmbEncoder(backbone("mistral"), options, {LEARNED: learned()})
    save_checkpoint(encoder, tmp_path / "saved", card="# A card\n")
    loaded = load(tmp_path / "saved")
    assert torch.equal(loaded.look_ahead_embeddings, learned())
    assert (loaded.pooling, loaded.look_ahead, loaded.template.name) == ("all-mean", 5, "instruct-query")
    assert np.array_equal(loaded.encode(TEXTS), encoder.encode(TEXTS))
    assert loaded.fingerprint == encoder.fingerprint
    assert (tmp_path / "saved" / "README.md").read_text() == "# A card\n"
    assert {path.name for path in (tmp_path / "saved").iterdir()} == {
        "retriever.json",
        "README.md",
        "look_ahead.safetensors",
        "manifest.json",
    }


def test_what_a_checkpoint_put_into_the_model_is_not_saved_without_it(adapted, tmp_path):
    with pytest.raises(CheckpointError, match="its adapter is merged"):
        save_checkpoint(load(adapted[0]), tmp_path / "again", card="")
    assert not (tmp_path / "again").exists()


def test_a_merged_adapter_gives_the_vectors_of_the_unmerged_one(adapted, make):
    folder, unmerged = adapted
    loaded = load(folder)
    assert np.abs(loaded.encode(TEXTS) - unmerged).max() < 1e-5
    without = InstEmbEncoder(make("plain", "llama").backbone, EncoderOptions(), {LEARNED: learned()})
    assert np.abs(loaded.encode(TEXTS) - without.encode(TEXTS, instruction=INSTRUCTION)).max() > 1e-2
    assert not [name for name in loaded.backbone.weights() if "lora" in name]
    assert (folder / "README.md").read_text() == "# A card\n"
    assert loaded.options.default_instruction == INSTRUCTION


def test_an_adapter_under_another_name_is_refused_instead_of_lost(tiny, tmp_path):
    backbone, adapter = with_adapter(tiny("llama"), adapter_name="second")
    with pytest.raises(CheckpointError, match="not called 'default'"):
        save_checkpoint(build("plain", backbone, EncoderOptions()), tmp_path / "saved", card="", adapter=adapter)
    assert list(tmp_path.iterdir()) == []


FILES = [
    "retriever.json",
    "adapter_config.json",
    "adapter_model.safetensors",
    "look_ahead.safetensors",
    "README.md",
    "manifest.json",
]


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_in_any_file_is_refused(adapted, tmp_path, name):
    folder = shutil.copytree(adapted[0], tmp_path / "copy")
    assert {path.name for path in folder.iterdir()} == set(FILES)
    # The manifest's last bytes are white space and braces: the byte is the last digit of the last hash.
    flip_byte(folder / name, at=len((folder / name).read_bytes().rstrip(b' }"\n')) - 1)
    with pytest.raises(CheckpointError) as caught:
        load(folder)
    assert str(folder) in caught.value.message
    assert "Restore the folder" in caught.value.hint


@pytest.mark.parametrize("name", FILES[1:])
def test_a_missing_file_is_refused(adapted, tmp_path, name):
    folder = shutil.copytree(adapted[0], tmp_path / "copy")
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_checkpoint(folder, EncoderOptions(), device="cpu")


@pytest.mark.parametrize("name", ["layers.safetensors", "notes.txt", "more/config.json", "README.md~", "link.json"])
def test_a_file_that_the_manifest_does_not_list_is_refused(adapted, tmp_path, name):
    folder = shutil.copytree(adapted[0], tmp_path / "copy")
    (folder / name).parent.mkdir(exist_ok=True)
    if name == "link.json":
        (folder / name).symlink_to(tmp_path / "nowhere")
    else:
        (folder / name).write_bytes(b"{}")
    with pytest.raises(CheckpointError, match="is not in the manifest beside it") as caught:
        load(folder)
    assert str(folder / name) in caught.value.message
    assert "Restore the folder" in caught.value.hint


def test_the_systems_own_files_are_left_alone(adapted, tmp_path):
    folder = shutil.copytree(adapted[0], tmp_path / "copy")
    (folder / ".DS_Store").write_bytes(b"x")
    (folder / ".git").mkdir()
    (folder / ".git" / "config.json").write_bytes(b"x")
    assert load(folder).fingerprint == load(adapted[0]).fingerprint


def rewritten(adapted, tmp_path, **changes) -> Path:
    folder = shutil.copytree(adapted[0], tmp_path / "copy")
    edit_json(folder / "retriever.json", **changes)
    write_manifest(folder)
    return folder


def test_a_newer_format_is_refused(adapted, tmp_path):
    with pytest.raises(CheckpointError, match="checkpoint format 2") as caught:
        load(rewritten(adapted, tmp_path, format=2))
    assert caught.value.hint == "Upgrade retriever to read it."


def test_another_backbone_than_the_one_it_was_trained_on_is_refused(adapted, tmp_path, tiny):
    name = str(tiny("llama"))
    folder = rewritten(adapted, tmp_path, backbone={"name": name, "digest": "0123456789abcdef"})
    with pytest.raises(CheckpointError, match="trained on another version of") as caught:
        load(folder)
    assert "0123456789ab." in caught.value.hint


def test_an_existing_folder_is_not_overwritten(make, tmp_path):
    (tmp_path / "saved").mkdir()
    with pytest.raises(CheckpointError, match="exists already"):
        save_checkpoint(make("plain", "llama"), tmp_path / "saved", card="")
    assert list((tmp_path / "saved").iterdir()) == []


def test_what_is_asked_for_overrides_what_is_stored(make, tmp_path, slow):
    encoder = make("gircse", "llama", steps=3, template="instruct-query", default_instruction="mood")
    save_checkpoint(encoder, tmp_path / "saved", card="")
    assert load(tmp_path / "saved").steps == 3
    loaded = load(tmp_path / "saved", steps=2, template="input-first")
    assert (loaded.steps, loaded.template.name, loaded.options.default_instruction) == (2, "input-first", "mood")
    expected, _ = slow("llama").gircse("the toy", "mood", 2, "input-first")
    assert loaded.encode(["the toy"])[0] == pytest.approx(expected[-1], abs=1e-5)


def test_fingerprint_changes_with_what_makes_vectors_incomparable(adapted, tiny, backbone, make, tmp_path):
    def instemb(look_ahead=None, **options):
        tensors = None if look_ahead is None else {LEARNED: look_ahead}
        return InstEmbEncoder(backbone("llama"), EncoderOptions(**options), tensors)

    other_learned = learned()
    other_learned[0, 0] += 1
    saved = {}
    for name, config in {"seed": {"seed": 7}, "alpha": {"lora_alpha": 4}}.items():
        model, adapter = with_adapter(tiny("llama"), **config)
        encoder = InstEmbEncoder(model, EncoderOptions(default_instruction=INSTRUCTION), {LEARNED: learned()})
        save_checkpoint(encoder, tmp_path / name, card="", adapter=adapter)
        saved[name] = load(tmp_path / name).fingerprint
    prints = [
        instemb().fingerprint,
        instemb(template="instruct-query").fingerprint,
        instemb(default_instruction="mood").fingerprint,
        instemb(learned()).fingerprint,
        instemb(other_learned).fingerprint,
        instemb(learned(), default_instruction=INSTRUCTION).fingerprint,
        load(adapted[0]).fingerprint,
        *saved.values(),
        make("plain", "llama").fingerprint,
        make("gircse", "llama").fingerprint,
        make("gircse", "mistral").fingerprint,
    ]
    assert len(set(prints)) == len(prints)
