"""Keep a run's pace, and say when it saves and stops: by the clock, or because somebody pressed Ctrl-C."""

import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

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
    """Keeps a run's pace, and says when to save and when to stop."""

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


class Interrupts:
    """Within the block a first SIGINT is noted, a second raised at once. Outside the main thread nothing changes."""

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
