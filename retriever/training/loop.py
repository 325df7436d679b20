"""The training loop: batches in a seeded order, AdamW, warmup, states saved by the clock, a record of every step.

The loop does not know what a loss is: it hands over row numbers and finds gradients in the parameters.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Literal, TypeAlias

import torch
from torch import nn

from retriever.core.errors import TrainingError, UsageError
from retriever.core.types import JSON
from retriever.training.checkpoints import Position, RandomState, RunRecord, TrainingCheckpoints
from retriever.training.settings import AtLeastOne, Positive, Settings, Share, Weight

_SMOOTHING = 0.9
_PACE_STEPS = 50
CHECKPOINT_MINUTES = 5.0


@dataclass(frozen=True, slots=True)
class StepProgress:
    """One step done.

    Attributes:
        epoch: the step's epoch, from 0.
        loss: a running mean of the loss.
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


class Pace:
    """Keeps a run's pace: the mean of its loss, how many rows it reads in a second, and how long it will take."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._recent: list[tuple[int, float]] = []
        self._mean: float | None = None

    def tick(
        self, position: Position, rows: int, seconds: float, losses: Mapping[str, float], rate: float
    ) -> StepProgress:
        """Count one step of so many rows and seconds."""
        self._recent = [*self._recent[1 - _PACE_STEPS :], (rows, seconds)]
        spent = sum(took for _, took in self._recent)
        loss = losses["loss"]
        self._mean = loss if self._mean is None else _SMOOTHING * self._mean + (1 - _SMOOTHING) * loss
        return StepProgress(
            step=position.step,
            steps=self._steps,
            epoch=position.epoch,
            loss=self._mean,
            losses=losses,
            learning_rate=rate,
            rows_per_second=sum(count for count, _ in self._recent) / max(spent, 1e-9),
            seconds_left=spent / len(self._recent) * (self._steps - position.step),
        )


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """Within the block a first SIGINT joins the list, a second is raised. Outside the main thread nothing changes."""
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, note) if main else None
    try:
        yield noted
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


_NAMED_ROWS = 8  # of a batch, in a message

Backward: TypeAlias = Callable[[Sequence[int]], Mapping[str, float]]
"""Row numbers of a batch to the values of its losses, ``loss`` the total; gradients are added to the parameters."""

Batches: TypeAlias = Callable[[int], Sequence[Sequence[int]]]
"""An epoch's number, from 0, to its batches of row numbers; the same for the same number, whenever it is asked."""


@dataclass(frozen=True, slots=True)
class LoopSettings(Settings):
    """Settings of how a run optimises.

    Attributes:
        learning_rate: the highest.
        epochs: passes over the data.
        max_steps: stop after that many steps; None for whole epochs.
        warmup: share of the steps in which the rate rises from 0.
        decay: what the rate does afterwards: fall to 0 at the last step, or stay.
        max_grad_norm: gradients are scaled down to this norm.
        weight_decay: AdamW's.
    """

    learning_rate: Positive = 1e-4
    epochs: AtLeastOne = 1
    max_steps: AtLeastOne | None = None
    warmup: Share = 0.1
    decay: Literal["linear", "none"] = "linear"
    max_grad_norm: Positive = 1.0
    weight_decay: Weight = 0.0

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, from 0, in a run of that many."""
        warm = math.ceil(self.warmup * steps)
        if step < warm:
            return self.learning_rate * (step + 1) / warm
        if self.decay == "none":
            return self.learning_rate
        return self.learning_rate * (steps - step) / max(1, steps - warm)


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Where a run stands at its end, the steps of the whole run, and its record of every step done."""

    position: Position
    steps: int
    rows: Sequence[Mapping[str, float]]

    @property
    def finished(self) -> bool:
        """Whether every step was done; otherwise `Trainer.run` with ``resume`` goes on."""
        return self.position.step >= self.steps


class Trainer:
    """One run over one set of parameters, by name, whose states and record go into a folder.

    ``backward`` computes a batch's losses and adds their gradients to the parameters. ``identity`` says what the run is
    besides its settings: data hash, seed, method, teachers, device; it is stored with every state, and another one's
    states are refused. ``row_name`` says what a row number stands for, for a message.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        backward: Backward,
        batches: Batches,
        settings: LoopSettings,
        folder: Path,
        identity: Mapping[str, JSON],
        *,
        row_name: Callable[[int], str] = str,
    ) -> None:
        if not parameters:
            raise UsageError("There is nothing to train.")
        self.parameters = dict(parameters)
        self.backward = backward
        self.batches = batches
        self.settings = settings
        self._row_name = row_name
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self.record = RunRecord(folder)
        about: dict[str, JSON] = {**identity, "settings": asdict(settings)}
        self.checkpoints = TrainingCheckpoints(folder / "states", about)
        lengths = [len(batches(epoch)) for epoch in range(settings.epochs)]
        self.steps = sum(lengths) if settings.max_steps is None else min(sum(lengths), settings.max_steps)

    def run(
        self,
        *,
        resume: bool = False,
        minutes: float | None = None,
        on_progress: Callable[[StepProgress], None] | None = None,
    ) -> TrainingResult:
        """Train to the end, or for so many minutes; the state is saved then, and every five minutes.

        Resumed from the newest state, the run ends with the very weights of one that was never interrupted.
        ``on_progress`` is called after every step; what it does with torch's random numbers is undone.

        Raises:
            UsageError: the folder holds a run already and ``resume`` is off, or it is another run's.
            TrainingError: a loss or gradient is no number, or a state cannot be written; earlier states are kept.
            KeyboardInterrupt: SIGINT came; the state after the step under way was saved.
        """
        position = self._start(resume=resume)
        pace = Pace(self.steps)
        began = saved = time.monotonic()
        with interrupts() as interrupted:
            for epoch, number, batch in self._batches_from(position):
                started = time.monotonic()
                losses, rate = self._step(position.step, batch)
                spent = time.monotonic() - started
                position = Position(position.step + 1, epoch, number + 1, position.seconds + spent)
                progress = pace.tick(position, len(batch), spent, losses, rate)
                self.record.add(position, losses, rate)
                if on_progress is not None:
                    random = RandomState.now()
                    on_progress(progress)
                    random.restore()
                now = time.monotonic()
                if interrupted or (minutes is not None and now - began >= 60 * minutes):
                    break
                if now - saved >= 60 * CHECKPOINT_MINUTES:
                    self.checkpoints.save(self.parameters, self.optimizer, position)
                    saved = now
            self.checkpoints.save(self.parameters, self.optimizer, position)
            if interrupted:
                raise KeyboardInterrupt
        return TrainingResult(position, self.steps, self.record.rows())

    def _start(self, *, resume: bool) -> Position:
        newest = self.checkpoints.newest()
        if newest is None:
            self.record.begin(self.checkpoints.identity, self.steps)
            return Position()
        if not resume:
            raise UsageError(
                f"{self.record.folder} holds a run already, at {newest.name}.",
                hint="Go on with --resume, or choose another output folder.",
            )
        position = self.checkpoints.load(newest, self.parameters, self.optimizer)
        self.record.rewind(position.step)
        return position

    def _batches_from(self, position: Position) -> Iterator[tuple[int, int, Sequence[int]]]:
        """Return epoch, number in the epoch and row numbers of every batch that is left."""
        left = (
            (epoch, number, batch)
            for epoch in range(position.epoch, self.settings.epochs)
            for number, batch in enumerate(self.batches(epoch))
            if epoch > position.epoch or number >= position.batch
        )
        return islice(left, max(0, self.steps - position.step))

    def _step(self, step: int, batch: Sequence[int]) -> tuple[dict[str, float], float]:
        """Update the parameters once; return the losses and the learning rate."""
        self.optimizer.zero_grad(set_to_none=True)
        losses = {name: float(value) for name, value in self.backward(batch).items()}
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.settings.max_grad_norm))
        if not (math.isfinite(losses["loss"]) and math.isfinite(norm)):
            raise TrainingError(
                f"Step {step + 1}: the loss is {losses['loss']} and the gradient's norm {norm}, over rows "
                f"{', '.join(map(self._row_name, batch[:_NAMED_ROWS]))}{' ...' if len(batch) > _NAMED_ROWS else ''}.",
                hint="Lower the learning rate; states saved before are kept.",
            )
        rate = self.settings.rate(step, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return {**losses, "gradient_norm": norm}, rate
