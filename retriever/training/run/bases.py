"""Models and checkpoints that a fine-tuning goes on from, of language models and of sentence encoders."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from retriever.core.errors import UsageError
from retriever.core.fingerprint import file_hash, json_hash
from retriever.core.prompts import get_template
from retriever.core.protocols import Encoder
from retriever.encoders import instructor
from retriever.encoders.base import PromptEncoder
from retriever.encoders.behind_prompt import InstEmbEncoder, untrained_look_ahead
from retriever.encoders.catalog import checkpoint_folder, find_encoder, load_encoder, resolve_name
from retriever.encoders.checkpoint_config import read_checkpoint_config
from retriever.encoders.instructor import InstructorEncoder
from retriever.encoders.methods import DEFAULT_TEMPLATE, SENTENCE_METHODS, EncoderOptions
from retriever.encoders.sources import MANIFEST
from retriever.encoders.transformers_backbone import load_trainable
from retriever.training.adapter_files import ActiveProof, load_trained, prove_active, prove_between, save_trained
from retriever.training.adapters import Adapted, AdapterSettings, attach
from retriever.training.config import FinetuneConfig
from retriever.training.merging import merged
from retriever.training.methods import DEFAULT, LANGUAGE, METHODS, TrainingMethod
from retriever.training.objectives.base import Learner
from retriever.training.prompt_batches import PromptTokeniser
from retriever.training.rows import TrainingRow
from retriever.training.run.start import Tokens
from retriever.training.sentence import AdaptedSentenceEncoder, SentenceLearner


@dataclass(frozen=True, slots=True)
class Base(ABC):
    """A model ready to be trained.

    Attributes:
        spec: what the name stands for: ``METHOD:BACKBONE`` or a checkpoint folder.
        digest: SHA-256 that stands for its weights.
        continued: whether it was trained before.
        options: of the encoder that comes out.
        start: the trained parameters' values from before this training.
    """

    name: str
    spec: str
    digest: str
    continued: bool
    options: EncoderOptions
    start: Mapping[str, Tensor] = field(repr=False)

    @property
    @abstractmethod
    def learner(self) -> Learner | SentenceLearner:
        """The model in training, as objectives take it."""

    @property
    @abstractmethod
    def backbone(self) -> str:
        """Name of the model below."""

    @property
    @abstractmethod
    def tokens(self) -> Tokens:
        """The tokenizer, which cuts texts where training does."""

    @property
    @abstractmethod
    def place(self) -> tuple[torch.device, torch.dtype]:
        """Where the model runs, and in which number format."""

    @property
    def shape(self) -> str:
        """How much of it is trained, in words."""
        settings = self.learner.adapted.settings
        size = f"rank {settings.rank}" if settings.kind == "lora" else f"{settings.layers} layers"
        return f"{size} and {settings.look_ahead} look-ahead tokens" if settings.look_ahead else size

    @abstractmethod
    def quick(self) -> AbstractContextManager[None]:
        """Within the block, which a step is, the model reads as fast as it can."""

    @abstractmethod
    def save(self, folder: Path, rows: Sequence[TrainingRow]) -> None:
        """Write what was learned from rows as a checkpoint folder that must not exist yet."""

    @abstractmethod
    def prove(self, saved: Encoder, texts: Sequence[str], instruction: str) -> ActiveProof:
        """Compare the saved model's vectors with those of the model in memory, with and without its training.

        Raises:
            CheckpointError: they are not the trained ones, or the training does nothing.
        """


@dataclass(frozen=True, slots=True)
class PromptBase(Base):
    """A language model; ``method`` is that of the encoder that comes out."""

    prompted: Learner
    method: str

    @property
    def learner(self) -> Learner:
        """The model in training with its prompts."""
        return self.prompted

    @property
    def backbone(self) -> str:
        """Name of the language model."""
        return self.prompted.adapted.backbone.source.name

    @property
    def tokens(self) -> Tokens:
        """The language model's tokenizer."""
        return self.prompted.tokeniser.tokenizer

    @property
    def place(self) -> tuple[torch.device, torch.dtype]:
        """Where the language model runs, and its number format."""
        return self.prompted.adapted.backbone.device, self.prompted.adapted.backbone.dtype

    def quick(self) -> AbstractContextManager[None]:
        """Read with merged weights."""
        return merged(self.prompted.adapted.backbone)

    def save(self, folder: Path, rows: Sequence[TrainingRow]) -> None:
        """Write adapter and look-ahead tokens."""
        save_trained(self.prompted.adapted, folder, method=self.method, options=self.options)

    def prove(self, saved: Encoder, texts: Sequence[str], instruction: str) -> ActiveProof:
        """As `prove_active`."""
        adapted = self.prompted.adapted
        return prove_active(cast("PromptEncoder", saved), adapted, texts, start=self.start, instruction=instruction)


@dataclass(frozen=True, slots=True)
class SentenceBase(Base):
    """A sentence encoder."""

    sentences: SentenceLearner

    @property
    def learner(self) -> SentenceLearner:
        """The encoder in training."""
        return self.sentences

    @property
    def backbone(self) -> str:
        """Name of the sentence encoder."""
        return self.sentences.adapted.encoder.source.name

    @property
    def tokens(self) -> Tokens:
        """The sentence encoder's tokenizer."""
        return self.sentences.adapted.tokens

    @property
    def place(self) -> tuple[torch.device, torch.dtype]:
        """Where the sentence encoder runs, and its number format."""
        return self.sentences.adapted.device, self.sentences.adapted.dtype

    def quick(self) -> AbstractContextManager[None]:
        """Change nothing: there is one way to read."""
        return nullcontext()

    def save(self, folder: Path, rows: Sequence[TrainingRow]) -> None:
        """Write the change and the answers that words are taken from, with those of the rows."""
        plain = any(not row.instruction for row in rows)
        instructor.save(self.sentences.adapted.trained(_said(rows), plain=plain), folder)

    def prove(self, saved: Encoder, texts: Sequence[str], instruction: str) -> ActiveProof:
        """Compare with the vectors that the training itself reads."""
        adapted, asked = self.sentences.adapted, [instruction] * len(texts)
        with torch.no_grad():
            trained = adapted.read(texts, asked).float().cpu().numpy()
            with adapted.holding(self.start):
                began = adapted.read(texts, asked).float().cpu().numpy()
        return prove_between(saved.encode(texts, instruction=instruction), trained, began, adapted.dtype)


LONGEST_ANSWER = 3
"""Most words of an answer that texts are answered with."""
MOST_ANSWERS = 6000
"""Answers that one training adds to those, the commonest; their vectors take 1.5 KB each."""


def _said(rows: Sequence[TrainingRow]) -> list[str]:
    """Return the short answers of rows, the commonest first, but those that say yes or no and more."""
    counts = Counter(" ".join(row.answer.casefold().split()) for row in rows if not row.positives)
    words = ((answer, answer.split()) for answer, _ in counts.most_common())
    short = (answer for answer, parts in words if len(parts) == 1 or (parts and parts[0] not in ("yes", "no")))
    return [answer for answer in short if len(answer.split()) <= LONGEST_ANSWER][:MOST_ANSWERS]


def is_trained(name: str | None, method: TrainingMethod) -> bool:
    """Whether what is trained on is a checkpoint, and not a bare model; the name is None for the method's own."""
    return checkpoint_folder(resolve_name(name or method.base)) is not None


def usual_method(base: str | None) -> str:
    """Return the method that a model is trained by where none is named; the name is None for the shipped default."""
    return DEFAULT if base is None or _kind(resolve_name(base)) in SENTENCE_METHODS else LANGUAGE


def _kind(spec: str) -> str:
    """Return the method of the encoder that a resolved name stands for."""
    folder = checkpoint_folder(spec)
    return spec.partition(":")[0] if folder is None else read_checkpoint_config(folder).method


def load_base(name: str | None, config: FinetuneConfig, *, device: str, dtype: str) -> Base:
    """Load what is trained on: by a name of `retriever models list`, ``METHOD:BACKBONE`` or a checkpoint folder.

    Without a name it is the method's own. A checkpoint keeps its adapter's shape and, under its own method, its
    options; look-ahead tokens are added where it has none or left out, as the method asks.

    Raises:
        EncoderError: there is no such model.
        UsageError: it cannot be trained by the method.
    """
    model = name or config.method.base
    spec = resolve_name(model)
    folder = checkpoint_folder(spec)
    torch.manual_seed(config.data.seed)
    if find_encoder(spec):
        raise UsageError(f"{model} is an encoder of another package, which cannot be trained.", hint="Choose a --base.")
    if (_kind(spec) in SENTENCE_METHODS) != config.method.sentence:
        raise _of_other_kind(model, config.method)
    if config.method.sentence:
        return _sentence_base(model, spec, folder, config, device=device, dtype=dtype)
    if folder is None:
        adapted = _bare(spec, config.adapter, device=device, dtype=dtype)
        method, options, digest = spec.partition(":")[0], EncoderOptions(), adapted.backbone.source.digest
    else:
        stored = read_checkpoint_config(folder)
        adapted = load_trained(folder, device=device, dtype=dtype, dropout=config.adapter.dropout)
        method, options, digest = stored.method, stored.options, file_hash(folder / MANIFEST)
    if adapted.backbone.masked:
        _check_masked(model, config)
    _fit_look_ahead(adapted, config)
    learner = _learner(adapted, options, config)
    made = config.method.encoder or (InstEmbEncoder.method if adapted.look_ahead is not None else "inbedder")
    if made != method:
        options = EncoderOptions(template=options.template, default_instruction=options.default_instruction)
    if made == InstEmbEncoder.method:
        options = replace(options, look_ahead=None if adapted.look_ahead_length else 0)
    return PromptBase(
        name=model,
        spec=spec,
        digest=json_hash({"spec": spec, "files": digest}),
        continued=folder is not None,
        options=replace(options, steps=config.objective.steps),
        start=adapted.values,
        prompted=learner,
        method=made,
    )


def _of_other_kind(model: str, method: TrainingMethod) -> UsageError:
    able = " or ".join(f"--method {other.name}" for other in METHODS.values() if other.sentence != method.sentence)
    kinds = "language models", "a sentence encoder"
    trains, given = ("sentence encoders", "none") if method.sentence else kinds
    return UsageError(f"{method.name} trains {trains}; {model} is {given}.", hint=f"{able}, or another --base.")


def _sentence_base(
    model: str, spec: str, folder: Path | None, config: FinetuneConfig, *, device: str, dtype: str
) -> SentenceBase:
    if sections := [name for name in ("similarity", "fusion") if getattr(config, name) is not None]:
        raise UsageError(
            f"{config.method.name} learns without [{sections[0]}].", hint=f"Leave [{sections[0]}] out of --config."
        )
    name = spec if folder is not None else f"{InstructorEncoder.method}:{spec.partition(':')[2]}"
    encoder = cast("InstructorEncoder", load_encoder(name, device=device))
    adapted = AdaptedSentenceEncoder(
        encoder,
        config.adapter,
        max_text_tokens=config.data.max_text_tokens,
        seed=config.data.seed,
        device=device,
        dtype=dtype,
    )
    digest = encoder.source.digest if folder is None else file_hash(folder / MANIFEST)
    return SentenceBase(
        name=model,
        spec=spec,
        digest=json_hash({"spec": spec, "files": digest}),
        continued=folder is not None,
        options=encoder.options,
        start=adapted.values,
        sentences=SentenceLearner(adapted, config.data.seed),
    )


def _bare(spec: str, settings: AdapterSettings, *, device: str, dtype: str) -> Adapted:
    name = spec.partition(":")[2]
    return attach(load_trainable(name, device=device, dtype=dtype), settings)


def _check_masked(model: str, config: FinetuneConfig) -> None:
    """Refuse what a masked model cannot learn."""
    if not config.method.masked:
        able = " or ".join(f"--method {method.name}" for method in METHODS.values() if method.masked)
        raise UsageError(f"{model} is a masked model; {config.method.name} needs a causal one.", hint=able)
    similarity = config.similarity is not None and config.similarity.weight > 0
    beside = {"similarity": similarity, "fusion": config.fusion is not None}
    if sections := [section for section, asked_for in beside.items() if asked_for]:
        raise UsageError(
            f"{model} is a masked model; [{sections[0]}] needs a causal one.",
            hint=f"Leave [{sections[0]}] out of --config.",
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


def _learner(adapted: Adapted, options: EncoderOptions, config: FinetuneConfig) -> Learner:
    tokenizer = adapted.backbone.tokenizer.limited(config.data.max_text_tokens)
    template = get_template(options.template or DEFAULT_TEMPLATE)
    tokeniser = PromptTokeniser(tokenizer, template, default_instruction=options.default_instruction)
    return Learner(adapted, tokeniser, config.data.seed)
