"""Training states on disk, everything a run needs to go on as if it had never stopped, and the record of its steps.

run.json, losses.jsonl  what the run is; how every step went
states/step-00000120/
  state.safetensors     weights, the optimizer's moments, states of the random numbers
  position.json         where in the data the run stands, and what run it is
  manifest.json         SHA-256 of both
"""

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from retriever.core.environment import versions
from retriever.core.errors import CheckpointError, TrainingError, UsageError
from retriever.core.paths import atomic_write, make_folder, new_folder
from retriever.core.types import JSON
from retriever.encoders.checkpoint import reading_weights
from retriever.encoders.sources import check_manifest, write_manifest


@dataclass(frozen=True, slots=True)
class RandomState:
    """The states of torch's generators, uint8: the processor's, and the GPU's where there is one."""

    cpu: Tensor
    cuda: Tensor | None = None

    @classmethod
    def now(cls) -> "RandomState":
        """Return the present state of the processor's generator and of the current GPU's, where there is one."""
        return cls(torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_available() else None)

    def restore(self) -> None:
        """Put the generators back to this state."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(self.cuda)


KEPT_STATES = 2  # the newest, and one to fall back on
STATE = "state.safetensors"
POSITION = "position.json"
_SLACK = 1 << 20  # bytes
_BEFORE = "Remove this folder to go on from the state before it."


@dataclass(frozen=True, slots=True)
class Position:
    """Where a run stands: steps done, the epoch under way, batches of it done, seconds over all pieces of the run."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0


class TrainingCheckpoints:
    """The training states of one run, in one folder.

    Their ``identity``, which makes the run this run, is its settings, data and seed; another run's states are refused.
    """

    def __init__(self, folder: Path, identity: Mapping[str, JSON]) -> None:
        self.folder = folder
        self.identity: dict[str, JSON] = json.loads(json.dumps(identity))

    def newest(self) -> Path | None:
        """Return the newest whole state, or None."""
        return max(self.folder.glob("step-*"), default=None)

    def save(
        self, parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer, position: Position
    ) -> Path:
        """Write the present state, whole or not at all, and forget all but the last two.

        Raises:
            TrainingError: there is no room for it.
        """
        target = self.folder / f"step-{position.step:08d}"
        if target.exists():
            return target
        tensors = _tensors(parameters, optimizer)
        make_folder(self.folder)
        needed = sum(tensor.nbytes for tensor in tensors.values()) + _SLACK
        free = shutil.disk_usage(self.folder).free
        if free < needed:
            raise _no_room(target, f"{needed >> 20} MiB are needed, {free >> 20} free")
        try:
            with new_folder(target) as draft:
                save_file(tensors, draft / STATE)
                record = {"identity": self.identity, "position": asdict(position)}
                (draft / POSITION).write_text(json.dumps(record, indent=1) + "\n")
                write_manifest(draft)
        except OSError as error:
            raise _no_room(target, str(error)) from error
        for old in sorted(self.folder.glob("step-*"))[:-KEPT_STATES]:
            shutil.rmtree(old)
        return target

    def load(self, folder: Path, parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> Position:
        """Put a state back: weights, moments, random numbers. Return where the run stood.

        Raises:
            CheckpointError: a file changed or is missing.
            UsageError: it is another run's.
        """
        check_manifest(folder, hint=_BEFORE)
        try:
            record = json.loads((folder / POSITION).read_text(encoding="utf-8"))
            position, before = Position(**record["position"]), dict(record["identity"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(f"{folder / POSITION} is malformed: {error}.", hint=_BEFORE) from error
        if changed := sorted(key for key in {*before, *self.identity} if before.get(key) != self.identity.get(key)):
            raise UsageError(
                f"{folder} belongs to another run: {', '.join(changed)} changed.",
                hint="Repeat the options and data of that run, or choose another output folder.",
            )
        with reading_weights(folder):
            stored = load_file(folder / STATE)
        held = {name for name in stored if name.startswith("weights/")}
        if missing := sorted({f"weights/{name}" for name in parameters} ^ held):
            raise UsageError(
                f"{folder} holds other weights than are trained now ({missing[0]}).",
                hint="Repeat the adapter's options of that run.",
            )
        with reading_weights(folder):
            with torch.no_grad():
                for name, parameter in parameters.items():
                    parameter.copy_(stored[f"weights/{name}"])
            _restore_moments(parameters, optimizer, stored)
            RandomState(stored["random/cpu"], stored.get("random/cuda")).restore()
        return position


def _tensors(parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    random = RandomState.now()
    tensors = {"random/cpu": random.cpu}
    if random.cuda is not None:
        tensors["random/cuda"] = random.cuda
    for name, parameter in parameters.items():
        tensors[f"weights/{name}"] = parameter.detach()
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = value
    return {name: tensor.cpu().contiguous().clone() for name, tensor in tensors.items()}


def _restore_moments(
    parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer, stored: Mapping[str, Tensor]
) -> None:
    for name, parameter in parameters.items():
        moments: dict[str, Tensor] = {}
        for key, value in stored.items():
            kind, _, owner = key.partition("/")
            if owner == name and kind not in ("weights", "random"):
                # The count of steps stays on the processor, as AdamW keeps it.
                moments[kind] = value if kind == "step" else value.to(parameter.device)
        if moments:
            optimizer.state[parameter] = moments


def _no_room(target: Path, why: str) -> TrainingError:
    return TrainingError(
        f"The training state {target.name} cannot be written to {target.parent}: {why}.",
        hint="Earlier states are kept; make room and go on with --resume.",
    )


RUN_FILE = "run.json"
LOSSES_FILE = "losses.jsonl"


class RunRecord:
    """The record of one run, in files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, identity: Mapping[str, JSON], steps: int) -> None:
        """Start the record of a run of so many steps afresh; its identity is settings, seed and data hash."""
        make_folder(self.folder)
        about = {**identity, "steps": steps, "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        (self.folder / RUN_FILE).write_text(json.dumps({**about, "versions": versions()}, indent=1) + "\n")
        (self.folder / LOSSES_FILE).write_text("")

    def add(self, position: "Position", losses: Mapping[str, float], learning_rate: float) -> None:
        """Add one step: its losses by name, its rate, and the seconds all steps so far took."""
        row = {
            "step": position.step,
            "epoch": position.epoch,
            **losses,
            "learning_rate": learning_rate,
            "seconds": round(position.seconds, 3),
        }
        with (self.folder / LOSSES_FILE).open("a") as file:
            file.write(json.dumps(row) + "\n")

    def rewind(self, step: int) -> None:
        """Forget what came after a step: the run goes on from there. A line cut short by a crash goes too."""
        kept = [row for row in self.rows() if row["step"] <= step]
        with atomic_write(self.folder / LOSSES_FILE, private=False) as file:
            file.writelines(f"{json.dumps(row)}\n".encode() for row in kept)

    def rows(self) -> list[dict[str, float]]:
        """Return every step on record, oldest first."""
        file = self.folder / LOSSES_FILE
        lines = file.read_text().splitlines() if file.exists() else []
        rows = []
        for line in lines:
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
        return rows
