"""Which models of the Llama family are computed here, told from their config.json."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ARCHITECTURE = "LlamaForCausalLM"

_COMPUTED = {
    "model_type": "llama",
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "pretraining_tp": 1,
    "rope_scaling": None,
    "rope_interleaved": False,
}
"""Settings with the one value that is computed here."""
_READ = {
    *("architectures", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps", "rope_theta", "rope_parameters"),
    "tie_word_embeddings",
}
_WITHOUT_EFFECT = {
    *("_name_or_path", "_model_name_or_path", "transformers_version", "dtype", "torch_dtype", "use_cache"),
    *("attention_dropout", "initializer_range", "bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id"),
    *("is_llama_config", "transformers.js_config"),
}
"""Settings of training, of generation and of other programs."""


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """The shape of a model.

    Attributes:
        vocabulary: V, rows of the embedding table.
        dim: d, the width of hidden states.
        inner: width of the feed-forward layers.
        layers: how many.
        heads: of queries.
        groups: heads of keys and values; each serves ``heads / groups`` heads of queries.
        width: of a head.
        positions: how many the model was trained with.
        epsilon: added to a mean square before its root.
        theta: base of the rotary wavelengths.
        tied: whether the head is the embedding table.
    """

    vocabulary: int
    dim: int
    inner: int
    layers: int
    heads: int
    groups: int
    width: int
    positions: int
    epsilon: float
    theta: float
    tied: bool


def read_config(folder: Path) -> LlamaConfig | None:
    """Read a model folder's config.json; None where it says anything that is not computed here, or not known."""
    stored: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not isinstance(stored, dict) or stored.get("architectures") != [ARCHITECTURE]:
        return None
    rope = stored.get("rope_parameters") or {}
    if (
        not isinstance(rope, dict)
        or stored.keys() - _READ - _WITHOUT_EFFECT - _COMPUTED.keys()
        or any(stored.get(name, value) != value for name, value in _COMPUTED.items())
        or rope.keys() - {"rope_type", "rope_theta"}
        or rope.get("rope_type", "default") != "default"
    ):
        return None
    heads = stored["num_attention_heads"]
    return LlamaConfig(
        vocabulary=stored["vocab_size"],
        dim=stored["hidden_size"],
        inner=stored["intermediate_size"],
        layers=stored["num_hidden_layers"],
        heads=heads,
        groups=stored.get("num_key_value_heads") or heads,
        width=stored.get("head_dim") or stored["hidden_size"] // heads,
        positions=stored.get("max_position_embeddings", 2048),
        epsilon=stored.get("rms_norm_eps", 1e-6),
        theta=float(rope.get("rope_theta") or stored.get("rope_theta") or 10_000.0),
        tied=stored.get("tie_word_embeddings", False),
    )
