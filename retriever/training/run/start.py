"""The start of a fine-tuning: its rows, some kept out to measure with, and a model or a checkpoint to go on from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from retriever.core.errors import UsageError
from retriever.core.fingerprint import file_hash, json_hash
from retriever.core.prompts import get_template
from retriever.core.types import BadRow
from retriever.encoders.behind_prompt import InstEmbEncoder, untrained_look_ahead
from retriever.encoders.catalog import SENTENCE_METHOD, checkpoint_folder, resolve_name
from retriever.encoders.checkpoint import read_checkpoint_config
from retriever.encoders.methods import DEFAULT_TEMPLATE, EncoderOptions
from retriever.encoders.sources import MANIFEST
from retriever.encoders.tokenize import MAX_INSTRUCTION_TOKENS, PieceTokenizer
from retriever.encoders.transformers_backbone import load_trainable
from retriever.training.adapter_files import load_trained
from retriever.training.adapters import Adapted, AdapterSettings, attach
from retriever.training.config import DataSettings, FinetuneConfig
from retriever.training.methods import METHODS, TrainingMethod
from retriever.training.objectives.base import Learner
from retriever.training.prompt_batches import PromptTokeniser
from retriever.training.rows import KEPT_BAD_ROWS, TrainingRow, TrainingRows
from retriever.training.splits import check_rows, check_training_side, few_rows, hold_out


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that was learned from, its hash (None for standard input), its good rows, and which field became what."""

    name: str
    sha256: str | None
    rows: int
    mapping: str


@dataclass(frozen=True, slots=True)
class FinetuneData:
    """Rows to learn from and to measure with.

    Attributes:
        held_out: measured with; no text is on both sides.
        digest: SHA-256 of all good rows.
        bad: the first thousand rows that were skipped.
        truncated: different strings that are cut to the limit of tokens, by what they are: texts, queries, answers,
            positives, negatives; what is never cut is left out.
    """

    train: list[TrainingRow]
    held_out: list[TrainingRow]
    files: list[DataFile]
    digest: str
    bad: list[BadRow]
    skipped: int
    truncated: Mapping[str, int]

    @property
    def notes(self) -> list[str]:
        """Notes for the user about the rows."""
        few = few_rows(len(self.train) + len(self.held_out))
        if not self.truncated:
            return few
        return [*few, f"{self.cut} are longer than what is read of them; the rest of each is left out."]

    @property
    def cut(self) -> str:
        """The number of strings of each kind that are cut, in words."""
        return ", ".join(f"{count} {kind}" for kind, count in self.truncated.items()) or "none"


def prepare(found: TrainingRows, tokenizer: PieceTokenizer, settings: DataSettings) -> FinetuneData:
    """Return the rows that can be learned from, some of their texts kept out.

    A row whose question is too long for an encoder is skipped, as those that could not be read were. The tokenizer is
    the model's, which cuts texts where training does.

    Raises:
        InputError: there are too few rows, all answers are equal, be it only of those to learn from, or there is only
            one text.
    """
    rows, bad = _short_questions(found.rows, tokenizer)
    counts = Counter(row.file for row in rows)
    kept = {name: counts[name] for name in found.mappings}
    check_rows(rows, ", ".join(kept))
    sides = hold_out(rows, share=settings.share(len({row.text for row in rows})), seed=settings.seed)
    check_training_side(sides.train, ", ".join(kept))
    return FinetuneData(
        train=sides.train,
        held_out=sides.held_out,
        files=[DataFile(name, _hash(name), count, found.mappings[name]) for name, count in kept.items()],
        digest=json_hash({"rows": [{**row.to_json(), "file": row.file} for row in rows]}),
        bad=[*found.bad, *bad][:KEPT_BAD_ROWS],
        skipped=found.skipped + len(bad),
        truncated=_truncated(rows, tokenizer),
    )


def _hash(name: str) -> str | None:
    return file_hash(Path(name)) if Path(name).is_file() else None


def _short_questions(rows: Sequence[TrainingRow], tokenizer: PieceTokenizer) -> tuple[list[TrainingRow], list[BadRow]]:
    """Return the rows whose question an encoder can read, without empty space around it, and the others as bad rows."""
    questions = list({row.instruction for row in rows})
    lengths = dict(zip(questions, tokenizer.count(questions), strict=True))
    short, bad = [], []
    for row in rows:
        if lengths[row.instruction] <= MAX_INSTRUCTION_TOKENS:
            short.append(replace(row, instruction=row.instruction.strip()))
            continue
        reason = f"the question has {lengths[row.instruction]} tokens, more than {MAX_INSTRUCTION_TOKENS}"
        bad.append(BadRow(row.file, row.line, None, reason, row.instruction[:200]))
    return short, bad


def _truncated(rows: Sequence[TrainingRow], tokenizer: PieceTokenizer) -> dict[str, int]:
    """Count the different strings of each kind that are longer than what is read of them."""
    strings: dict[str, dict[str, None]] = {
        kind: {} for kind in ("texts", "queries", "answers", "positives", "negatives")
    }
    for row in rows:
        strings["queries" if row.positives else "texts"][row.text] = None
        strings["positives" if row.positives else "answers"] |= dict.fromkeys(row.right)
        strings["negatives"] |= dict.fromkeys(row.negatives)
    limit = tokenizer.max_text_tokens
    counts = {kind: sum(count > limit for count in tokenizer.count([*texts])) for kind, texts in strings.items()}
    return {kind: count for kind, count in counts.items() if count}


@dataclass(frozen=True, slots=True)
class Base:
    """A model ready to be trained.

    Attributes:
        spec: what that stands for: ``METHOD:BACKBONE`` or a checkpoint folder.
        digest: SHA-256 that stands for its weights.
        method: of the encoder that comes out.
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
    model = name or config.method.base
    spec = resolve_name(model)
    folder = checkpoint_folder(spec)
    torch.manual_seed(config.data.seed)
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
    return Base(
        name=model,
        spec=spec,
        digest=json_hash({"spec": spec, "files": digest}),
        learner=learner,
        method=made,
        options=replace(options, steps=config.objective.steps),
        continued=folder is not None,
        start=adapted.values,
    )


def _bare(spec: str, settings: AdapterSettings, *, device: str, dtype: str) -> Adapted:
    method, _, name = spec.partition(":")
    if method == SENTENCE_METHOD:
        raise UsageError(
            f"{spec} is a sentence encoder, which is not trained here.",
            hint="Name a language model as METHOD:BACKBONE, a checkpoint folder, or one of `retriever models list`.",
        )
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
