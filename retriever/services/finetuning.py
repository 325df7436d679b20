"""Fine-tuning on a user's own questions and answers: rows in, a checkpoint out, with scores before and after.

While a run is under way its states lie in OUTPUT.training; OUTPUT appears, whole, when the model is trained, reloaded,
proven active and measured.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from safetensors import SafetensorError

from retriever.core.errors import TrainingError, TrainingInterrupted, UsageError
from retriever.core.paths import new_folder
from retriever.encoders.base import EncoderOptions
from retriever.encoders.catalog import load
from retriever.encoders.sources import write_manifest
from retriever.evaluation.general import general_score
from retriever.services import models
from retriever.services.curves import draw_curves
from retriever.services.finetune_base import Base, is_trained, load_base
from retriever.services.finetune_data import prepare
from retriever.services.finetune_examples import example_searches, examples_json
from retriever.services.finetune_negatives import mine_index
from retriever.services.finetune_report import FinetuneReport, Judgement, named
from retriever.services.finetune_scores import Change, HeldOutTask, held_out_task, judge
from retriever.services.finetune_training import (
    FUSION,
    Announce,
    Assignment,
    OnProgress,
    Stage,
    saved_states,
    stage_of,
    train,
)
from retriever.services.model_card import CONFIG, CURVES, model_card
from retriever.training.adapter_files import ActiveProof, prove_active, save_trained
from retriever.training.config import FinetuneConfig, read_config
from retriever.training.methods import Method
from retriever.training.negatives import MiningOptions
from retriever.training.objectives.dicl import DiclSettings
from retriever.training.objectives.gircse import GircseSettings
from retriever.training.rows import TrainingRow, read_training_rows
from retriever.training.run_record import LOSSES_FILE, versions

REPORT = "finetune.json"
CARD = "README.md"
DRAFT = "checkpoint"
_PROVEN_TEXTS = 8


@dataclass(frozen=True, slots=True)
class FinetuneRequest:
    """What is asked for.

    Attributes:
        files: questions and answers.
        output: the checkpoint folder to make.
        method: how to train; None for the config's, or InstEmb.
        base: what to train on; None for the method's own.
        config: a TOML file of settings that differ from the defaults.
        epochs: passes over the rows; None for the config's.
        seed: of everything that is drawn; None for the config's.
        index: an index to take hard negatives from.
        resume: go on with a run that was stopped.
        promote: make a model that passes the gate the default.
        minutes: stop after so many, to be resumed.
        device: where to run.
        dtype: the model's number format.
        command: the command line, for the record.
    """

    files: Sequence[str]
    output: Path
    method: Method | None = None
    base: str | None = None
    config: Path | None = None
    epochs: int | None = None
    seed: int | None = None
    index: Path | None = None
    resume: bool = False
    promote: bool = True
    minutes: float | None = None
    device: str = "auto"
    dtype: str = "auto"
    command: str = ""

    def __post_init__(self) -> None:
        if self.minutes is not None and not self.minutes > 0:
            raise UsageError(f"minutes is {self.minutes}; it must be above 0.")

    @property
    def folder(self) -> Path:
        """Where the states of the run under way lie."""
        return self.output.with_name(f"{self.output.name}.training")

    @property
    def again(self) -> str:
        """The command that goes on with this run."""
        command = self.command or f"the same command for {self.output}"
        return command if self.resume else f"{command} --resume"


def finetune(
    request: FinetuneRequest, *, on_progress: OnProgress | None = None, announce: Announce | None = None
) -> FinetuneReport:
    """Fine-tune a model, measure it before and after, and make it the default if it got better.

    Args:
        request: what is asked for.
        on_progress: called after every step.
        announce: told what is being done besides.

    Raises:
        UsageError: options or settings make no sense, or the output is there already.
        InputError: the rows cannot be used; file and row are named.
        TrainingError: a loss is no number, or there is no space; states saved before are kept.
        CheckpointError: the saved model is not the trained one.
        TrainingInterrupted: SIGINT came; the hint is the command to go on with.
    """
    _check_output(request)
    say = announce or (lambda text: None)
    try:
        assignment, notes = _assign(request, say)
        task = held_out_task(assignment.data.held_out, seed=assignment.config.data.seed)
        with _writing(request):
            stages = train(
                assignment,
                request.folder,
                resume=request.resume,
                minutes=request.minutes,
                on_progress=on_progress,
                announce=say,
            )
        report = _report(request, assignment, stages, notes)
        if not all(stage.result.finished for stage in stages.values()):
            return report
        draft, proof = _save_draft(request, assignment)
        judgement = _judge(request, assignment, task, proof, say)
        report = replace(report, judgement=judgement)
        with _writing(request), new_folder(request.output) as folder:
            shutil.copytree(draft, folder, dirs_exist_ok=True)
            _describe(folder, report, judgement, stages, request.folder)
    except KeyboardInterrupt:
        raise _interrupted(request) from None
    if judgement.promoted:
        models.promote(request.output)
    return _without_states(request, report)


def _without_states(request: FinetuneRequest, report: FinetuneReport) -> FinetuneReport:
    """Remove the states of a run that has its model; where that fails the model is no worse for it."""
    try:
        shutil.rmtree(request.folder)
    except OSError as error:
        left = f"{request.folder} is needed no more, and cannot be removed: {error.strerror}."
        return replace(report, notes=[*report.notes, left])
    return report


def _check_output(request: FinetuneRequest) -> None:
    """Refuse an output that could not be written, before any work is spent on it."""
    if request.folder.exists() and (request.output / REPORT).is_file():
        raise UsageError(
            f"{request.output} holds the whole model of a run that was stopped after writing it.",
            hint=f"{request.output / REPORT} says whether it passed: `retriever models promote {request.output}` makes "
            f"it the default. {request.folder} can be removed.",
        )
    if request.output.exists():
        raise UsageError(f"{request.output} exists already.", hint="Choose another --output.")
    if not request.resume and saved_states(request.folder):
        raise UsageError(
            f"{request.folder} holds a run that was stopped.",
            hint="Go on with --resume, remove that folder, or choose another --output.",
        )


def _assign(request: FinetuneRequest, say: Announce) -> tuple[Assignment, list[str]]:
    """Return what is to be trained on what, and what the user should know of it."""
    found = read_training_rows(request.files)
    config = _settings(request, found.rows)
    say("loading the model")
    base = load_base(request.base, config, device=request.device, dtype=request.dtype)
    data = prepare(found, base.learner.tokeniser.tokenizer, config.data)
    notes = [*data.notes, *_continued(base)]
    mined = None
    if request.index is not None:
        say(f"taking hard negatives from {request.index}")
        options = MiningOptions(_negatives(config), config.data.margin)
        negatives = mine_index(
            request.index,
            data.train,
            options,
            held_out=data.held_out,
            passages=config.method is Method.DICL,
            device=request.device,
        )
        mined = negatives.rows
        notes.append(
            f"{request.index} gave {negatives.served} of {len(data.train)} rows hard negatives; "
            f"{negatives.skipped} documents were left out that may be right."
        )
    return Assignment(config, base, data, mined), notes


def _settings(request: FinetuneRequest, rows: Sequence[TrainingRow]) -> FinetuneConfig:
    config = read_config(
        request.config, request.method, rows=len(rows), continued=lambda method: is_trained(request.base, method)
    )
    if request.epochs is not None:
        config = replace(config, loop=replace(config.loop, epochs=request.epochs))
    if request.seed is not None:
        config = replace(config, data=replace(config.data, seed=request.seed))
    if request.index is not None:
        _negatives(config)
        _check_minable(config.method, rows)
    return config


def _negatives(config: FinetuneConfig) -> int:
    """Return how many hard negatives a row gets."""
    if isinstance(config.objective, GircseSettings | DiclSettings):
        return config.objective.negatives
    raise UsageError(f"{config.method} learns from no hard negatives.", hint="--index is for gircse and dicl.")


def _check_minable(method: Method, rows: Sequence[TrainingRow]) -> None:
    """Refuse an index whose documents the method could compare with nothing."""
    if method is Method.DICL and not any(row.positives for row in rows):
        raise UsageError(
            "dicl takes hard negatives from an index for rows with positives only: the others learn from answers, and "
            "an index holds texts.",
            hint="Give rows of query and positives, leave --index out, or use --method gircse.",
        )


def _continued(base: Base) -> list[str]:
    if not base.continued:
        return []
    shape = base.adapted.settings
    size = f"rank {shape.rank}" if shape.kind == "lora" else f"{shape.layers} layers"
    return [f"{base.name} is trained further with its own {size} and {shape.look_ahead} look-ahead tokens."]


def _report(
    request: FinetuneRequest, assignment: Assignment, stages: Mapping[str, Stage], notes: Sequence[str]
) -> FinetuneReport:
    results = [stage.result for stage in stages.values()]
    return FinetuneReport(
        output=request.output,
        config=assignment.config,
        data=assignment.data,
        base=named(assignment.base),
        command=request.command,
        step=sum(one.position.step for one in results),
        steps=sum(one.steps for one in results),
        seconds=sum(one.position.seconds for one in results),
        versions=versions(),
        notes=notes,
    )


def _save_draft(request: FinetuneRequest, assignment: Assignment) -> tuple[Path, ActiveProof]:
    """Write the trained model beside its states, and prove that it is what was trained."""
    draft = request.folder / DRAFT
    base, rows = assignment.base, assignment.data.held_out
    with _writing(request):
        if draft.exists():  # of a run that was stopped while it measured
            shutil.rmtree(draft)
        save_trained(base.adapted, draft, method=base.method, options=base.options, card="")
    texts = list(dict.fromkeys(row.text for row in rows))[:_PROVEN_TEXTS]
    return draft, prove_active(draft, base.adapted, texts, start=base.start, instruction=rows[0].instruction)


def _judge(
    request: FinetuneRequest, assignment: Assignment, task: HeldOutTask, proof: ActiveProof, say: Announce
) -> Judgement:
    """Measure base and model on the held-out rows and in general."""
    seed = assignment.config.data.seed
    names = {"before": assignment.base.spec, "after": str(request.folder / DRAFT)}
    searches = example_searches(assignment.data.held_out)
    found, examples = [], []
    for when, name in names.items():
        say(f"measuring the model {when} training")
        encoder = load(name, EncoderOptions(), device=request.device, dtype=request.dtype)
        general = general_score(encoder, seed=seed)
        found.append([task.measure(encoder, seed=seed), general.mean, general.retrieval, general.similarity])
        examples.append([search.find(encoder) for search in searches])
    held_out, mean, *parts = (Change(before, after) for before, after in zip(*found, strict=True))
    verdict = judge(held_out, mean)
    promoted = verdict.passed and request.promote
    return Judgement(held_out, mean, parts, verdict, proof, promoted, examples_json(searches, *examples))


def _describe(
    folder: Path, report: FinetuneReport, judgement: Judgement, stages: Mapping[str, Stage], states: Path
) -> None:
    """Write beside a checkpoint what it was made from and how it went; its manifest covers that too."""
    (folder / CARD).write_text(model_card(report, judgement), encoding="utf-8")
    (folder / CONFIG).write_text(report.config.to_toml(), encoding="utf-8")
    (folder / REPORT).write_text(json.dumps(report.to_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    draw_curves(folder / CURVES, {name: stage.rows for name, stage in stages.items()}, judgement.changes)
    for name in stages:
        shutil.copyfile(states / name / LOSSES_FILE, folder / f"{name}-{LOSSES_FILE}")
    write_manifest(folder)


def _interrupted(request: FinetuneRequest) -> TrainingInterrupted:
    states = saved_states(request.folder)
    if not states:
        return TrainingInterrupted("Interrupted before the first step; nothing was saved.")
    step = int(states[-1].name.rpartition("-")[2])
    stage = f" of the {FUSION}" if stage_of(states[-1]) == FUSION else ""
    told = f"Interrupted; the state after step {step}{stage} is saved."
    return TrainingInterrupted(told, hint=f"Go on: {request.again}")


@contextmanager
def _writing(request: FinetuneRequest) -> Iterator[None]:
    """Turn a file that cannot be written into an error that says how to go on."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TrainingError(
            f"{request.output} cannot be written: {reason}.",
            hint=f"States saved before are kept in {request.folder}. Make room, then go on: {request.again}",
        ) from error
