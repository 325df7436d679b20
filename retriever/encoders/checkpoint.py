"""Encoder checkpoints on disk: a folder of safetensors and JSON whose every byte is under a manifest.

retriever.json             method, backbone, options, format version
adapter_config.json        PEFT's description of the adapter, where there is one
adapter_model.safetensors  its weights
layers.safetensors         the trained weights of unfrozen layers by name, where there are some
look_ahead.safetensors     what the method learns besides, a file for each tensor: look-ahead embeddings (InstEmb)
README.md                  the model card
manifest.json              SHA-256 of each of the above
"""

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, no_grad

from retriever.core.errors import CheckpointError
from retriever.core.fingerprint import file_hash, json_hash
from retriever.core.paths import new_folder
from retriever.core.registry import nearest
from retriever.encoders.backbone import Backbone, load_backbone
from retriever.encoders.base import PromptEncoder
from retriever.encoders.lora import ADAPTER, ADAPTER_CONFIG, merge, read_adapter
from retriever.encoders.methods import METHODS, EncoderOptions, build, encoder_class
from retriever.encoders.sources import CONFIG, ModelSource, check_manifest, write_manifest

if TYPE_CHECKING:
    from peft import PeftModel

    from retriever.encoders.transformers_backbone import TransformersBackbone

FORMAT = 1
LAYERS_FILE = "layers.safetensors"
MERGED = "+"
"""Stands in a digest between the backbone's and those of what a checkpoint put into it."""

_RESTORE = "Restore the folder from where it came; a changed model is not used."


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
    config = {
        "format": FORMAT,
        "method": encoder.method,
        "backbone": {"name": encoder.backbone.source.name, "digest": encoder.backbone.source.digest},
        "options": asdict(replace(encoder.options, template=encoder.template.name)),
    }
    with new_folder(folder) as draft:
        (draft / CONFIG).write_text(json.dumps(config, indent=1) + "\n")
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
    """Load a checkpoint folder.

    Fields that differ from `EncoderOptions`' defaults override the stored ones.

    Raises:
        CheckpointError: a file changed, is missing, or was written for another backbone or a newer version.
    """
    config = read_checkpoint_config(folder)
    backbone = load_backbone(config.backbone, device=device, dtype=dtype)
    config.require(backbone.source)
    chosen = _overridden(config.options, options)
    with reading_weights(folder):
        backbone = _with_layers(_with_adapter(backbone, config), folder)
        learned = read_learned(folder, encoder_class(config.method, backbone))
        return build(config.method, backbone, chosen, learned or None)


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """The contents of a checkpoint's `retriever.json`; the digest is that of the backbone it was trained on."""

    folder: Path
    method: str
    backbone: str
    digest: str
    options: EncoderOptions

    def require(self, source: ModelSource) -> None:
        """Raise CheckpointError where a source is another version of the backbone the checkpoint was trained on."""
        if source.digest != self.digest:
            raise CheckpointError(
                f"{self.folder} was trained on another version of {self.backbone}.",
                hint=f"Install the backbone with digest {self.digest[:12]}.",
            )


def read_checkpoint_config(folder: Path) -> CheckpointConfig:
    """Check a checkpoint's manifest and return what its `retriever.json` says.

    Raises:
        CheckpointError: a file changed or is missing, or the description is malformed or of a newer version.
    """
    check_manifest(folder, hint=_RESTORE)
    try:
        stored = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        if stored["format"] > FORMAT:
            raise CheckpointError(
                f"{folder} has checkpoint format {stored['format']}.", hint="Upgrade retriever to read it."
            )
        options = EncoderOptions(**stored["options"])
        for field in fields(EncoderOptions):
            value = getattr(options, field.name)
            if isinstance(value, bool) or not isinstance(value, cast("type", field.type)):
                raise ValueError(f"{field.name} is {value!r}")
        named = {"method": stored["method"], **stored["backbone"]}
        if not all(isinstance(named[key], str) for key in ("method", "name", "digest")):
            raise ValueError("method and backbone are no names")
        if named["method"] not in METHODS:
            raise ValueError(nearest(named["method"], METHODS))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{folder / CONFIG} is malformed: {error}.", hint=_RESTORE) from error
    return CheckpointConfig(folder, named["method"], named["name"], named["digest"], options)


def read_learned(folder: Path, kind: type[PromptEncoder]) -> dict[str, Tensor]:
    """Read a checkpoint's tensors that its kind of encoder learns beside the weights; errors as safetensors'.

    Raises:
        CheckpointError: one is missing.
    """
    for name in kind.learned_names:
        if not (folder / learned_file(name)).exists():
            raise CheckpointError(f"{folder} has no {learned_file(name)}.", hint=_RESTORE)
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
        raise CheckpointError(f"The weights in {folder} cannot be used: {error}.", hint=_RESTORE) from error


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


def _overridden(stored: EncoderOptions, chosen: EncoderOptions) -> EncoderOptions:
    default = asdict(EncoderOptions())
    return replace(stored, **{name: value for name, value in asdict(chosen).items() if value != default[name]})
