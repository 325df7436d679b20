"""Plain LoRA adapters merged by hand: W + s B A (LoRA, section 4.1), without the PEFT package.

What an adapter's description says beyond rank, scale and places is left to PEFT. Why our own: PEFT works on the modules
of transformers, so a first query takes a new process 3.1 times as long.
"""

import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

ADAPTER = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"

PREFIX, DOWN, UP = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
_READ = {"r", "lora_alpha", "target_modules", "layers_to_transform", "rank_pattern", "alpha_pattern", "use_rslora"}
_WITHOUT_EFFECT = {
    *("task_type", "base_model_name_or_path", "revision", "inference_mode", "lora_dropout", "peft_version"),
    *("auto_mapping", "megatron_core", "qalora_group_size"),
}
"""Settings of training, or of kinds of adapter that are switched off."""
_COMPUTED: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "init_lora_weights": (True, False, "gaussian"),  # others change the weights that the adapter is beside
}
"""Settings with the values that are computed here; of any other, none must be set."""
_PATTERNS = {"r": "rank_pattern", "lora_alpha": "alpha_pattern"}
_NAME = re.compile(r"[\w.]+")
_LAYER = re.compile(r".*?\.[^.]*\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class LowRank:
    """A change added to one weight (out, in): ``scale`` times ``up`` (out, r) times ``down`` (r, in)."""

    up: Tensor
    down: Tensor
    scale: float


def read_adapter(folder: Path, weights: Mapping[str, Tensor]) -> dict[str, LowRank] | None:
    """Read a folder's adapter.

    ``weights`` are those (out, in) of the model's linear layers, by published name.

    Returns:
        What is added to each weight, or None where the adapter is of a kind that only PEFT knows, or does not fit.
    """
    config = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    if not _is_plain(config):
        return None
    stored = load_file(folder / ADAPTER)
    adapter = {}
    for weight in targets(config, weights):
        name = weight.removesuffix(".weight")
        down, up = (stored.pop(f"{PREFIX}{name}{part}", None) for part in (DOWN, UP))
        rank, alpha = (_own(config[key], config[pattern], name) for key, pattern in _PATTERNS.items())
        out, inner = weights[weight].shape
        if not rank or down is None or up is None or down.shape != (rank, inner) or up.shape != (out, rank):
            return None
        adapter[weight] = LowRank(up, down, alpha / (math.sqrt(rank) if config["use_rslora"] else rank))
    return None if stored else adapter


def merge(weights: Mapping[str, Tensor], adapter: Mapping[str, LowRank]) -> None:
    """Add an adapter to the weights in place, in float32 whatever their number format.

    Raises:
        ValueError: a weight is not finite with it.
    """
    with torch.no_grad():
        for name, added in adapter.items():
            weight = weights[name]
            up, down = (factor.to(weight.device, torch.float32) for factor in (added.up, added.down))
            merged = weight.float().addmm(up, down, alpha=added.scale)
            if not merged.isfinite().all():
                raise ValueError(f"{name} is not finite with the adapter")
            weight.copy_(merged)


def _is_plain(config: Any) -> bool:  # noqa: ANN401 - JSON
    """Tell whether a description says nothing but what is computed here."""
    if not isinstance(config, dict) or not config.keys() >= _READ or not isinstance(config["target_modules"], list):
        return False
    others = config.keys() - _READ - _WITHOUT_EFFECT - _COMPUTED.keys()
    known = all(config.get(name) in values for name, values in _COMPUTED.items())
    patterns = all(_NAME.fullmatch(key) for pattern in _PATTERNS.values() for key in config[pattern])
    return known and patterns and not any(config[name] for name in others)


def targets(config: Mapping[str, Any], weights: Collection[str]) -> list[str]:
    """Return the weights that a description names, by the ends of their names and the numbers of their layers."""
    ends = tuple(f".{name}.weight" for name in config["target_modules"])
    layers = config["layers_to_transform"]
    named = [weight for weight in weights if f".{weight}".endswith(ends)]
    if layers is None:
        return named
    numbers = [layers] if isinstance(layers, int) else layers
    return [weight for weight in named if (layer := _LAYER.match(weight)) and int(layer[1]) in numbers]


def _own(general: Any, patterns: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - numbers of JSON
    """Return a layer's own rank or alpha, where a pattern of names gives it one."""
    return next((value for key, value in patterns.items() if re.match(rf"(.*\.)?({key})$", name)), general)
