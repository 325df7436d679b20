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

from retriever.core.environment import versions
from retriever.core.errors import TrainingError, TrainingInterrupted, UsageError
from retriever.core.paths import new_folder
from retriever.core.protocols import Encoder
from retriever.core.text import counted
from retriever.encoders.catalog import load_encoder, write_promotion
from retriever.encoders.sources import write_manifest
from retriever.evaluation.general import general_score
from retriever.evaluation.scores import Score
from retriever.training.checkpoints import LOSSES_FILE
from retriever.training.config import FinetuneConfig, read_config
from retriever.training.from_index import mine_index
from retriever.training.loop import TrainingResult
from retriever.training.methods import METHODS, TrainingMethod
from retriever.training.negatives import MiningOptions
from retriever.training.rows import TrainingRow, read_training_rows
from retriever.training.run.bases import Base, is_trained, load_base, usual_method
from retriever.training.run.memory import fit, give_back
from retriever.training.run.report import (
    CONFIG_FILE,
    CURVES_FILE,
    FinetuneReport,
    Judgement,
    draw_curves,
    model_card,
)
from retriever.training.run.scores import (
    Candidate,
    Change,
    HeldOutTask,
    example_searches,
    examples_json,
    held_out_task,
    judge,
)
from retriever.training.run.stages import FUSION, Announce, Assignment, OnProgress, saved_states, stage_of, train
from retriever.training.run.start import prepare
from retriever.training.settings import Positive, Settings

REPORT = "finetune.json"
CARD = "README.md"
DRAFT = "checkpoint"
_PROVEN_TEXTS = 8


@dataclass(frozen=True, slots=True)
class FinetuneRequest(Settings):
    """A request to fine-tune a model.

    Attributes:
        method: the name of how to train; None for the config's, or what suits the base.
        base: what to train on; None for the method's own.
        config: a TOML file of settings that differ from the defaults.
        epochs: passes over the rows; None for the config's.
        seed: of everything that is drawn; None for the config's.
        minutes: stop after so many, to be resumed.
        encoding: what the files are in; None for UTF-8.
        command: the command line, for the record.
    """

    files: Sequence[str]
    output: Path
    method: str | None = None
    base: str | None = None
    config: Path | None = None
    epochs: int | None = None
    seed: int | None = None
    index: Path | None = None
    resume: bool = False
    promote: bool = True
    minutes: Positive | None = None
    encoding: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    command: str = ""

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

    ``on_progress`` is called after every step, ``announce`` is told what is being done besides.

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
                say,
                resume=request.resume,
                minutes=request.minutes,
                on_progress=on_progress,
            )
        report = _report(request, assignment, stages, notes)
        if not all(stage.finished for stage in stages.values()):
            return report
        give_back()  # of the activations, before other models are read beside
        draft = _save_draft(request, assignment)
        judgement = _judge(request, assignment, task, draft, say)
        report = replace(report, judgement=judgement)
        with _writing(request), new_folder(request.output) as folder:
            for path in draft.iterdir():
                path.rename(folder / path.name)
            _describe(folder, report, judgement, stages, request.folder)
    except KeyboardInterrupt:
        raise _interrupted(request) from None
    if judgement.promoted:
        write_promotion(request.output.expanduser().resolve())  # it was loaded, proven and measured
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
    """Build the assignment of a model and its rows, with notes for the user."""
    training_rows = read_training_rows(request.files, encoding=request.encoding)
    config = _settings(request, training_rows.rows)
    say("loading the model")
    base = load_base(request.base, config, device=request.device, dtype=request.dtype)
    data = prepare(training_rows, base.tokens, config.data)
    notes = [*data.notes, *_continued(base)]
    mined = None
    if request.index is not None:
        say(f"taking hard negatives from {request.index}")
        options = MiningOptions(config.objective.negatives, config.data.margin)
        passages = config.method.mined == "positives"
        negatives = mine_index(
            request.index, data.train, options, held_out=data.held_out, passages=passages, device=request.device
        )
        mined = negatives.rows
        notes.append(
            f"{request.index} gave {negatives.served} of {len(data.train)} rows hard negatives, and left out "
            f"{counted(negatives.skipped, 'document')} that may be right."
        )
    fitted = fit(base, config, data.train)
    if fitted.sentence:
        say(fitted.sentence)
    return Assignment(fitted.config, base, data, mined), notes


def _settings(request: FinetuneRequest, rows: Sequence[TrainingRow]) -> FinetuneConfig:
    config = read_config(
        request.config,
        request.method,
        rows=len(rows),
        usual=usual_method(request.base),
        continued=lambda method: is_trained(request.base, method),
    )
    if request.epochs is not None:
        config = replace(config, loop=replace(config.loop, epochs=request.epochs))
    if request.seed is not None:
        config = replace(config, data=replace(config.data, seed=request.seed))
    if request.index is not None:
        check_minable(config.method, rows)
    return config


def check_minable(method: TrainingMethod, rows: Sequence[TrainingRow]) -> None:
    """Raise a UsageError where the method could compare an index's documents with nothing."""
    if method.mined == "none":
        able = " and ".join(other.name for other in METHODS.values() if other.mined != "none")
        raise UsageError(f"{method.name} learns from no hard negatives.", hint=f"--index is for {able}.")
    if method.mined == "positives" and not any(row.positives for row in rows):
        others = " or ".join(f"--method {other.name}" for other in METHODS.values() if other.mined == "all")
        raise UsageError(
            f"{method.name} takes hard negatives from an index for rows with positives only: the others learn from "
            "answers, and an index holds texts.",
            hint=f"Give rows of query and positives, leave --index out, or use {others}.",
        )


def _continued(base: Base) -> list[str]:
    if not base.continued:
        return []
    return [f"{base.name} is trained further with its own {base.shape}."]


def _report(
    request: FinetuneRequest, assignment: Assignment, stages: Mapping[str, TrainingResult], notes: Sequence[str]
) -> FinetuneReport:
    results, base = stages.values(), assignment.base
    return FinetuneReport(
        output=request.output,
        config=assignment.config,
        data=assignment.data,
        base={"name": base.name, "spec": base.spec, "backbone": base.backbone},
        command=request.command,
        step=sum(result.position.step for result in results),
        steps=sum(result.steps for result in results),
        seconds=sum(result.position.seconds for result in results),
        versions=versions(),
        notes=notes,
    )


def _save_draft(request: FinetuneRequest, assignment: Assignment) -> Path:
    """Write the trained model beside its states."""
    draft = request.folder / DRAFT
    with _writing(request):
        if draft.exists():  # of a run that was stopped while it measured
            shutil.rmtree(draft)
        assignment.base.save(draft, assignment.data.train)
    return draft


def _judge(
    request: FinetuneRequest, assignment: Assignment, task: HeldOutTask, draft: Path, say: Announce
) -> Judgement:
    """Prove that the draft is what was trained; measure it and the base on the held-out rows and in general."""
    base, rows, seed = assignment.base, assignment.data.held_out, assignment.config.data.seed
    searches = example_searches(rows)

    def measured(encoder: Encoder, when: str) -> tuple[list[Score], list[list[Candidate]]]:
        say(f"measuring the model {when} training")
        general = general_score(encoder, seed=seed)
        scores = [task.measure(encoder, seed=seed), general.mean, general.retrieval, general.similarity]
        return scores, [search.find(encoder) for search in searches]

    loading = {"device": request.device, "dtype": request.dtype}
    saved = load_encoder(str(draft), **loading)
    texts = list(dict.fromkeys(row.text for row in rows))[:_PROVEN_TEXTS]
    proof = base.prove(saved, texts, rows[0].instruction)
    after, found_after = measured(saved, "after")
    del saved  # two models at a time are enough
    before, found_before = measured(load_encoder(base.spec, **loading), "before")
    held_out, mean, *parts = map(Change, before, after)
    verdict = judge(held_out, mean)
    promoted = verdict.passed and request.promote
    examples = examples_json(searches, found_before, found_after)
    return Judgement(held_out, mean, parts, verdict, proof, promoted, examples)


def _describe(
    folder: Path, report: FinetuneReport, judgement: Judgement, stages: Mapping[str, TrainingResult], states: Path
) -> None:
    """Write beside a checkpoint what it was made from and how it went; its manifest covers that too."""
    (folder / CARD).write_text(model_card(report, judgement), encoding="utf-8")
    (folder / CONFIG_FILE).write_text(report.config.to_toml(), encoding="utf-8")
    (folder / REPORT).write_text(json.dumps(report.to_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    draw_curves(folder / CURVES_FILE, {name: stage.rows for name, stage in stages.items()}, judgement.changes)
    for name in stages:
        shutil.copyfile(states / name / LOSSES_FILE, folder / f"{name}-{LOSSES_FILE}")
    write_manifest(folder)


def _interrupted(request: FinetuneRequest) -> TrainingInterrupted:
    states = saved_states(request.folder)
    if not states:
        return TrainingInterrupted("Interrupted before the first step; nothing was saved.")
    step = int(states[-1].name.rpartition("-")[2])
    stage = f" of the {FUSION}" if stage_of(states[-1]) == FUSION else ""
    message = f"Interrupted; the state after step {step}{stage} is saved."
    return TrainingInterrupted(message, hint=f"Go on: {request.again}")


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
