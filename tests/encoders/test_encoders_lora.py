import json

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from tiny_models import edit_json

from retriever.core.errors import CheckpointError
from retriever.encoders.backbone import load_backbone
from retriever.encoders.base import EncoderOptions
from retriever.encoders.checkpoint import load_checkpoint, save_checkpoint
from retriever.encoders.llama import LlamaBackbone
from retriever.encoders.lora import merge, read_adapter
from retriever.encoders.methods import build
from retriever.encoders.transformers_backbone import TransformersBackbone, load_trainable

SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
PLAIN = {
    "all projections": {"target_modules": SEVEN},
    "one layer": {"target_modules": ["q_proj", "down_proj"], "layers_to_transform": [1]},
    "a layer by number": {"target_modules": ["up_proj"], "layers_to_transform": 0},
    "by longer names": {"target_modules": ["self_attn.v_proj", "mlp.gate_proj"]},
    "by whole names": {"target_modules": ["model.layers.0.self_attn.k_proj"]},
    "scaled by the root of the rank": {"target_modules": SEVEN, "use_rslora": True},
    "own ranks and scales": {
        "target_modules": SEVEN,
        "rank_pattern": {"down_proj": 4, "layers.0.self_attn.v_proj": 3, "roj": 9},
        "alpha_pattern": {"down_proj": 5, "model.layers.1.mlp.up_proj": 1},
    },
}
OTHERS = {
    "dora": {"target_modules": ["q_proj"], "use_dora": True},
    "layers by another name": {"target_modules": ["q_proj"], "layers_to_transform": [1], "layers_pattern": "layers"},
    "a pattern of names": {"target_modules": r".*\.[qv]_proj"},
    "a pattern of ranks": {"target_modules": ["q_proj"], "rank_pattern": {"q_pro.$": 3}},
    "modules left out": {"target_modules": ["q_proj", "v_proj"], "exclude_modules": ["v_proj"]},
}


def adapted(folder, **config):
    """A trainable backbone with a LoRA adapter at work in it, and the PEFT model around it."""
    backbone = load_trainable(str(folder), device="cpu", dtype="float32")
    config = LoraConfig(task_type="CAUSAL_LM", **{"r": 2, "lora_alpha": 8, **config})
    peft = get_peft_model(backbone.model, config)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, weight in peft.named_parameters():
            if "lora_" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
    return backbone, peft.eval()


def merged_by_peft(base, folder, dtype):
    backbone = load_trainable(str(base), device="cpu", dtype=dtype)
    merged = PeftModel.from_pretrained(backbone.model, str(folder)).merge_and_unload(safe_merge=True)
    return dict(merged.named_parameters())


@pytest.mark.parametrize(
    ("case", "dtype"), [*((one, "float32") for one in PLAIN), ("own ranks and scales", "bfloat16")]
)
def test_weights_are_those_that_peft_merges(tiny, tmp_path, case, dtype):
    adapted(tiny("llama"), **PLAIN[case])[1].save_pretrained(tmp_path)
    backbone = load_backbone(str(tiny("llama")), device="cpu", dtype=dtype)
    bare = {name: weight.clone() for name, weight in backbone.weights().items()}
    adapter = read_adapter(tmp_path, backbone.linear_weights())
    assert adapter
    merge(backbone.linear_weights(), adapter)
    expected = merged_by_peft(tiny("llama"), tmp_path, dtype)
    # PEFT rounds what is added before it adds it.
    close = {"atol": 1e-6, "rtol": 1e-6} if dtype == "float32" else {"atol": 2e-3, "rtol": 8e-3}
    for name, weight in backbone.weights().items():
        torch.testing.assert_close(weight, expected[name], **close)
        assert torch.equal(weight, bare[name]) != (name in adapter), name


@pytest.mark.parametrize("config", OTHERS.values(), ids=list(OTHERS))
def test_other_adapters_are_left_to_peft_and_give_the_same_vectors(tiny, tmp_path, config):
    backbone, peft = adapted(tiny("llama"), **config)
    encoder = build("plain", backbone, EncoderOptions())
    save_checkpoint(encoder, tmp_path / "saved", card="", adapter=peft)
    bare = load_backbone(str(tiny("llama")), device="cpu", dtype="float32")
    assert read_adapter(tmp_path / "saved", bare.linear_weights()) is None
    loaded = load_checkpoint(tmp_path / "saved", EncoderOptions(), device="cpu", dtype="float32")
    assert type(loaded.backbone) is TransformersBackbone
    expected = encoder.encode(["the toy broke", "x"])
    assert loaded.encode(["the toy broke", "x"]) == pytest.approx(expected, abs=1e-5)
    assert build("plain", bare, EncoderOptions()).encode(["the toy broke", "x"]) != pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("name", "kind"), [("llama", LlamaBackbone), ("mistral", TransformersBackbone)])
def test_a_plain_adapter_is_merged_without_peft(tiny, tmp_path, monkeypatch, name, kind):
    backbone, peft = adapted(tiny(name), target_modules=SEVEN)
    encoder = build("plain", backbone, EncoderOptions())
    save_checkpoint(encoder, tmp_path / "saved", card="", adapter=peft)
    monkeypatch.setattr(PeftModel, "from_pretrained", lambda *_, **__: pytest.fail("PEFT was asked"))
    loaded = load_checkpoint(tmp_path / "saved", EncoderOptions(), device="cpu", dtype="float32")
    assert type(loaded.backbone) is kind
    assert loaded.encode(["the toy"]) == pytest.approx(encoder.encode(["the toy"]), abs=1e-5)


def test_matrices_that_lie_the_other_way_round_are_left_to_peft(tiny, tmp_path):
    backbone, peft = adapted(tiny("gpt2"), target_modules=["c_proj"], fan_in_fan_out=True)
    peft.save_pretrained(tmp_path)
    assert read_adapter(tmp_path, backbone.linear_weights()) is None


@pytest.fixture
def stored(tiny, tmp_path):
    adapted(tiny("llama"), target_modules=["q_proj", "v_proj"])[1].save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "change",
    [
        {"r": 3},
        {"r": 0},
        {"r": "2"},
        {"peft_type": "LOHA"},
        {"init_lora_weights": "pissa"},
        {"target_modules": ["q_proj"]},
        {"target_modules": ["q_proj", "v_proj", "o_proj"]},
        {"layers_to_transform": [0]},
        {"modules_to_save": ["lm_head"]},
        {"lora_bias": True},
        {"something_new": True},
    ],
    ids=str,
)
def test_a_description_that_says_more_or_does_not_fit_is_left_to_peft(tiny, stored, change):
    weights = load_backbone(str(tiny("llama")), device="cpu").linear_weights()
    assert len(read_adapter(stored, weights)) == 4
    edit_json(stored / "adapter_config.json", **change)
    assert read_adapter(stored, weights) is None


def test_a_description_without_a_rank_is_left_to_peft(tiny, stored):
    config = json.loads((stored / "adapter_config.json").read_text())
    config.pop("r")
    (stored / "adapter_config.json").write_text(json.dumps(config))
    assert read_adapter(stored, load_backbone(str(tiny("llama")), device="cpu").linear_weights()) is None


def test_a_broken_adapter_is_refused(tiny, tmp_path):
    backbone, peft = adapted(tiny("llama"), target_modules=["q_proj"])
    with torch.no_grad():
        next(weight for name, weight in peft.named_parameters() if "lora_B" in name)[0, 0] = float("inf")
    save_checkpoint(build("plain", backbone, EncoderOptions()), tmp_path / "saved", card="", adapter=peft)
    with pytest.raises(CheckpointError, match=r"q_proj\.weight is not finite with the adapter"):
        load_checkpoint(tmp_path / "saved", EncoderOptions(), device="cpu", dtype="float32")


def test_factors_of_another_shape_are_left_to_peft(tiny, stored):
    weights = load_backbone(str(tiny("llama")), device="cpu").linear_weights()
    tensors = load_file(stored / "adapter_model.safetensors")
    name = next(name for name in tensors if name.endswith("q_proj.lora_B.weight"))
    tensors[name] = tensors[name][:-1].clone()
    save_file(tensors, stored / "adapter_model.safetensors")
    assert read_adapter(stored, weights) is None
