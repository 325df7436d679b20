"""Trainings, each in a folder of its own: its rows, the process that trains, and the model. Any session finds them.

A training's folder holds ``rows.jsonl``, ``base.json`` (the model it starts from), ``message.json`` (the last message
of the process), ``stop`` (a request to end), ``model.training`` (states and record) and, once there is one, ``model``.
The process that trains holds the file ``.lock`` above until it ends, in whatever way: one trains at a time. The process
that starts it holds ``.starting.lock`` until then, and ``.turn.json`` names the training whose turn it is.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from retriever.core.errors import InputError, RetrieverError, UsageError
from retriever.core.paths import plain_name, write_whole
from retriever.core.types import JSON
from retriever.training.checkpoints import RUN_FILE, RunRecord

MODELS_FOLDER = ".models"
COMMAND = (sys.executable, "-P", "-m", "retriever_app.training.process")  # trains in the folder that follows

Status = Literal["draft", "running", "stopping", "paused", "failed", "finished"]
Row = Mapping[str, JSON]

_ROWS, _BASE, _MESSAGE, _STOP, _LOG = "rows.jsonl", "base.json", "message.json", "stop", "log.txt"
_REPORT = "finetune.json"
_LOCK, _STARTING, _TURN = ".lock", ".starting.lock", ".turn.json"
_PATIENCE = 1.0  # seconds; whoever only looks whether a lock is held holds it for a moment
_MOMENT = 0.04  # seconds
_UNTIL_IT_RUNS = 60.0  # seconds that a new process has to come up, on a busy machine


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the process that trains: what it does besides steps, how it ended, if not well, and why."""

    doing: str = ""
    outcome: Literal["", "stopped", "failed"] = ""
    message: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Training:
    """A training's folder."""

    folder: Path

    @property
    def name(self) -> str:
        """The name that the user gave it."""
        return self.folder.name

    @property
    def rows_file(self) -> Path:
        """The file of its rows, one a line."""
        return self.folder / _ROWS

    @property
    def model(self) -> Path:
        """The checkpoint's folder; there, whole, when the training is finished."""
        return self.folder / "model"

    @property
    def log(self) -> Path:
        """The file with all that the process wrote to its terminal."""
        return self.folder / _LOG

    @property
    def base(self) -> str:
        """The resolved name of what is trained on; empty before the first start."""
        return str(_read(self.folder / _BASE).get("base", ""))

    @property
    def has_states(self) -> bool:
        """Whether a start goes on from where an earlier one ended."""
        return any(self._states.glob("*/states/step-*"))

    def rows(self) -> list[dict[str, JSON]]:
        """Return the rows as they were written, finished or not.

        Raises:
            InputError: the file cannot be read.
        """
        try:
            lines = self.rows_file.read_text(encoding="utf-8").split("\n")
            return [dict(json.loads(line)) for line in lines if line]
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"The rows of {self.name!r} cannot be read: {error}.", hint="Create it again.") from error

    def write_rows(self, rows: Sequence[Row]) -> None:
        """Replace the rows."""
        write_whole(self.rows_file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

    def begin(self, base: str) -> None:
        """Record the base model, and that the process has begun."""
        write_whole(self.folder / _BASE, json.dumps({"base": base}) + "\n")
        (self.folder / _STOP).unlink(missing_ok=True)
        self.post(Message("starting"))

    def post(self, message: Message) -> None:
        """Leave a message for whoever looks at the training."""
        write_whole(self.folder / _MESSAGE, json.dumps(asdict(message), ensure_ascii=False) + "\n")

    def message(self) -> Message | None:
        """Read the last message of the process; None where it never ran."""
        fields = _read(self.folder / _MESSAGE)
        return Message(**fields) if fields else None

    def ask_to_stop(self) -> None:
        """Ask the process that trains to save its state and end."""
        (self.folder / _STOP).touch()

    @property
    def is_asked_to_stop(self) -> bool:
        """Whether it was."""
        return (self.folder / _STOP).exists()

    def record(self) -> tuple[list[dict[str, float]], int]:
        """Return the record of every step so far, and the steps of the whole run; 0 before the first."""
        for run in sorted(self._states.glob(f"*/{RUN_FILE}")):
            return RunRecord(run.parent).rows(), int(_read(run).get("steps", 0))
        return [], 0

    def report(self) -> Mapping[str, Any]:
        """Read the report of the finished training, as `FinetuneReport.to_json` has it.

        Raises:
            InputError: it cannot be read.
        """
        report = _read(self.model / _REPORT)
        if not report:
            raise InputError(f"The report of {self.name!r} cannot be read.", hint="Discard it and train again.")
        return report

    @property
    def _states(self) -> Path:
        return self.folder / f"{self.model.name}.training"


@dataclass(frozen=True, slots=True)
class Trainings:
    """All trainings of a place; its folder is made with the first one."""

    folder: Path

    def names(self) -> list[str]:
        """Return the names of the trainings that are there now."""
        return sorted(rows.parent.name for rows in self.folder.glob(f"*/{_ROWS}"))

    def find(self, name: str) -> Training:
        """Return a training.

        Raises:
            UsageError: there is none of that name.
        """
        if name not in self.names():
            raise UsageError(f"There is no training {name!r} here any more.", hint="Choose another, or make a new one.")
        return Training(self.folder / name)

    def free_name(self) -> str:
        """Return a name that no training has."""
        taken = set(self.names())
        return next(name for number in range(1, len(taken) + 2) if (name := f"training-{number}") not in taken)

    def create(self, name: str, rows: Sequence[Row]) -> Training:
        """Make a training that is not begun.

        Raises:
            UsageError: the name is taken, or no plain folder name.
        """
        training = Training(self.folder / plain_name(name, "a training"))
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            training.folder.mkdir(mode=0o700)  # as an index, it is for its owner alone
        except FileExistsError:
            raise UsageError(f"There is a training {training.name!r} already.", hint="Choose another name.") from None
        training.write_rows(rows)
        return training

    def status(self, training: Training) -> Status:
        """Return the status of a training."""
        if self._named == training.name and self.holder() is not None:
            return "stopping" if training.is_asked_to_stop else "running"
        if training.model.is_dir():
            return "finished"
        message = training.message()
        if message is None or (message.outcome == "stopped" and not training.has_states):
            return "draft"
        return "paused" if training.has_states and message.outcome != "failed" else "failed"

    def models(self) -> dict[str, str]:
        """Return the folders of the models that were trained here, and the names of their trainings."""
        every = [self.find(name) for name in self.names()]
        return {str(made.model.resolve()): made.name for made in every if self.status(made) == "finished"}

    def grown_from(self, training: Training) -> list[str]:
        """Return the names of the trainings that need this one's model: they train on it, or can be gone on with."""
        model = str(training.model.resolve())
        others = [self.find(name) for name in self.names()]
        return [other.name for other in others if other.base == model and self._needs_base(other)]

    def _needs_base(self, training: Training) -> bool:
        status = self.status(training)
        return status in ("running", "stopping") or (status != "finished" and training.has_states)

    def start(self, training: Training, base: str) -> None:
        """Train in a process of its own, which outlives this one; a training that was stopped goes on.

        ``base`` is the resolved name of what is trained on; it stays the same once there are states.

        Raises:
            RetrieverError: another training has its turn.
        """
        with self._held(_STARTING):
            if self._is_held(_LOCK):
                raise self._refusal()
            write_whole(self.folder / _TURN, json.dumps({"name": training.name}) + "\n")
            training.begin(training.base if training.has_states else base)
            paths = [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
            with training.log.open("ab") as log:
                process = subprocess.Popen(
                    [*COMMAND, str(training.folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                    start_new_session=True,
                )
            until = time.monotonic() + _UNTIL_IT_RUNS
            while process.poll() is None and not self._is_held(_LOCK) and time.monotonic() < until:
                time.sleep(_MOMENT)
        threading.Thread(target=process.wait, daemon=True).start()

    def turn(self) -> AbstractContextManager[None]:
        """Hold the turn to train, within the process that trains.

        Raises:
            RetrieverError: another training has it.
        """
        return self._held(_LOCK)

    def stop(self, training: Training) -> None:
        """Ask a training to save its state and end; it does so after the step under way."""
        if self.holder() == training.name:
            training.ask_to_stop()

    def discard(self, training: Training) -> None:
        """Delete a training with its rows and its model.

        Raises:
            RetrieverError: it is running.
        """
        if self.status(training) in ("running", "stopping"):
            raise RetrieverError(f"{training.name!r} is being trained.", hint="Stop it first.")
        shutil.rmtree(training.folder)

    def holder(self) -> str | None:
        """Return the name of the training whose turn it is, or None."""
        return self._named if self._is_held(_LOCK) or self._is_held(_STARTING) else None

    @property
    def _named(self) -> str:
        """Whose turn it is, or was last."""
        return str(_read(self.folder / _TURN).get("name", ""))

    def _is_held(self, lock: str) -> bool:
        if not (self.folder / lock).exists():
            return False
        try:
            with FileLock(self.folder / lock).acquire(_MOMENT, poll_interval=_MOMENT / 4):
                return False
        except Timeout:
            return True

    @contextmanager
    def _held(self, lock: str) -> Iterator[None]:
        try:
            held = FileLock(self.folder / lock, mode=0o600).acquire(_PATIENCE, poll_interval=_MOMENT / 4)
        except Timeout:
            raise self._refusal() from None
        with held:
            yield

    def _refusal(self) -> RetrieverError:
        return RetrieverError(
            f"{self._named!r} is being trained.", hint="One training runs at a time: wait for it, or stop it first."
        )


def _read(file: Path) -> dict[str, Any]:
    """Return a file's JSON object; empty where it is missing or broken."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
