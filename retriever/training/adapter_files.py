"""Trained models to checkpoint folders and back, and the proof that what was saved is what was trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from retriever.core.errors import CheckpointError
from retriever.core.types import Embeddings
from retriever.encoders.backbone import Backbone
from retriever.encoders.base import EncoderOptions, PromptEncoder
from retriever.encoders.catalog import build
from retriever.encoders.checkpoint import (
    ADAPTER,
    LAYERS_FILE,
    load_adapter,
    load_checkpoint,
    read_checkpoint_config,
    read_look_ahead,
    reading_weights,
    save_checkpoint,
)
from retriever.encoders.instemb import InstEmbEncoder
from retriever.training.adapters import Adapted, AdapterKind, AdapterSettings, attach, layer_names

# Rows of length 1 differ by this much at most after merging and rounding the adapter.
TOLERANCE = {torch.float32: 0.02, torch.bfloat16: 0.15}


@dataclass(frozen=True, slots=True)
class ActiveProof:
    """How far the vectors of a saved model are from those of others: the largest distance of a row.

    Attributes:
        to_trained: from the model in memory.
        to_base: from the model that training began from.
    """

    to_trained: float
    to_base: float


def trained_encoder(adapted: Adapted, method: str, options: EncoderOptions) -> PromptEncoder:
    """Return the encoder over the model in training as it is now, at the look-ahead embeddings' present values."""
    if method == InstEmbEncoder.method:
        learned = None if adapted.look_ahead is None else adapted.look_ahead.detach()
        return InstEmbEncoder(adapted.backbone, options, learned)
    return build(method, adapted.backbone, options)


def save_trained(
    adapted: Adapted, folder: Path, *, method: str, options: EncoderOptions, card: str, dtype: torch.dtype | None = None
) -> None:
    """Write the trained model as a checkpoint folder.

    Args:
        adapted: what was trained.
        folder: must not exist yet.
        method: the encoder's.
        options: stored with it.
        card: text of the model card.
        dtype: number format of the stored weights; bfloat16 by default, which halves the folder.

    Raises:
        CheckpointError: the folder exists.
    """
    stored = dtype or torch.bfloat16
    with adapted.holding({name: values.to(stored) for name, values in adapted.values.items()}):
        peft = adapted.peft
        if peft is not None:
            config: Any = peft.peft_config["default"]
            config.target_modules = sorted(config.target_modules)  # a set's order would change the folder's digest
            config.base_model_name_or_path = None  # filled in by PEFT; already set, it asks the hub about it
        encoder = trained_encoder(adapted, method, options)
        save_checkpoint(encoder, folder, card=card, adapter=peft, layers=adapted.layers)


def load_trained(folder: Path, *, device: str = "auto", dtype: str = "auto", dropout: float = 0.0) -> Adapted:
    """Load a checkpoint folder to train it further; its base is the backbone without it.

    Args:
        folder: what `save_trained` wrote.
        device: where to run.
        dtype: the model's number format.
        dropout: as in `AdapterSettings`.

    Raises:
        CheckpointError: a file changed, or was written for another backbone.
    """
    backbone = read_checkpoint_config(folder).load_backbone(device=device, dtype=dtype)
    with reading_weights(folder):
        return _trainable(folder, backbone, dropout)


def _trainable(folder: Path, backbone: Backbone, dropout: float) -> Adapted:
    """Return a checkpoint's weights in its backbone, ready to be trained further."""
    look_ahead = read_look_ahead(folder, backbone.dim)
    length = 0 if look_ahead is None else len(look_ahead)
    layers = _stored(folder / LAYERS_FILE)
    if layers:
        depth = sum(any(name.startswith(f"{one}.") for name in layers) for one in layer_names(backbone))
        settings = AdapterSettings(kind=AdapterKind.LAYERS, layers=depth, look_ahead=length, dropout=dropout)
        adapted = attach(backbone, settings)
    elif (folder / ADAPTER).exists():
        peft: Any = load_adapter(backbone, folder, trainable=True)
        config = peft.peft_config["default"]
        settings = AdapterSettings(rank=config.r, alpha=config.lora_alpha, look_ahead=length, dropout=dropout)
        adapted = attach(backbone, settings, peft=peft)
    else:
        raise CheckpointError(f"{folder} holds no trained weights.", hint="Name the backbone itself as the base.")
    parameters = adapted.parameters
    with torch.no_grad():
        for name, values in {**layers, **({} if look_ahead is None else {"look_ahead": look_ahead})}.items():
            parameters[name].copy_(values)
    return adapted


def prove_active(
    folder: Path,
    adapted: Adapted,
    texts: Sequence[str],
    *,
    start: Mapping[str, Tensor] | None = None,
    instruction: str = "",
    tolerance: float | None = None,
) -> ActiveProof:
    """Reload a checkpoint and compare its vectors with those of the model in memory, with and without its training.

    Args:
        folder: what `save_trained` wrote.
        adapted: the model it was written from.
        texts: a few texts.
        start: `Adapted.values` from before the training; None for the bare backbone.
        instruction: read under it; empty for the stored default.
        tolerance: the most a row may differ from the model in memory, as the length of the difference of two rows of
            length 1; by default what merging and rounding the weights cost.

    Raises:
        CheckpointError: the saved model's vectors are not the trained ones, or no nearer to them than to those of the
            model that training began from.
    """
    backbone = adapted.backbone
    saved = load_checkpoint(folder, EncoderOptions(), device=str(backbone.device), dtype=_name(backbone.dtype))
    trained = trained_encoder(adapted, saved.method, saved.options)
    stored = saved.encode(texts, instruction=instruction)
    to_trained = _distance(stored, trained.encode(texts, instruction=instruction))
    with adapted.base() if start is None else adapted.holding(start):
        began = trained_encoder(adapted, saved.method, saved.options)
        to_base = _distance(stored, began.encode(texts, instruction=instruction))
    limit = TOLERANCE[backbone.dtype] if tolerance is None else tolerance
    if not to_trained <= limit:
        raise CheckpointError(
            f"{folder} does not give the trained vectors: they are {to_trained:.3g} apart, {limit:.3g} allowed.",
            hint="The checkpoint is not usable; the training state is kept, save it again.",
        )
    if to_base <= 2 * to_trained:
        raise CheckpointError(
            f"The adapter in {folder} does nothing: its vectors are {to_base:.3g} from those of the model "
            f"that training began from and {to_trained:.3g} from the trained ones.",
            hint="Train longer or at a higher learning rate.",
        )
    return ActiveProof(to_trained, to_base)


def _stored(file: Path) -> dict[str, Tensor]:
    return load_file(file) if file.exists() else {}


def _distance(one: Embeddings, other: Embeddings) -> float:
    return float(np.linalg.norm(one.astype(np.float64) - other, axis=1).max())


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
