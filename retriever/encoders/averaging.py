"""The mean of several checkpoints' weights, as a checkpoint of its own.

Models trained on from one backbone can be averaged ("Model soups", Wortsman et al., 2022): the mean often keeps what
each learned, and answers what neither was asked better than one longer training. What is averaged is what the adapters
add to the weights, B A times their scale, and not B and A, which two trainings need not write alike: the factors of all
stand side by side, so the mean is exact and its rank the sum of theirs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from retriever.core.errors import CheckpointError
from retriever.core.fingerprint import file_hash
from retriever.encoders.backbone import Backbone, load_backbone
from retriever.encoders.checkpoint import (
    LAYERS_FILE,
    CheckpointConfig,
    learned_file,
    read_checkpoint_config,
    read_learned,
    reading_weights,
)
from retriever.encoders.lora import CONFIG as ADAPTER_CONFIG
from retriever.encoders.lora import DOWN, PREFIX, UP, LowRank, read_adapter, targets
from retriever.encoders.lora import WEIGHTS as ADAPTER
from retriever.encoders.methods import encoder_class
from retriever.encoders.sources import CONFIG, MANIFEST, write_manifest


@dataclass(frozen=True, slots=True)
class Part:
    """A checkpoint folder and its share of a mean; all shares add up to 1."""

    folder: Path
    share: float


def write_mean(parts: Sequence[Part], folder: Path, *, name: str) -> None:
    """Write the weighted mean of two checkpoints or more into an empty folder; its card calls it by a name.

    A weight that one of them leaves as the backbone has it counts as that.

    Raises:
        CheckpointError: a file changed, or the checkpoints differ in method, backbone, options or what was trained, or
            an adapter is of a kind that cannot be averaged.
    """
    configs = [read_checkpoint_config(part.folder) for part in parts]
    for one in configs[1:]:
        _check_alike(configs[0], one)
    kinds = [kind for kind in (ADAPTER, LAYERS_FILE) if any((part.folder / kind).exists() for part in parts)]
    if len(kinds) > 1:
        raise CheckpointError("Some models have an adapter and some whole layers.", hint="Merge models of one kind.")
    backbone = configs[0].load_backbone(load_backbone, device="cpu", dtype="float32")
    _write_adapter(parts, backbone, folder)
    _write_layers(parts, backbone, folder)
    learned = []
    for part in parts:
        with reading_weights(part.folder):
            learned.append(read_learned(part.folder, encoder_class(configs[0].method, backbone)))
    for key in learned[0]:
        if len({one[key].shape for one in learned}) > 1:
            raise CheckpointError(
                f"The models have learned {key} of different shapes.", hint="Merge models of one shape."
            )
        save_file({key: _mean([one[key] for one in learned], parts)}, folder / learned_file(key))
    (folder / CONFIG).write_text((parts[0].folder / CONFIG).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "README.md").write_text(_card(parts, configs[0], name), encoding="utf-8")
    write_manifest(folder)


def _check_alike(first: CheckpointConfig, other: CheckpointConfig) -> None:
    ours, theirs = ({**asdict(one), "folder": None} for one in (first, other))
    different = [key for key, value in ours.items() if value != theirs[key]]
    if not different:
        return
    said = {key: (ours[key], theirs[key]) for key in different}
    if "options" in said:
        names = [key for key, value in ours["options"].items() if value != theirs["options"][key]]
        said |= {key: (ours["options"][key], theirs["options"][key]) for key in names}
        del said["options"]
    key, (one, another) = next(iter(said.items()))
    raise CheckpointError(
        f"{first.folder} and {other.folder} cannot be merged: their {key} is {one} and {another}.",
        hint="Merge models of one method, backbone and options.",
    )


def _write_adapter(parts: Sequence[Part], backbone: Backbone, folder: Path) -> None:
    """Write an adapter that adds the mean of what the parts' adapters add; nothing where no part has one."""
    weights = backbone.linear_weights()
    found: list[tuple[Part, dict[str, LowRank]]] = []
    for part in parts:
        if not (part.folder / ADAPTER).exists():
            continue
        with reading_weights(part.folder):
            adapter = read_adapter(part.folder, weights)
        if adapter is None:
            raise CheckpointError(f"{part.folder} holds an adapter of another kind than plain LoRA.")
        found.append((part, adapter))
    if not found:
        return
    descriptions = [json.loads((part.folder / ADAPTER_CONFIG).read_text(encoding="utf-8")) for part, _ in found]
    ranks = [max(one.down.shape[0] for one in adapter.values()) for _, adapter in found]
    config = _description(descriptions, sum(ranks))
    dtype = reduce(torch.promote_types, [one.up.dtype for _, adapter in found for one in adapter.values()])
    stored = {}
    for name in targets(config, weights):
        out, inner = weights[name].shape
        factors = [
            _factors(adapter.get(name), part.share, rank, out, inner)
            for (part, adapter), rank in zip(found, ranks, strict=True)
        ]
        inside = f"{PREFIX}{name.removesuffix('.weight')}"
        stored[inside + DOWN] = torch.cat([one.down for one in factors]).to(dtype)  # (R, in)
        stored[inside + UP] = torch.cat([one.up for one in factors], dim=1).to(dtype)  # (out, R)
    save_file(stored, folder / ADAPTER)
    (folder / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _description(descriptions: Sequence[Mapping[str, Any]], rank: int) -> dict[str, Any]:
    """Return PEFT's description of an adapter of that rank and scale 1 in every place that one of some has."""
    layers = [one["layers_to_transform"] for one in descriptions]
    numbers = {number for one in layers if one is not None for number in ([one] if isinstance(one, int) else one)}
    return {
        **descriptions[0],
        "r": rank,
        "lora_alpha": rank,
        "use_rslora": False,
        "rank_pattern": {},
        "alpha_pattern": {},
        "target_modules": sorted({name for one in descriptions for name in one["target_modules"]}),
        "layers_to_transform": None if None in layers else sorted(numbers),
    }


def _factors(added: LowRank | None, share: float, rank: int, out: int, inner: int) -> LowRank:
    """Return a share of what is added to a weight (out, in) as factors of that rank in float32 and of scale 1."""
    up, down = torch.zeros(out, rank), torch.zeros(rank, inner)
    if added is not None:
        own = added.down.shape[0]
        up[:, :own], down[:own] = added.up.float() * (added.scale * share), added.down.float()
    return LowRank(up, down, 1.0)


def _write_layers(parts: Sequence[Part], backbone: Backbone, folder: Path) -> None:
    """Write the mean of whole layers' weights; nothing where no part has trained any."""
    files = [part.folder / LAYERS_FILE for part in parts]
    stored = [load_file(file) if file.exists() else {} for file in files]
    names = sorted({name for one in stored for name in one})
    if not names:
        return
    own = backbone.weights()
    mean = {name: _mean([one[name] if name in one else own[name].cpu() for one in stored], parts) for name in names}
    save_file(mean, folder / LAYERS_FILE)


def _mean(values: Sequence[Tensor], parts: Sequence[Part]) -> Tensor:
    """Return the weighted mean of tensors of one shape, in the finest of their number formats."""
    mean = torch.stack([part.share * one.float() for one, part in zip(values, parts, strict=True)]).sum(dim=0)
    return mean.to(reduce(torch.promote_types, [one.dtype for one in values]))


def _card(parts: Sequence[Part], config: CheckpointConfig, name: str) -> str:
    listed = [f"| `{part.folder}` | {part.share:.3g} | `{file_hash(part.folder / MANIFEST)}` |" for part in parts]
    lines = [
        f"# {name}",
        "",
        f"An encoder for `retriever`: the mean of the weights of {len(parts)} {config.method} models on "
        f"{config.backbone}, made by `retriever models merge`. It was not measured.",
        "",
        "| model | share | SHA-256 of its manifest |",
        "|---|---|---|",
        *listed,
        "",
    ]
    return "\n".join(lines)
