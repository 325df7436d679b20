"""Encoder checkpoints on disk: a folder of safetensors and JSON whose every byte is under a manifest.

retriever.json             method, backbone, options, format version
adapter_config.json        PEFT's description of the adapter, where there is one
adapter_model.safetensors  its weights
layers.safetensors         the trained weights of unfrozen layers by name, where there are some
look_ahead.safetensors     what the method learns besides, a file for each tensor: look-ahead embeddings (InstEmb)
README.md                  the model card
manifest.json              SHA-256 of each of the above
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, no_grad

from retriever.core.errors import CheckpointError
from retriever.core.fingerprint import file_hash, json_hash
from retriever.core.paths import new_folder
from retriever.encoders.backbone import Backbone, load_backbone
from retriever.encoders.base import PromptEncoder
from retriever.encoders.checkpoint_config import (
    RESTORE,
    CheckpointConfig,
    read_checkpoint_config,
    write_checkpoint_config,
)
from retriever.encoders.lora import ADAPTER, ADAPTER_CONFIG, merge, read_adapter
from retriever.encoders.methods import EncoderOptions, build, encoder_class
from retriever.encoders.sources import write_manifest

if TYPE_CHECKING:
    from peft import PeftModel

    from retriever.encoders.transformers_backbone import TransformersBackbone

LAYERS_FILE = "layers.safetensors"
MERGED = "+"
"""Stands in a digest between the backbone's and those of what a checkpoint put into it."""


def save_checkpoint(
    encoder: PromptEncoder,
    folder: Path,
    *,
    card: str,
    adapter: "PeftModel | None" = None,
    layers: Mapping[str, Tensor] | None = None,
) -> None:
    """Write an encoder as a checkpoint folder; it appears whole or not at all.

    ``card`` is the text of the model card, ``adapter`` the PEFT model whose active adapter belongs to the encoder, and
    ``layers`` are weights of the backbone that were trained themselves, under the names they have in it.

    Raises:
        CheckpointError: the folder exists, or the encoder was loaded from a checkpoint, whose weights are merged into
            the model and would be lost.
    """
    if folder.exists():
        raise CheckpointError(f"{folder} exists already.", hint="Choose another folder.")
    if MERGED in encoder.backbone.source.digest:
        raise CheckpointError(
            "The encoder was loaded from a checkpoint; its adapter is merged and cannot be saved again.",
            hint="Copy that checkpoint's folder.",
        )
    with new_folder(folder) as draft:
        options = replace(encoder.options, template=encoder.template.name)
        write_checkpoint_config(draft, encoder.method, encoder.backbone.source, options)
        if adapter is not None:
            adapter.save_pretrained(str(draft), safe_serialization=True)
            if not (draft / ADAPTER).exists():  # PEFT puts any other adapter into a folder of its own
                raise CheckpointError("The adapter is not called 'default'.", hint="Give it PEFT's default name.")
        (draft / "README.md").write_text(card)  # PEFT leaves a card of its own
        if layers:
            save_file(
                {name: weight.detach().cpu().contiguous() for name, weight in layers.items()}, draft / LAYERS_FILE
            )
        for name, values in encoder.learned.items():
            save_file({name: values.detach().cpu().contiguous()}, draft / learned_file(name))
        write_manifest(draft)


def load_checkpoint(
    folder: Path, options: EncoderOptions, *, device: str = "auto", dtype: str = "auto"
) -> PromptEncoder:
    """Load a checkpoint folder of a method over a language model; arguments and errors as `load_prompt_checkpoint`."""
    return load_prompt_checkpoint(read_checkpoint_config(folder), options, device=device, dtype=dtype)


def load_prompt_checkpoint(
    config: CheckpointConfig, options: EncoderOptions, *, device: str = "auto", dtype: str = "auto"
) -> PromptEncoder:
    """Load a checkpoint whose `retriever.json` was read.

    Fields that differ from `EncoderOptions`' defaults override the stored ones.

    Raises:
        CheckpointError: a file changed, is missing, or was written for another backbone or a newer version.
    """
    folder = config.folder
    backbone = load_backbone(config.backbone, device=device, dtype=dtype)
    config.require(backbone.source)
    chosen = config.chosen(options)
    with reading_weights(folder):
        backbone = _with_layers(_with_adapter(backbone, config), folder)
        learned = read_learned(folder, encoder_class(config.method, backbone))
        return build(config.method, backbone, chosen, learned or None)


def read_learned(folder: Path, kind: type[PromptEncoder]) -> dict[str, Tensor]:
    """Read a checkpoint's tensors that its kind of encoder learns beside the weights; errors as safetensors'.

    Raises:
        CheckpointError: one is missing.
    """
    for name in kind.learned_names:
        if not (folder / learned_file(name)).exists():
            raise CheckpointError(f"{folder} has no {learned_file(name)}.", hint=RESTORE)
    return {name: load_file(folder / learned_file(name))[name] for name in kind.learned_names}


def learned_file(name: str) -> str:
    """Return the name of the file of a tensor that a method learns beside the weights."""
    return f"{name}.safetensors"


@contextmanager
def reading_weights(folder: Path) -> Iterator[None]:
    """Tell what goes wrong with a checkpoint's weights in our words; a device without memory speaks for itself."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (SafetensorError, OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise CheckpointError(f"The weights in {folder} cannot be used: {error}.", hint=RESTORE) from error


def load_adapter(backbone: "TransformersBackbone", folder: Path, *, trainable: bool) -> "PeftModel":
    """Put the folder's adapter into the model and return the PEFT model around it."""
    from peft import PeftModel

    with warnings.catch_warnings():  # PEFT asks transformers for an attribute it has renamed
        warnings.simplefilter("ignore", FutureWarning)
        return PeftModel.from_pretrained(backbone.model, str(folder), is_trainable=trainable)


def _with_adapter(backbone: Backbone, config: CheckpointConfig) -> Backbone:
    """Merge the folder's adapter into the model, and its hash into the backbone's digest."""
    folder = config.folder
    if not (folder / ADAPTER).exists():
        return backbone
    if adapter := read_adapter(folder, backbone.linear_weights()):
        merge(backbone.linear_weights(), adapter)
    else:
        backbone = _merged_by_peft(config, device=str(backbone.device), dtype=str(backbone.dtype))
    # The description counts too: its lora_alpha scales what the weights add.
    digest = json_hash({name: file_hash(folder / name) for name in (ADAPTER, ADAPTER_CONFIG)})
    return backbone.with_digest(f"{backbone.source.digest}{MERGED}{digest}")


def _merged_by_peft(config: CheckpointConfig, *, device: str, dtype: str) -> Backbone:
    """Load the backbone with an adapter in it that only PEFT can merge."""
    from retriever.encoders.transformers_backbone import TransformersBackbone, load_trainable

    backbone = load_trainable(config.backbone, device=device, dtype=dtype.removeprefix("torch."))
    adapted: Any = load_adapter(backbone, config.folder, trainable=False)
    return TransformersBackbone(backbone.source, adapted.merge_and_unload(safe_merge=True), backbone.tokenizer)


def _with_layers(backbone: Backbone, folder: Path) -> Backbone:
    """Put the folder's trained layers into the model, and their hash into the backbone's digest."""
    if not (folder / LAYERS_FILE).exists():
        return backbone
    weights = backbone.weights()
    stored = load_file(folder / LAYERS_FILE)
    if unknown := sorted(stored.keys() - weights.keys()):
        raise CheckpointError(f"{folder} has a weight {unknown[0]} that {backbone.source.name} has not.")
    with no_grad():
        for name, values in stored.items():
            weights[name].copy_(values)
    return backbone.with_digest(f"{backbone.source.digest}{MERGED}{file_hash(folder / LAYERS_FILE)}")
