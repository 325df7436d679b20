"""Load the start of a fine-tuning: a bare model under a method, or a checkpoint to go on from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from retriever.core.errors import UsageError
from retriever.core.fingerprint import file_hash, json_hash
from retriever.core.prompts import get_template
from retriever.encoders.catalog import SENTENCE_METHOD, checkpoint_folder, resolve_name
from retriever.encoders.checkpoint import read_checkpoint_config
from retriever.encoders.instemb import InstEmbEncoder, untrained_look_ahead
from retriever.encoders.options import DEFAULT_TEMPLATE, EncoderOptions
from retriever.encoders.sources import MANIFEST
from retriever.encoders.transformers_backbone import load_trainable
from retriever.training.adapter_files import load_trained
from retriever.training.adapters import Adapted, AdapterSettings, attach
from retriever.training.config import FinetuneConfig
from retriever.training.methods import METHODS, TrainingMethod
from retriever.training.objectives.base import Learner
from retriever.training.prompt_batches import PromptTokeniser


@dataclass(frozen=True, slots=True)
class Base:
    """A model ready to be trained.

    Attributes:
        name: what the user called it.
        spec: what that stands for: ``METHOD:BACKBONE`` or a checkpoint folder.
        digest: SHA-256 that stands for its weights.
        method: of the encoder that comes out.
        continued: whether it was trained before.
        start: `Adapted.values` from before this training.
    """

    name: str
    spec: str
    digest: str
    learner: Learner
    method: str
    options: EncoderOptions
    continued: bool
    start: Mapping[str, Tensor] = field(repr=False)

    @property
    def adapted(self) -> Adapted:
        """The model in training."""
        return self.learner.adapted


@dataclass(frozen=True, slots=True)
class _Trained:
    """A checkpoint's model, the method it was made for, and its options."""

    adapted: Adapted
    method: str
    options: EncoderOptions


def is_trained(name: str | None, method: TrainingMethod) -> bool:
    """Whether what is trained on is a checkpoint, and not a bare model; the name is None for the method's own."""
    return checkpoint_folder(resolve_name(name or method.base)) is not None


def load_base(name: str | None, config: FinetuneConfig, *, device: str, dtype: str) -> Base:
    """Load what is trained on: by a name of `retriever models list`, ``METHOD:BACKBONE`` or a checkpoint folder.

    Without a name it is the method's own. A checkpoint keeps its adapter's shape and, under its own method, its
    options; look-ahead tokens are added where it has none or left out, as the method asks.

    Raises:
        EncoderError: there is no such model.
        UsageError: it cannot be trained by the method.
    """
    asked = name or config.method.base
    spec = resolve_name(asked)
    folder = checkpoint_folder(spec)
    torch.manual_seed(config.data.seed)
    if folder is None:
        loaded = _bare(spec, config.adapter, device=device, dtype=dtype)
        digest = loaded.adapted.backbone.source.digest
    else:
        loaded = _checkpoint(folder, config, device=device, dtype=dtype)
        digest = file_hash(folder / MANIFEST)
    adapted = loaded.adapted
    if adapted.backbone.masked:
        _check_masked(asked, config)
    _fit_look_ahead(adapted, config)
    made = config.method.encoder or (InstEmbEncoder.method if adapted.look_ahead is not None else "inbedder")
    return Base(
        name=asked,
        spec=spec,
        digest=json_hash({"spec": spec, "files": digest}),
        learner=_learner(adapted, loaded.options, config),
        method=made,
        options=_options(loaded, made, config),
        continued=folder is not None,
        start=adapted.values,
    )


def _bare(spec: str, settings: AdapterSettings, *, device: str, dtype: str) -> _Trained:
    method, _, name = spec.partition(":")
    if method == SENTENCE_METHOD:
        raise UsageError(
            f"{spec} is a sentence encoder, which is not trained here.",
            hint="Name a language model as METHOD:BACKBONE, a checkpoint folder, or one of `retriever models list`.",
        )
    adapted = attach(load_trainable(name, device=device, dtype=dtype), settings)
    return _Trained(adapted, method, EncoderOptions())


def _checkpoint(folder: Path, config: FinetuneConfig, *, device: str, dtype: str) -> _Trained:
    adapted = load_trained(folder, device=device, dtype=dtype, dropout=config.adapter.dropout)
    stored = read_checkpoint_config(folder)
    return _Trained(adapted, stored.method, stored.options)


def _check_masked(asked: str, config: FinetuneConfig) -> None:
    """Refuse what a masked model cannot learn."""
    if not config.method.masked:
        able = " or ".join(f"--method {one.name}" for one in METHODS.values() if one.masked)
        raise UsageError(f"{asked} is a masked model; {config.method.name} needs a causal one.", hint=able)
    weighed = {"keep": config.keep, "similarity": config.similarity}
    beside = {section: one is not None and one.weight > 0 for section, one in weighed.items()}
    beside["fusion"] = config.fusion is not None
    if found := [section for section, asked_for in beside.items() if asked_for]:
        raise UsageError(
            f"{asked} is a masked model; [{found[0]}] needs a causal one.", hint=f"Leave [{found[0]}] out of --config."
        )


def _fit_look_ahead(adapted: Adapted, config: FinetuneConfig) -> None:
    """Give the model the look-ahead tokens its training needs, trained or not, or take those away that it does not."""
    if not config.method.look_ahead:
        adapted.look_ahead = None
    elif adapted.look_ahead is None and config.adapter.look_ahead:
        started = untrained_look_ahead(adapted.backbone, config.adapter.look_ahead)
        adapted.look_ahead = nn.Parameter(started.float())
    for learned in adapted.learned.values():
        learned.requires_grad_(config.adapter.train_look_ahead)
    adapted.settings = replace(adapted.settings, look_ahead=adapted.look_ahead_length)


def _options(loaded: _Trained, made: str, config: FinetuneConfig) -> EncoderOptions:
    """Return the options of the encoder that comes out."""
    kept = EncoderOptions(template=loaded.options.template, default_instruction=loaded.options.default_instruction)
    options = loaded.options if loaded.method == made else kept
    if made == InstEmbEncoder.method:
        options = replace(options, look_ahead=None if loaded.adapted.settings.look_ahead else 0)
    return replace(options, steps=config.objective.steps)


def _learner(adapted: Adapted, options: EncoderOptions, config: FinetuneConfig) -> Learner:
    tokenizer = adapted.backbone.tokenizer.limited(config.data.max_text_tokens)
    template = get_template(options.template or DEFAULT_TEMPLATE)
    tokeniser = PromptTokeniser(tokenizer, template, default_instruction=options.default_instruction)
    return Learner(adapted, tokeniser, config.data.seed)
