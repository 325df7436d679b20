"""LoRA trained through merged weights: one matrix product a layer where there were three.

W + s B A is worked out once a step and the model reads with it, as it will at inference. Layers that read the same
input, such as those of queries, keys and values, are read as one, and a Llama-type model as a whole (`decoder`). In
bfloat16 the sum is rounded as merging rounds it, so that what is trained is what will run.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from peft.tuners.lora.layer import Linear
from torch import nn
from transformers import LlamaForCausalLM

from retriever.training.adapters import TrainableBackbone
from retriever.training.decoder import LayerWeights, PackedDecoder
from retriever.training.lora_products import MergedLayers, MergedProduct

_QUERIES, _GATE = ("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj")
"""Names of layers of one module that are given the same input (Llama, Mistral, Qwen)."""
_PARTS = (("self_attn", _QUERIES), ("self_attn", ("o_proj",)), ("mlp", _GATE), ("mlp", ("down_proj",)))
"""The linear layers of a decoder layer, part by part."""

_Merged = Mapping[tuple[str, tuple[str, ...]], MergedLayers]


@contextmanager
def merged(backbone: TrainableBackbone) -> Iterator[None]:
    """Within the block LoRA layers over linear ones read with merged weights, and the factors get their gradients.

    The factors must not change within the block. Layers of other kinds are left alone.
    """
    parts: dict[tuple[str, tuple[str, ...]], MergedLayers] = {}
    with ExitStack() as stack:
        for key, layers in _with_one_input(backbone.model).items():
            part = parts[key] = MergedLayers(layers)
            stack.callback(part.unmerge)
        stack.callback(setattr, backbone, "packed", None)
        backbone.packed = _decoder(backbone.model, parts)
        yield


def _with_one_input(model: nn.Module) -> dict[tuple[str, tuple[str, ...]], list[Linear]]:
    """Return all vanilla LoRA layers over linear ones, those with the same input together.

    The key of some is their parent's name, and their own names.
    """
    groups: dict[tuple[str, tuple[str, ...]], dict[str, Linear]] = defaultdict(dict)
    for name, module in model.named_modules():
        if isinstance(module, Linear) and isinstance(module.base_layer, nn.Linear):
            parent, _, own = name.rpartition(".")
            groups[parent, next((names for names in (_QUERIES, _GATE) if own in names), (own,))][own] = module
    return {(parent, tuple(layers)): list(layers.values()) for (parent, _), layers in groups.items()}


def _decoder(model: nn.Module, parts: _Merged) -> PackedDecoder | None:
    """Return the model as a decoder without padding; None where it is of another kind, or no LoRA layer is merged."""
    if not isinstance(model, LlamaForCausalLM) or model.config.hidden_act != "silu" or not parts:
        return None
    layers = [_layer(layer, f"model.layers.{number}", parts) for number, layer in enumerate(model.model.layers)]
    known = [layer for layer in layers if layer is not None]
    return PackedDecoder(model.model, known, parts.values()) if len(known) == len(layers) else None


def _layer(layer: Any, name: str, parts: _Merged) -> LayerWeights | None:  # noqa: ANN401 - transformers's
    """Return what a layer is made of; None where a part of it is neither trained as a whole nor left alone."""
    products = []
    for holder, names in _PARTS:
        part = parts.get((f"{name}.{holder}", names))
        linears = [getattr(getattr(layer, holder), own) for own in names]
        if part is not None and not part.biased:
            products.append(part.product)
        elif all(
            type(linear) is nn.Linear and linear.bias is None and not linear.weight.requires_grad for linear in linears
        ):
            products.append(MergedProduct.frozen(linears))
        else:
            return None
    qkv, out, gate_up, down = products
    return LayerWeights(
        attention_norm=layer.input_layernorm.weight,
        feed_norm=layer.post_attention_layernorm.weight,
        epsilon=layer.input_layernorm.variance_epsilon,
        products=(qkv, out, gate_up, down),
        heads=layer.self_attn.config.num_attention_heads,
        groups=layer.self_attn.config.num_key_value_heads,
        width=layer.self_attn.head_dim,
    )
