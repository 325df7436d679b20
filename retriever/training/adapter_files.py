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
from retriever.encoders.base import PromptEncoder
from retriever.encoders.checkpoint import (
    LAYERS_FILE,
    load_adapter,
    read_learned,
    reading_weights,
    save_checkpoint,
)
from retriever.encoders.checkpoint_config import read_checkpoint_config
from retriever.encoders.lora import ADAPTER
from retriever.encoders.methods import EncoderOptions, build, encoder_class
from retriever.encoders.transformers_backbone import TransformersBackbone, load_trainable
from retriever.training.adapters import Adapted, AdapterSettings, attach, layer_names

# Rows of length 1 differ by this much at most after merging and rounding the adapter.
SAVED_TOLERANCE = {torch.float32: 0.02, torch.bfloat16: 0.15}


@dataclass(frozen=True, slots=True)
class ActiveProof:
    """The largest distance of a saved model's vectors from the model in memory, and from where training began."""

    to_trained: float
    to_base: float


def trained_encoder(adapted: Adapted, method: str, options: EncoderOptions) -> PromptEncoder:
    """Make the encoder over the model in training as it is now, at the present values of what it learns besides."""
    names = encoder_class(method, adapted.backbone).learned_names
    learned = {name: values.detach() for name, values in adapted.learned.items() if name in names}
    return build(method, adapted.backbone, options, learned or None)


def save_trained(
    adapted: Adapted, folder: Path, *, method: str, options: EncoderOptions, dtype: torch.dtype = torch.bfloat16
) -> None:
    """Write the trained model, under its encoder's method and options, as a checkpoint folder that must not exist yet.

    Weights are stored in ``dtype``, by default in bfloat16, which halves the folder. The model card is empty.

    Raises:
        CheckpointError: the folder exists.
    """
    with adapted.holding({name: values.to(dtype) for name, values in adapted.values.items()}):
        peft = adapted.peft
        if peft is not None:
            config: Any = peft.peft_config["default"]
            config.target_modules = sorted(config.target_modules)  # a set's order would change the folder's digest
            config.base_model_name_or_path = None  # filled in by PEFT; already set, it asks the hub about it
        encoder = trained_encoder(adapted, method, options)
        save_checkpoint(encoder, folder, card="", adapter=peft, layers=adapted.layers)


def load_trained(folder: Path, *, device: str = "auto", dtype: str = "auto", dropout: float = 0.0) -> Adapted:
    """Load a checkpoint folder to train it further, with dropout as in `AdapterSettings`.

    Its base is the backbone without it.

    Raises:
        CheckpointError: a file changed, or was written for another backbone.
    """
    config = read_checkpoint_config(folder)
    backbone = load_trainable(config.backbone, device=device, dtype=dtype)
    config.require(backbone.source)
    with reading_weights(folder):
        learned = read_learned(folder, encoder_class(config.method, backbone))
        return _trainable(folder, backbone, learned, dropout)


def _trainable(folder: Path, backbone: TransformersBackbone, learned: Mapping[str, Tensor], dropout: float) -> Adapted:
    """Put a checkpoint's weights into its backbone, ready to be trained further."""
    length = len(learned.get("look_ahead", ()))
    layers = load_file(folder / LAYERS_FILE) if (folder / LAYERS_FILE).exists() else {}
    if layers:
        depth = sum(any(name.startswith(f"{layer}.") for name in layers) for layer in layer_names(backbone))
        settings = AdapterSettings(kind="layers", layers=depth, look_ahead=length, dropout=dropout)
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
        for name, values in {**layers, **learned}.items():
            parameters[name].copy_(values)
    return adapted


def prove_active(
    saved: PromptEncoder,
    adapted: Adapted,
    texts: Sequence[str],
    *,
    start: Mapping[str, Tensor] | None = None,
    instruction: str = "",
) -> ActiveProof:
    """Compare a saved model's vectors with those of the model in memory, with and without its training.

    ``saved`` was loaded from what `save_trained` wrote, in the number format of the model in memory. ``start`` is
    `Adapted.values` from before the training, None for the bare backbone; an empty instruction is the stored default.

    Raises:
        CheckpointError: the saved model's vectors are not the trained ones, or no nearer to them than to those of the
            model that training began from.
    """
    trained = trained_encoder(adapted, saved.method, saved.options)
    after = trained.encode(texts, instruction=instruction)
    with adapted.base() if start is None else adapted.holding(start):
        began = trained_encoder(adapted, saved.method, saved.options)
        before = began.encode(texts, instruction=instruction)
    return prove_between(saved.encode(texts, instruction=instruction), after, before, adapted.backbone.dtype)


def prove_between(stored: Embeddings, trained: Embeddings, began: Embeddings, dtype: torch.dtype) -> ActiveProof:
    """Compare a saved model's vectors (n, d) with those of the model in memory, after its training and before.

    ``dtype`` is what the model in memory runs in.

    Raises:
        CheckpointError: they are not the trained ones, or no nearer to them than to those of before.
    """
    to_trained, to_base = _distance(stored, trained), _distance(stored, began)
    limit = SAVED_TOLERANCE[dtype]
    if not to_trained <= limit:
        raise CheckpointError(
            f"The saved model does not give the trained vectors: they are {to_trained:.3g} apart, {limit:.3g} allowed.",
            hint="The checkpoint is not usable; the training state is kept, save it again.",
        )
    if to_base <= 2 * to_trained:
        raise CheckpointError(
            f"The saved model's training does nothing: its vectors are {to_base:.3g} from those of the model that "
            f"training began from and {to_trained:.3g} from the trained ones.",
            hint="Train longer or at a higher learning rate.",
        )
    return ActiveProof(to_trained, to_base)


def _distance(first: Embeddings, second: Embeddings) -> float:
    return float(np.linalg.norm(first.astype(np.float64) - second, axis=1).max())
