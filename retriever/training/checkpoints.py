"""Training states on disk: everything a run needs to go on as if it had never stopped.

step-00000120/
  state.safetensors   weights, the optimizer's moments, states of the random numbers
  position.json       where in the data the run stands, and what run it is
  manifest.json       SHA-256 of both
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from retriever.core.errors import CheckpointError, TrainingError, UsageError
from retriever.core.paths import make_folder, new_folder
from retriever.core.types import JSON
from retriever.encoders.checkpoint import reading_weights
from retriever.encoders.sources import check_manifest, write_manifest
from retriever.training.randomness import RandomState

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
        found = sorted(self.folder.glob("step-*"))
        return found[-1] if found else None

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
        record = _record(folder)
        before = record["identity"]
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
        return Position(**record["position"])


def _record(folder: Path) -> Mapping[str, Any]:
    """Read a state's record of itself: its run's identity and its position.

    Raises:
        CheckpointError: it is malformed.
    """
    try:
        record: Mapping[str, Any] = json.loads((folder / POSITION).read_text(encoding="utf-8"))
        Position(**record["position"])
        dict(record["identity"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{folder / POSITION} is malformed: {error}.", hint=_BEFORE) from error
    return record


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
