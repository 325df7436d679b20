import json
import shutil
from functools import partial

import pytest
import torch
from tiny_models import edit_json
from transformers import LlamaConfig as TheirConfig
from transformers import LlamaForCausalLM

from retriever import load_encoder
from retriever.core.errors import EncoderError
from retriever.encoders import kernels, llama
from retriever.encoders.backbone import load_backbone
from retriever.encoders.llama import LlamaBackbone, read_config
from retriever.encoders.reading import PromptRun
from retriever.encoders.transformers_backbone import TransformersBackbone, load_trainable

BASE = {
    "vocab_size": 90,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.15,
    "tie_word_embeddings": True,
}
SHAPES = {
    "grouped": {},
    "one group": {"num_key_value_heads": 1},
    "no groups": {"num_key_value_heads": 4},
    "untied head": {"tie_word_embeddings": False},
    "wide heads": {"head_dim": 20},
    "other wavelengths": {"rope_parameters": {"rope_type": "default", "rope_theta": 150.0}, "rms_norm_eps": 0.1},
}
ROWS = [[5, 6, 7, 8, 9, 10, 11, 12, 13], [14, 15, 16], [17]]
LONG = [[3 + i % 80 for i in range(150)], [4 + i % 70 for i in range(70)]]  # more than a block of queries


@pytest.fixture(scope="module")
def saved(tiny, tmp_path_factory):
    """Give a folder with a random model of a shape by name, and the tiny Llama's tokenizer."""
    root, made = tmp_path_factory.mktemp("shapes"), {}

    def folder(name):
        if name not in made:
            torch.manual_seed(len(made))
            made[name] = shutil.copytree(tiny("llama"), root / name.replace(" ", "-"))
            model = LlamaForCausalLM(TheirConfig(**{**BASE, **SHAPES[name]}))
            for weight in model.parameters():
                if weight.ndim == 1:  # all ones: a norm without its weight would not be noticed
                    weight.data += torch.randn_like(weight) * 0.2
            model.save_pretrained(made[name])
        return made[name]

    return folder


@pytest.fixture(params=SHAPES)
def pair(request, saved):
    """Give a model of every shape, computed here and by transformers."""
    folder = str(saved(request.param))
    return load_backbone(folder, device="cpu", dtype="float32"), load_trainable(folder, device="cpu", dtype="float32")


def real(run, states):
    return states[run.mask(states.shape[1])]


@torch.inference_mode()
def read_on(backbone, rows, *, cached=True):
    """States of a first block, of two that follow it, and of another in the second one's place."""
    run = PromptRun(backbone, rows, cached=cached)
    read = [real(run, run.start())]
    if cached:
        read.append(run.extend(backbone.embed_ids([20, 21, 22]).expand(run.size, -1, -1)))
        at = run.length
        read.append(run.extend(backbone.embed_ids([23]).expand(run.size, -1, -1)))
        run.rewind(at)
        read.append(run.extend(backbone.embed_ids([24, 25]).expand(run.size, -1, -1)))
    return read


@pytest.mark.parametrize("rows", [ROWS, LONG], ids=["padded", "long"])
@torch.inference_mode()
def test_states_and_logits_are_those_of_transformers(pair, rows):
    own, theirs = pair
    assert (type(own), type(theirs)) == (LlamaBackbone, TransformersBackbone)
    for mine, other in zip(read_on(own, rows), read_on(theirs, rows), strict=True):
        torch.testing.assert_close(mine, other, atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(own.logits(mine), theirs.logits(other), atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(read_on(own, rows, cached=False)[0], read_on(theirs, rows)[0], atol=2e-5, rtol=1e-4)
    assert (own.dim, own.positions, own.masked) == (theirs.dim, theirs.positions, theirs.masked) == (32, 64, False)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_the_digits_point_the_same_way(saved, dtype):
    one = load_backbone(str(saved("grouped")), device="cpu", dtype=dtype)
    whole = load_backbone(str(saved("grouped")), device="cpu", dtype="float32")
    one.pack()
    for mine, expected in zip(read_on(one, LONG), read_on(whole, LONG), strict=True):
        assert (mine.dtype, one.dtype) == (torch.float32, getattr(torch, dtype))
        assert torch.cosine_similarity(mine.float(), expected, dim=-1).min() > 0.999


def test_the_fused_kernel_and_blocks_of_queries_find_the_same(saved, monkeypatch):
    backbone = load_backbone(str(saved("grouped")), device="cpu", dtype="float32")
    blocks = [read_on(backbone, rows) for rows in (ROWS, LONG)]

    def fused(mask, read, new, like):
        return partial(kernels._attended, hidden=kernels._hidden(mask, read, new, like.device))

    monkeypatch.setattr(llama, "attention", fused)  # as on a GPU
    for expected, rows in zip(blocks, (ROWS, LONG), strict=True):
        for mine, other in zip(read_on(backbone, rows), expected, strict=True):
            torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows", [ROWS, LONG], ids=["short", "long"])
@torch.inference_mode()
def test_padding_is_finite_and_changes_not_a_bit(saved, rows, dtype):
    backbone = load_backbone(str(saved("grouped")), device="cpu", dtype=dtype)
    backbone.pack()
    assert PromptRun(backbone, rows, cached=False).start().isfinite().all()
    prompts, *more = read_on(backbone, rows)
    for i, prompt in enumerate(torch.split(prompts, [len(row) for row in rows])):
        alone, *behind = read_on(backbone, [rows[i]])
        assert torch.equal(prompt, alone)
        assert all(torch.equal(mine[i], other[0]) for mine, other in zip(more, behind, strict=True))


@torch.inference_mode()
def test_where_a_text_is_divided_changes_not_a_bit(saved):
    backbone = load_backbone(str(saved("grouped")), device="cpu", dtype="float32")
    row = LONG[0]
    whole = PromptRun(backbone, [row], cached=True).start()[0]
    for first in (1, 5, 63, 64, 65, 100):
        run = PromptRun(backbone, [row[:first]], cached=True)
        parts = [run.start()[0], run.extend(backbone.embed(torch.tensor([row[first:]])))[0]]
        assert torch.equal(torch.cat(parts), whole)


@torch.inference_mode()
def test_keys_and_values_lie_in_one_piece_that_is_moved_when_it_is_full(saved):
    backbone = load_backbone(str(saved("grouped")), device="cpu", dtype="float32")
    run = PromptRun(backbone, ROWS, cached=True)
    run.start()
    memory = run.cache._memory
    assert memory.shape == (3, 2, 3, 2, 9 + kernels.HEADROOM, 8)
    at_once = PromptRun(backbone, ROWS, cached=True)
    at_once.start()
    more = backbone.embed(torch.arange(10, 80).expand(3, -1))
    expected = at_once.extend(more)
    assert at_once.cache._memory.shape[4] >= 79
    parts = more.split([1, 62, 1, 6], dim=1)
    found = []
    for part in parts:
        found.append(run.extend(part))
        assert (run.cache._memory is memory) == (run.length <= 9 + kernels.HEADROOM)
    torch.testing.assert_close(torch.cat(found, dim=1), expected, atol=1e-5, rtol=1e-4)
    assert run.cache.length == run.length == 79


def test_an_older_description_is_read(tiny, tmp_path):
    folder = shutil.copytree(tiny("llama"), tmp_path / "model")
    stored = json.loads((folder / "config.json").read_text())
    for name in ("rope_parameters", "head_dim", "dtype"):
        stored.pop(name)
    stored |= {"rope_theta": 500, "rope_scaling": None, "torch_dtype": "float32", "num_key_value_heads": None}
    (folder / "config.json").write_text(json.dumps(stored))
    config = read_config(folder)
    assert (config.theta, config.width, config.groups) == (500.0, 8, 4)


@pytest.mark.parametrize(
    "change",
    [
        {"attention_bias": True},
        {"mlp_bias": True},
        {"pretraining_tp": 2},
        {"hidden_act": "gelu"},
        {"sliding_window": 16},
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5}},
        {"architectures": ["MistralForCausalLM"]},
        {"architectures": ["LlamaForCausalLM", "Other"]},
        {"quantization_config": {}},
        {"model_type": "mistral"},
        {"something_new": 1},
    ],
    ids=str,
)
def test_what_is_not_computed_here_is_left_to_transformers(tiny, tmp_path, change):
    folder = shutil.copytree(tiny("llama"), tmp_path / "model")
    edit_json(folder / "config.json", **change)
    assert read_config(folder) is None


def test_transformers_loads_what_is_left_to_it(tiny, tmp_path):
    folder = shutil.copytree(tiny("llama"), tmp_path / "model")
    edit_json(folder / "config.json", rope_parameters={"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0})
    assert type(load_backbone(str(folder), device="cpu")) is TransformersBackbone
    assert type(load_backbone(str(tiny("llama")), device="cpu")) is LlamaBackbone
    assert type(load_backbone(str(tiny("mistral")), device="cpu")) is TransformersBackbone


@pytest.mark.parametrize("stored", [b"[]", b'"llama"', b"nothing"])
def test_a_description_that_is_none_is_refused(tiny, tmp_path, stored):
    folder = shutil.copytree(tiny("llama"), tmp_path / "model")
    (folder / "config.json").write_bytes(stored)
    with pytest.raises(EncoderError, match="holds no model that can be loaded"):
        load_encoder(f"plain:{folder}", device="cpu")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 3}, r"no weight model\.layers\.2\."),
        ({"intermediate_size": 50}, r"_proj\.weight is \(\d+, \d+\), not \(\d+, \d+\)"),
        ({"hidden_size": "wide"}, ""),
    ],
)
def test_weights_that_do_not_fit_the_description_are_refused(tiny, tmp_path, change, message):
    folder = shutil.copytree(tiny("llama"), tmp_path / "model")
    edit_json(folder / "config.json", **change)
    with pytest.raises(EncoderError, match=f"holds no model that can be loaded.*{message}"):
        load_backbone(str(folder), device="cpu")


def test_weights_in_several_files_are_found(saved, tmp_path):
    whole = load_trainable(str(saved("untied head")), device="cpu", dtype="float32")
    folder = shutil.copytree(saved("untied head"), tmp_path / "model")
    (folder / "model.safetensors").unlink()
    whole.model.save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    loaded = load_backbone(str(folder), device="cpu", dtype="float32")
    assert type(loaded) is LlamaBackbone
    for name, weight in whole.weights().items():
        assert torch.equal(loaded.weights()[name], weight), name


def test_weights_by_name_are_those_that_are_read_with(saved):
    own = load_backbone(str(saved("untied head")), device="cpu", dtype="float32")
    theirs = load_trainable(str(saved("untied head")), device="cpu", dtype="float32")
    assert own.weights().keys() == theirs.weights().keys()
    assert own.linear_weights().keys() == theirs.linear_weights().keys()
    for name, weight in own.weights().items():
        assert torch.equal(weight, theirs.weights()[name])
        with torch.no_grad():
            for changed in (weight, theirs.weights()[name]):
                changed += torch.linspace(-0.2, 0.2, changed.numel()).view_as(changed)
    for mine, other in zip(read_on(own, ROWS), read_on(theirs, ROWS), strict=True):
        torch.testing.assert_close(mine, other, atol=2e-5, rtol=1e-4)
    copied = own.pretrained()
    for name, weight in copied.named_parameters():
        assert torch.equal(weight, own.weights()[name])
