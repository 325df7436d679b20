"""The stages of a fine-tuning, each a run of the loop in a folder of its own, resumed where it stopped."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import torch

from retriever.core.fingerprint import json_hash
from retriever.core.protocols import Encoder
from retriever.core.types import JSON
from retriever.encoders.catalog import load_encoder
from retriever.training.config import FinetuneConfig
from retriever.training.loop import Backward, LoopSettings, StepProgress, Trainer, TrainingResult
from retriever.training.objectives.base import Objective
from retriever.training.objectives.distillation import (
    BASE_TEACHER,
    FusionObjective,
    FusionSettings,
    SimilarityObjective,
    fused_targets,
)
from retriever.training.pairs import HardNegatives
from retriever.training.rows import TrainingRow
from retriever.training.run.bases import Base, PromptBase
from retriever.training.run.start import FinetuneData

FUSION, OBJECTIVE, SIMILARITY = "fusion", "objective", "similarity"

OnProgress: TypeAlias = Callable[[str, StepProgress], None]
"""Called after every step with the stage's name and how it goes."""

Announce: TypeAlias = Callable[[str], None]
"""Told what is being done, in a few words."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A model to train, the rows and settings to train it on, and hard negatives of every training row or None."""

    config: FinetuneConfig
    base: Base
    data: FinetuneData
    mined: Sequence[HardNegatives] | None = None

    def identity(self, stage: str, teachers: Mapping[str, Encoder]) -> dict[str, JSON]:
        """Describe all that a run must repeat to go on, the loop's own settings aside: the machine's part of it too."""
        config = {name: value for name, value in self.config.to_json().items() if name != "loop"}
        config["batch"].pop("held_tokens")  # another number gives the same gradients, to rounding
        negatives = [list(texts) for texts in self.mined or ()]
        device, dtype = self.base.place
        return {
            "stage": stage,
            "method": self.config.method.name,
            "seed": self.config.data.seed,
            "data": self.data.digest,
            "base": self.base.digest,
            "dtype": str(dtype),
            "device": device.type,
            "torch": torch.__version__,
            "teachers": {section: teacher.fingerprint for section, teacher in teachers.items()},
            "config": config,
            "negatives": json_hash({"rows": negatives}) if negatives else None,
        }


def train(
    assignment: Assignment,
    folder: Path,
    announce: Announce,
    *,
    resume: bool,
    minutes: float | None,
    on_progress: OnProgress | None,
) -> dict[str, TrainingResult]:
    """Train every stage to its end, or until so many minutes are over; return the stages begun by name.

    The folder holds one a stage, with its states and its record; a run that is resumed goes on from the newest states.
    ``on_progress`` is called after every step, ``announce`` is told what is being read before the first one.

    Raises:
        UsageError: the folder holds another run's states.
        TrainingError: a loss is no number or a state cannot be written; earlier states are kept.
        KeyboardInterrupt: SIGINT came; the state was saved.
    """
    began = time.monotonic()
    config = assignment.config
    stages: dict[str, TrainingResult] = {}
    for name, loop in _stages(config).items():
        left = None if minutes is None else max(0.0, minutes - (time.monotonic() - began) / 60)
        teachers = _teachers(assignment, name)
        if name == FUSION:
            announce("reading every text for the fusion, before its first step")
        elif SIMILARITY in teachers:
            announce("reading texts whose similarities are kept, before the first step")
        objective = _objective(assignment, name, teachers)
        trainer = Trainer(
            assignment.base.learner.adapted.parameters,
            _backward(assignment.base, objective),
            objective.batches,
            loop,
            folder / name,
            assignment.identity(name, teachers),
            row_name=_row_name(assignment.data.train, name),
        )
        del teachers  # most have read what they were wanted for
        torch.manual_seed(config.data.seed)
        report = None if on_progress is None else partial(on_progress, name)
        stages[name] = trainer.run(resume=resume, minutes=left, on_progress=report)
        if not stages[name].finished:
            break
    return stages


def _backward(base: Base, objective: Objective) -> Backward:
    def backward(batch: Sequence[int]) -> Mapping[str, float]:
        with base.quick():
            return objective.backward(batch)

    return backward


def saved_states(folder: Path) -> list[Path]:
    """Return the training states in a run's folder, the newest last: those of the fusion come after its method's."""
    return sorted(folder.glob("*/states/step-*"), key=lambda state: (stage_of(state) == FUSION, state.name))


def stage_of(state: Path) -> str:
    """Return the name of the stage that a training state is of."""
    return state.parents[1].name


def _stages(config: FinetuneConfig) -> dict[str, LoopSettings]:
    stages = {config.method.name: config.loop}
    if config.fusion is not None:
        stages[FUSION] = replace(config.loop, epochs=1)
    return stages


def _teachers(assignment: Assignment, stage: str) -> dict[str, Encoder]:
    """Return the encoders that a stage learns from beside the rows, by the section of the settings that asks for them.

    For the fusion that is the checkpoint as it was before it was trained further; a bare model needs none.
    """
    config, base = assignment.config, assignment.base
    place, number_format = base.place
    device = str(place)
    if stage == FUSION:
        dtype = str(number_format).removeprefix("torch.")
        return {FUSION: load_encoder(base.spec, device=device, dtype=dtype)} if base.continued else {}
    names = {}
    if config.objective.taught_by:
        names[OBJECTIVE] = config.objective.taught_by
    if config.similarity is not None and config.similarity.weight:
        names[SIMILARITY] = base.spec if config.similarity.teacher == BASE_TEACHER else config.similarity.teacher
    return {section: load_encoder(name, device=device) for section, name in names.items()}


def _objective(assignment: Assignment, stage: str, teachers: Mapping[str, Encoder]) -> Objective:
    config, base, rows = assignment.config, assignment.base, assignment.data.train
    if stage == FUSION and config.fusion is not None and isinstance(base, PromptBase):
        return _fusion(assignment, base, config.fusion, teachers.get(FUSION))
    objective = config.method.make_objective(
        base.learner, rows, config.objective, config.batch, mined=assignment.mined, teacher=teachers.get(OBJECTIVE)
    )
    if config.similarity is None or SIMILARITY not in teachers or not isinstance(base, PromptBase):
        return objective
    teacher, held, steps = teachers[SIMILARITY], config.batch.held_tokens, base.options.steps
    return SimilarityObjective(objective, base.learner, rows, config.similarity, teacher, held_tokens=held, steps=steps)


def _fusion(
    assignment: Assignment, base: PromptBase, settings: FusionSettings, before: Encoder | None
) -> FusionObjective:
    """Return the second stage: every text under its questions and, as plain search reads it, under none."""
    learner, steps = base.learner, base.options.steps
    prompts = list(_prompts(assignment.data.train))
    texts, instructions = [text for text, _ in prompts], [instruction for _, instruction in prompts]
    targets = fused_targets(learner, texts, instructions, settings, steps=steps, base=before)
    return FusionObjective(learner, texts, instructions, targets, assignment.config.batch, steps=steps)


def _prompts(rows: Sequence[TrainingRow]) -> dict[tuple[str, str], TrainingRow]:
    """Return every text with every question it is asked, and with none, each with the first row that it is of."""
    prompts: dict[tuple[str, str], TrainingRow] = {}
    for row in rows:
        prompts.setdefault((row.text, row.instruction), row)
    for row in rows:
        prompts.setdefault((row.text, ""), row)
    return prompts


def _row_name(rows: Sequence[TrainingRow], stage: str) -> Callable[[int], str]:
    """Build a function that names the file and the line behind a stage's row number."""
    numbered = list(_prompts(rows).values()) if stage == FUSION else rows
    return lambda number: f"{numbered[number].file}:{numbered[number].line}"
