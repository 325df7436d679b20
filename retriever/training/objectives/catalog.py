"""From a method's settings to its objective."""

from collections.abc import Sequence
from typing import TypeAlias

from retriever.core.errors import UsageError
from retriever.core.protocols import Encoder
from retriever.training.objectives.base import Learner, Objective
from retriever.training.objectives.batching import BatchSettings
from retriever.training.objectives.dicl import DiclObjective, DiclSettings
from retriever.training.objectives.gircse import GircseObjective, GircseSettings
from retriever.training.objectives.inbedder import InBedderObjective, InBedderSettings
from retriever.training.objectives.instemb import InstEmbObjective, InstEmbSettings
from retriever.training.pairs import HardNegatives
from retriever.training.rows import TrainingRow

ObjectiveSettings: TypeAlias = InstEmbSettings | GircseSettings | InBedderSettings | DiclSettings


def make_objective(
    learner: Learner,
    rows: Sequence[TrainingRow],
    settings: ObjectiveSettings,
    batch: BatchSettings,
    *,
    mined: Sequence[HardNegatives] | None = None,
    teacher: Encoder | None = None,
) -> Objective:
    """Return the objective that the settings belong to.

    Args:
        learner: the model.
        rows: what it learns from.
        settings: the method's.
        batch: how rows become batches.
        mined: hard negatives of every row, for GIRCSE and DICL.
        teacher: the encoder that GIRCSE's settings name.

    Raises:
        UsageError: the method has no use for hard negatives, or for this model.
    """
    match settings:
        case GircseSettings():
            return GircseObjective(learner, rows, settings, batch, mined=mined, teacher=teacher)
        case DiclSettings():
            return DiclObjective(learner, rows, settings, batch, mined=mined)
    if mined is not None:
        raise UsageError("InstEmb and InBedder compare with no hard negatives.", hint="Leave mining out.")
    if isinstance(settings, InBedderSettings):
        return InBedderObjective(learner, rows, settings, batch)
    return InstEmbObjective(learner, rows, settings, batch)
