"""The stages of a fine-tuning, each a run of the loop in a folder of its own, resumed where it stopped."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import torch

from retriever import load_encoder
from retriever.core.fingerprint import json_hash
from retriever.core.protocols import Encoder
from retriever.core.types import JSON
from retriever.services.finetune_base import Base
from retriever.services.finetune_data import FinetuneData
from retriever.training.config import FinetuneConfig
from retriever.training.loop import Backward, LoopSettings, Trainer, TrainingResult
from retriever.training.merging import merged
from retriever.training.objectives.base import Objective
from retriever.training.objectives.catalog import make_objective
from retriever.training.objectives.fusion import FusionObjective, FusionSettings, fused_targets
from retriever.training.objectives.gircse import GircseSettings
from retriever.training.objectives.similarity import BASE, SimilarityObjective
from retriever.training.pacing import Pauses, Progress
from retriever.training.pairs import HardNegatives
from retriever.training.rows import TrainingRow

FUSION = "fusion"

OnProgress: TypeAlias = Callable[[str, Progress], None]
"""Called after every step with the stage's name and how it goes."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is to be trained on what.

    Attributes:
        config: all settings.
        base: the model.
        data: the rows.
        mined: hard negatives of every training row; None for none.
    """

    config: FinetuneConfig
    base: Base
    data: FinetuneData
    mined: Sequence[HardNegatives] | None = None

    def identity(self, stage: str) -> dict[str, JSON]:
        """Return what a run must repeat to go on, the loop's own settings aside."""
        config = {name: value for name, value in self.config.to_json().items() if name != "loop"}
        found = [[*one.texts, "", *one.answers] for one in self.mined or ()]
        return {
            "stage": stage,
            "method": str(self.config.method),
            "seed": self.config.data.seed,
            "data": self.data.digest,
            "base": self.base.digest,
            "dtype": str(self.base.adapted.backbone.dtype),
            "config": config,
            "negatives": json_hash({"rows": found}) if found else None,
        }


@dataclass(frozen=True, slots=True)
class Stage:
    """How a stage went: where it stands, and the record of every step."""

    result: TrainingResult
    rows: Sequence[Mapping[str, float]]


def train(
    assignment: Assignment,
    folder: Path,
    *,
    resume: bool = False,
    minutes: float | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, Stage]:
    """Train every stage to its end, or until the time is up; return the stages begun by name.

    Args:
        assignment: what to train.
        folder: holds a folder a stage, with its states and its record.
        resume: go on from the newest states.
        minutes: stop after so many; None to run to the end.
        on_progress: called after every step.

    Raises:
        UsageError: the folder holds another run's states.
        TrainingError: a loss is no number or a state cannot be written; earlier states are kept.
        KeyboardInterrupt: SIGINT came; the state was saved.
    """
    began = time.monotonic()
    config = assignment.config
    stages: dict[str, Stage] = {}
    for name, loop in _stages(config).items():
        left = None if minutes is None else max(0.0, minutes - (time.monotonic() - began) / 60)
        objective = _objective(assignment, name)
        identity = assignment.identity(name)
        trainer = Trainer(
            assignment.base.adapted.parameters,
            _through_merged_weights(assignment, objective),
            objective.batches,
            loop,
            folder / name,
            identity,
        )
        torch.manual_seed(config.data.seed)
        report = None if on_progress is None else _named(on_progress, name)
        result = trainer.run(resume=resume, pauses=Pauses(stop_minutes=left), on_progress=report)
        stages[name] = Stage(result, trainer.record.rows())
        if not result.finished:
            break
    return stages


def saved_states(folder: Path) -> list[Path]:
    """Return the training states in a run's folder."""
    return sorted(folder.glob("*/states/step-*"))


def _through_merged_weights(assignment: Assignment, objective: Objective) -> Backward:
    model = assignment.base.adapted.backbone.model

    def backward(batch: Sequence[int]) -> Mapping[str, float]:
        with merged(model):
            return objective.backward(batch)

    return backward


def _stages(config: FinetuneConfig) -> dict[str, LoopSettings]:
    found = {str(config.method): config.loop}
    if config.fusion is not None:
        found[FUSION] = replace(config.loop, epochs=1)
    return found


def _named(report: OnProgress, stage: str) -> Callable[[Progress], None]:
    return lambda progress: report(stage, progress)


def _objective(assignment: Assignment, stage: str) -> Objective:
    config, learner, rows = assignment.config, assignment.base.learner, assignment.data.train
    steps = assignment.base.options.steps
    if stage == FUSION and config.fusion is not None:
        return _fusion(assignment, config.fusion, steps)
    device = str(learner.adapted.backbone.device)
    named = config.objective.teacher if isinstance(config.objective, GircseSettings) else ""
    asked = load_encoder(named, device=device) if named else None
    objective = make_objective(learner, rows, config.objective, config.batch, mined=assignment.mined, teacher=asked)
    if config.similarity is None or not config.similarity.weight:
        return objective
    name = assignment.base.spec if config.similarity.teacher == BASE else config.similarity.teacher
    teacher = load_encoder(name, device=device)
    held = config.batch.held_tokens
    return SimilarityObjective(objective, learner, rows, config.similarity, teacher, held_tokens=held, steps=steps)


def _fusion(assignment: Assignment, settings: FusionSettings, steps: int | None) -> FusionObjective:
    """Return the second stage: every text under its questions and, as plain search reads it, under none."""
    learner = assignment.base.learner
    prompts = _prompts(assignment.data.train)
    texts, instructions = [text for text, _ in prompts], [instruction for _, instruction in prompts]
    before = _as_loaded(assignment.base) if assignment.base.continued else None
    targets = fused_targets(learner, texts, instructions, settings, steps=steps, base=before)
    return FusionObjective(learner, targets, assignment.config.batch, steps=steps)


def _as_loaded(base: Base) -> Encoder:
    """Return the encoder that a checkpoint was before it was trained further."""
    backbone = base.adapted.backbone
    return load_encoder(base.spec, device=str(backbone.device), dtype=str(backbone.dtype).removeprefix("torch."))


def _prompts(rows: Sequence[TrainingRow]) -> list[tuple[str, str]]:
    asked = {(row.text, row.instruction): None for row in rows}
    return list(asked | {(row.text, ""): None for row in rows})
