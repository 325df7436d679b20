from functools import partial

import backbone_costs
import pytest
import torch
from backbone_costs import MIXTURE, SHAPES, Shape, Tokens, batch_flops, memory, passes
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from retriever.encoders.transformers_backbone import load_trainable
from retriever.training.adapters import AdapterSettings, attach
from retriever.training.config import read_config
from retriever.training.merging import merged

PUBLISHED = {"default": 134_515_008, "smollm2-360m": 361_821_120, "smollm2-1.7b": 1_711_376_384}
PUBLISHED |= {"qwen3-0.6b": 596_049_920, "modernbert-base": 149_655_232}
BATCH, LINE = 3, 24


def shape_of(model):
    config = model.config
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    masked = config.model_type == "modernbert"
    return Shape(
        "tiny", "", config.vocab_size, config.hidden_size, config.intermediate_size, config.num_hidden_layers,
        config.num_attention_heads, config.num_attention_heads if masked else config.num_key_value_heads, width,
        normed=config.model_type == "qwen3", masked=masked,
    )  # fmt: skip


def published(shape):
    common = {
        "vocab_size": shape.vocabulary, "hidden_size": shape.dim, "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
    }  # fmt: skip
    if shape.masked:
        return ModernBertForMaskedLM(ModernBertConfig(**common))
    config, model = (Qwen3Config, Qwen3ForCausalLM) if shape.normed else (LlamaConfig, LlamaForCausalLM)
    return model(config(**common, num_key_value_heads=shape.groups, head_dim=shape.width, tie_word_embeddings=True))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda one: one.name)
def test_parameters_are_those_of_the_model(shape):
    with torch.device("meta"):
        assert published(shape).num_parameters() == shape.parameters == PUBLISHED[shape.name]


@pytest.fixture(params=["llama", "qwen3", "modernbert"])
def adapted(request, tiny):
    return attach(load_trainable(str(tiny(request.param)), device="cpu", dtype="float32"), AdapterSettings(rank=2))


def embeddings(adapted):
    """Inputs that need a gradient, as with look-ahead tokens in them."""
    return torch.randn(BATCH, LINE, adapted.backbone.dim, requires_grad=True)


def read(adapted, given):
    return adapted.backbone.forward(given, mask=torch.ones(BATCH, LINE), positions=None)


def test_the_adapter_is_as_large_as_said(adapted):
    shape = shape_of(adapted.backbone.model)
    assert sum(one.numel() for one in adapted.parameters.values()) == shape.adapter(rank=2)
    assert shape.adapter(rank=2, look_ahead=3) - shape.adapter(rank=2) == 3 * adapted.backbone.dim


def test_operations_are_those_that_torch_counts(adapted):
    shape = shape_of(adapted.backbone.model)
    with merged(adapted.backbone.model):
        with FlopCounterMode(display=False) as forward:
            states = read(adapted, embeddings(adapted))
        with FlopCounterMode(display=False) as backward:
            states.sum().backward()
    tokens = BATCH * LINE
    assert forward.get_total_flops() == tokens * shape.flops(LINE)
    assert forward.get_total_flops() + backward.get_total_flops() == tokens * shape.flops(LINE, rank=2)


def test_a_pass_keeps_about_what_is_said(adapted):
    shape = shape_of(adapted.backbone.model)
    adapted.backbone.model.set_attn_implementation("sdpa")
    weights = {one.untyped_storage().data_ptr() for one in adapted.backbone.model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with merged(adapted.backbone.model):
        readers = [one.forward for one in adapted.backbone.model.modules() if isinstance(one.forward, partial)]
        merged_weights = [reader.func.__self__.product.weight for reader in readers]
        weights |= {one.untyped_storage().data_ptr() for one in merged_weights}
        with saved_tensors_hooks(keep, lambda tensor: tensor):
            states = read(adapted, embeddings(adapted))
        assert states.requires_grad
    found = sum(size for place, (size, _) in kept.items() if place not in weights)
    assert found / (BATCH * LINE) == pytest.approx(shape.kept_bytes(number=4), rel=0.2)


def recipe(name):
    return read_config(backbone_costs.RECIPES / f"{name}.toml", None, rows=1000)


def test_a_batch_reads_texts_once_and_answers_as_documents():
    read = passes(recipe("default"), Tokens(text=10, around=5, plain=4, answer=1, questions=2))
    assert [(one.lines, one.line, one.predicted) for one in read] == [
        (16, 10 + 2 * (5 + 2), 16 * 2 * 2), (32, 4 + 1 + 2, 0), (12, 4 + 16 / 3 + 2, 0)
    ]  # fmt: skip


def test_a_masked_model_reads_every_question_with_its_text():
    read = passes(recipe("modernbert-base"), Tokens(text=10, around=5, plain=4, answer=1, questions=2))
    assert [(one.lines, one.line, one.predicted) for one in read] == [(32, 2 + 10 + 5 + 1, 32)]


def test_a_larger_model_takes_more_of_everything():
    small, large = SHAPES[0], SHAPES[3]
    config = recipe("default")
    read = passes(config, MIXTURE)
    assert batch_flops(large, read, rank=20) > 10 * batch_flops(small, read, rank=20)
    assert memory(large, config, read) > 4 * memory(small, config, read)


def test_the_table_has_a_line_for_every_recipe(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["backbone_costs.py", "--flops", "1e14", "--rows", "1000"])
    backbone_costs.main()
    lines = capsys.readouterr().out.splitlines()
    assert "minutes for 1,000 rows at 100 TFLOP/s" in lines[0]
    assert [line.split("`")[1] for line in lines[2:]] == [f"{shape.name}.toml" for shape in SHAPES]


def test_the_page_shows_what_the_script_prints(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["backbone_costs.py", "--flops", "5e13"])
    backbone_costs.main()
    page = (backbone_costs.RECIPES.parent / "docs" / "models.md").read_text(encoding="utf-8")
    shown = page.partition("<!-- made by benchmarks/backbone_costs.py -->\n")[2].partition("<!-- end of costs -->")[0]
    assert shown == capsys.readouterr().out
