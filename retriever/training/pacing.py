"""How fast a run goes, and when it saves and stops."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from retriever.training.checkpoints import Position

_SMOOTHING = 0.9
_PACE_STEPS = 50


@dataclass(frozen=True, slots=True)
class Pauses:
    """When a run saves its state, and when it stops to be taken up again. Neither changes what is learned.

    Attributes:
        checkpoint_minutes: between two states.
        stop_minutes: stop after so much time, the state saved; None to run to the end.
    """

    checkpoint_minutes: float = 5.0
    stop_minutes: float | None = None


@dataclass(frozen=True, slots=True)
class StepProgress:
    """One step done.

    Attributes:
        step: steps done.
        steps: steps of the whole run.
        epoch: the step's epoch, from 0.
        loss: a running mean of the loss.
        losses: the step's own losses by name.
        learning_rate: the step's.
        rows_per_second: over the last steps.
        seconds_left: at that pace.
    """

    step: int
    steps: int
    epoch: int
    loss: float
    losses: Mapping[str, float]
    learning_rate: float
    rows_per_second: float
    seconds_left: float


class Clock:
    """Keeps a run's pace, and says when to save and when to stop.

    Args:
        pauses: when that is.
        steps: of the whole run.
    """

    def __init__(self, pauses: Pauses, steps: int) -> None:
        self._pauses = pauses
        self._steps = steps
        self._began = self._saved = time.monotonic()
        self._recent: list[tuple[int, float]] = []
        self._mean: float | None = None

    def tick(
        self, position: Position, rows: int, seconds: float, losses: Mapping[str, float], rate: float
    ) -> StepProgress:
        """Count one step of so many rows and seconds."""
        self._recent = [*self._recent[1 - _PACE_STEPS :], (rows, seconds)]
        spent = sum(one for _, one in self._recent)
        loss = losses["loss"]
        self._mean = loss if self._mean is None else _SMOOTHING * self._mean + (1 - _SMOOTHING) * loss
        return StepProgress(
            step=position.step,
            steps=self._steps,
            epoch=position.epoch,
            loss=self._mean,
            losses=losses,
            learning_rate=rate,
            rows_per_second=sum(one for one, _ in self._recent) / max(spent, 1e-9),
            seconds_left=spent / len(self._recent) * (self._steps - position.step),
        )

    @property
    def saves(self) -> bool:
        """Whether it is time to save; asked, it starts the wait for the next time."""
        due = time.monotonic() - self._saved >= 60 * self._pauses.checkpoint_minutes
        if due:
            self._saved = time.monotonic()
        return due

    @property
    def stops(self) -> bool:
        """Whether it is time to stop."""
        limit = self._pauses.stop_minutes
        return limit is not None and time.monotonic() - self._began >= 60 * limit
