"""Is a sentence-transformers folder a BERT whose tokens are pooled, and nothing else? Then it is read here.

Everything that would change a vector and is not computed by this package makes the answer no. Which modules, settings
and files there are is read; no weight is.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError, safe_open

WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"

_Pooling = Literal["mean", "cls"]
_POOLINGS: Mapping[str, _Pooling] = {"mean": "mean", "cls": "cls"}
_LEGACY_POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
_PREFIXES = ("", "bert.")  # of the weights' names: saved as a bare model, or under a head

_MODULES = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_MODEL: Mapping[str, tuple[object, ...]] = {
    "model_type": ("bert",),
    "hidden_act": ("gelu",),
    "position_embedding_type": (None, "absolute"),
    "is_decoder": (None, False),
    "add_cross_attention": (None, False),
    "quantization_config": (None,),
    "auto_map": (None,),
}
_TRANSFORMER: Mapping[str, tuple[object, ...]] = {
    "do_lower_case": (None, False),
    "transformer_task": (None, "feature-extraction"),
    "module_output_name": (None, "token_embeddings"),
    "modality_config": (None, {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}),
}
"""Values of a setting that are computed here; None where it is not said."""
_AS_IT_IS = "PreTrainedTokenizerFast"
_NORMALISER = {"do_lower_case": "lowercase", "strip_accents": "strip_accents"}
_NORMALISER |= {"tokenize_chinese_chars": "handle_chinese_chars"}


@dataclass(frozen=True, slots=True)
class BertLayout:
    """Shape of a BERT sentence encoder.

    Attributes:
        max_tokens: tokens of a text that are read, those put around it included.
        positions: tokens that the model has places for, those of a question before a text included.
    """

    folder: Path
    prefix: str
    layers: int
    heads: int
    dim: int
    epsilon: float
    pooling: _Pooling
    max_tokens: int
    positions: int


def read_layout(folder: Path) -> BertLayout | None:
    """Read the shape of a sentence-transformers folder; None where it is, or may be, something else."""
    try:
        return _layout(folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError):
        return None  # whoever loads it by the usual way says what is wrong with it


def _layout(folder: Path) -> BertLayout | None:
    modules = _json(folder / "modules.json")
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    if kinds not in _MODULES or not all(str(module["type"]).startswith("sentence_transformers.") for module in modules):
        return None
    if modules[0]["path"] or (folder / "adapter_config.json").exists():
        return None
    model = _json(folder / "config.json")
    transformer = _json(folder / "sentence_bert_config.json")
    tokenizer = _json(folder / "tokenizer_config.json", missing={})
    pools = _json(folder / modules[1]["path"] / "config.json")
    pooling = _pooling(pools)
    prefix = _prefix(folder / WEIGHTS, int(model["num_hidden_layers"]))
    known = (
        _holds(model, _MODEL)
        and _holds(transformer, _TRANSFORMER)
        and not any(transformer[key] for key in transformer.keys() - _TRANSFORMER.keys() - {"max_seq_length"})
        and pools.get("include_prompt", True)
        and tokenizer.get("truncation_side", "right") == "right"
        and _same_tokenizer(_json(folder / TOKENIZER), tokenizer)
    )
    if pooling is None or prefix is None or not known:
        return None
    limit = transformer.get("max_seq_length") or tokenizer.get("model_max_length") or model["max_position_embeddings"]
    return BertLayout(
        folder=folder,
        prefix=prefix,
        layers=int(model["num_hidden_layers"]),
        heads=int(model["num_attention_heads"]),
        dim=int(model["hidden_size"]),
        epsilon=float(model["layer_norm_eps"]),
        pooling=pooling,
        max_tokens=min(int(limit), int(model["max_position_embeddings"])),
        positions=int(model["max_position_embeddings"]),
    )


def _json(path: Path, *, missing: Any = None) -> Any:  # noqa: ANN401 - whatever the file holds
    if missing is not None and not path.exists():
        return missing
    return json.loads(path.read_text(encoding="utf-8"))


def _holds(config: Mapping[str, object], allowed: Mapping[str, tuple[object, ...]]) -> bool:
    return all(config.get(key) in values for key, values in allowed.items())


def _pooling(config: Mapping[str, object]) -> _Pooling | None:
    """Return the one pooling of a module's settings, in either of the two forms there are."""
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [_LEGACY_POOLINGS.get(key, "") for key, on in config.items() if key.startswith("pooling_mode_") and on]
    names = [modes] if isinstance(modes, str) else list(modes)  # type: ignore[call-overload]
    return _POOLINGS.get(names[0]) if len(names) == 1 else None


def _prefix(weights: Path, layers: int) -> str | None:
    """Return what the names begin with in a file of float weights; None where it does not hold all of them."""
    with safe_open(weights, "numpy") as file:
        names = set(file.keys())
        prefixes = [prefix for prefix in _PREFIXES if {prefix + name for name in weight_names(layers)} <= names]
        if not prefixes:
            return None
        formats = {file.get_slice(prefixes[0] + name).get_dtype() for name in weight_names(layers)}
    return prefixes[0] if formats <= {"F32", "F16"} else None


def weight_names(layers: int) -> list[str]:
    """Name the weights that are read, without what they may begin with."""
    parts = ["attention.self.query", "attention.self.key", "attention.self.value"]
    parts += ["attention.output.dense", "attention.output.LayerNorm"]
    parts += ["intermediate.dense", "output.dense", "output.LayerNorm"]
    tables = [f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")]
    with_bias = ["embeddings.LayerNorm", *(f"encoder.layer.{i}.{part}" for i in range(layers) for part in parts)]
    return [*tables, *(f"{name}.{kind}" for name in with_bias for kind in ("weight", "bias"))]


def _same_tokenizer(tokenizer: Mapping[str, Any], config: Mapping[str, object]) -> bool:
    """Tell whether the tokenizer's file says all that transformers does.

    It is read as it is by the class that has no settings of its own. For others transformers goes by their settings,
    and those of a WordPiece tokenizer are compared here.
    """
    if config.get("tokenizer_class") == _AS_IT_IS:
        return True
    normaliser = tokenizer["normalizer"]
    return (
        tokenizer["model"]["type"] == "WordPiece"
        and tokenizer["pre_tokenizer"]["type"] == "BertPreTokenizer"
        and normaliser["type"] == "BertNormalizer"
        and all(config.get(key, normaliser[name]) == normaliser[name] for key, name in _NORMALISER.items())
    )
