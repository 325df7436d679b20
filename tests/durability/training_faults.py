"""Saved training states, the user's default model and a whole fine-tuning, interrupted at every change of their files.

A scenario is judged by what loads afterwards: every model and state is whole or refused by name, the default is a whole
model, and the same command ends with the weights of an undisturbed run.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import safetensors.torch
import torch
from disk import Change, Disk, Fault
from interruptions import LostError, Tree
from replay import after, read_tree, write_tree
from safetensors import SafetensorError

sys.path.append(str(Path(__file__).parents[1]))

import finetune_fakes
import tiny_checkpoints

from retriever.core.errors import CheckpointError, RetrieverError
from retriever.encoders.catalog import promoted_folder, read_promotion, write_promotion
from retriever.encoders.sources import check_manifest
from retriever.evaluation.general import GeneralScore
from retriever.evaluation.scores import Score, mean_score
from retriever.index import models
from retriever.training.checkpoints import Position, TrainingCheckpoints
from retriever.training.run import finetuning
from retriever.training.run.finetuning import FinetuneRequest, finetune

EARLIER, OUTPUT, USER = Path("earlier"), Path("out"), Path("user")
STEPS = 2
SETTINGS = (
    f"[loop]\nmax_steps = {STEPS}\n[batch]\ntexts = 4\n[adapter]\nrank = 2\nlook_ahead = 1\n[objective]\nviews = []\n"
)


@dataclass(frozen=True)
class Scenario:
    """Something that writes models or states.

    Attributes:
        prepare: makes the folder to begin with.
        run: does it; again where it was interrupted.
        check: raises a `LostError` unless what is there is whole; given whether a run has returned.
        errors: what a run may raise when its disk fails.
    """

    prepare: Callable[[Path], None]
    run: Callable[[Path], None]
    check: Callable[[Path, bool], None]
    errors: tuple[type[Exception], ...] = (RetrieverError,)


@dataclass(frozen=True)
class Trace:
    """A scenario run once, undisturbed: the folder before, and the changes of its files."""

    scenario: Scenario
    before: Tree
    changes: list[Change]


def trace(scenario: Scenario, root: Path) -> Trace:
    """Run a scenario once and write down what it changes. Paths in files make the folder's name part of them."""
    with laid_out({}, root):
        scenario.prepare(root)
        before = read_tree(root)
        with Disk(root).watched() as disk:
            scenario.run(root)
        assert after(before, disk.changes) == read_tree(root), "the recording does not explain the folder"
        scenario.check(root, True)
    return Trace(scenario, before, disk.changes)


def judge(trace: Trace, tree: Tree, root: Path, *, only_final: bool = False, again: bool = True) -> None:
    """Look at what a crash left, and do it again.

    Raises:
        LostError: something is neither whole nor refused, or the same command does not end well.
    """
    with laid_out(tree, root):
        try:
            trace.scenario.check(root, only_final)
            if again:
                trace.scenario.run(root)
                trace.scenario.check(root, True)
        except (RetrieverError, OSError) as error:
            raise LostError(str(error)) from error


def fail(trace: Trace, fault: Fault, root: Path) -> Change | None:
    """Run a scenario whose files fail once; judge as a crash is judged. Return the change that failed."""
    disk = Disk(root, fault)
    with laid_out(trace.before, root):
        succeeded = False
        try:
            with disk.watched():
                trace.scenario.run(root)
            succeeded = True
        except trace.scenario.errors:
            pass
        except Exception as error:
            raise LostError(f"a bare {type(error).__name__} reaches the user: {error}") from error
        tree = read_tree(root)
    judge(trace, tree, root, only_final=succeeded)
    return disk.hit


@contextmanager
def laid_out(tree: Tree, root: Path) -> Iterator[None]:
    """Lay a tree out as the user's own place, and remove it afterwards."""
    write_tree(root, tree)
    with mock.patch.dict(os.environ, RETRIEVER_CONFIG=str(root / USER)):
        try:
            yield
        finally:
            shutil.rmtree(root)


def saved_states() -> Scenario:
    """A third training state is saved, and the first forgotten."""

    def parameters(step: int) -> tuple[dict[str, torch.nn.Parameter], torch.optim.Optimizer]:
        weight = torch.nn.Parameter(torch.full((4,), float(step)))
        return {"weight": weight}, torch.optim.AdamW([weight])

    def save(root: Path, step: int) -> None:
        TrainingCheckpoints(root / "states", {"seed": 0}).save(*parameters(step), Position(step))

    def check(root: Path, done: bool) -> None:
        states = TrainingCheckpoints(root / "states", {"seed": 0})
        found = states.newest()
        held, optimizer = parameters(0)
        step = 0 if found is None else states.load(found, held, optimizer).step
        if step < (3 if done else 2) or held["weight"].tolist() != [step] * 4:
            raise LostError(f"the newest state is of step {step}, with the weights {held['weight'].tolist()}")

    def prepare(root: Path) -> None:
        for step in (1, 2):
            save(root, step)

    return Scenario(prepare, lambda root: save(root, 3), check, (RetrieverError, OSError, SafetensorError))


def promotion(base: Path) -> Scenario:
    """The user's default model is replaced by another; ``base`` is the tiny model below both."""

    def prepare(root: Path) -> None:
        _earlier(root, base)
        tiny_checkpoints.save_trained(root / OUTPUT, base, seed=1)

    def check(root: Path, done: bool) -> None:
        if _default(root) != (OUTPUT if done else _default(root)):
            raise LostError("the default is still the earlier model")

    return Scenario(prepare, lambda root: write_promotion(root / OUTPUT), check)


def finetuning_resumed(base: Path) -> Scenario:
    """A fine-tuning that was paused after its first step is ended, and its model becomes the default."""
    weights: list[dict[str, torch.Tensor]] = []

    def prepare(root: Path) -> None:
        _earlier(root, base)
        _write_task(root)
        finetune(request(root, base, minutes=1e-9))

    def run(root: Path) -> None:
        if not (root / OUTPUT).exists():
            finetune(request(root, base))
            return
        with suppress(RetrieverError):  # it says so, and names the command
            finetune(request(root, base))
        models.promote(root / OUTPUT)

    def check(root: Path, done: bool) -> None:
        default = _default(root)
        check_manifest(root / EARLIER, hint="")
        if (root / OUTPUT).exists():
            check_manifest(root / OUTPUT, hint="")
            weights.append(_weights(root / OUTPUT))
            if any(not torch.equal(values, weights[-1][name]) for name, values in weights[0].items()):
                raise LostError("the model is another one than an undisturbed run's")
        elif done:
            raise LostError("there is no model")
        else:
            _check_states(root)
        if done and default != OUTPUT:
            raise LostError(f"the default is {default}")

    return Scenario(prepare, run, check)


def finetuning_paused(base: Path) -> Scenario:
    """A fine-tuning is paused after its first step."""

    def prepare(root: Path) -> None:
        _earlier(root, base)
        _write_task(root)

    def check(root: Path, done: bool) -> None:
        if done:
            _check_states(root)

    return Scenario(prepare, lambda root: finetune(request(root, base, minutes=1e-9)), check)


def request(root: Path, base: Path, **changes) -> FinetuneRequest:
    """Ask to go on with the fine-tuning below a folder."""
    options = {"base": f"plain:{base}", "config": root / "tune.toml", "device": "cpu", "dtype": "float32"}
    return FinetuneRequest([str(root / "qa.jsonl")], root / OUTPUT, resume=True, **options, **changes)


@contextmanager
def surroundings() -> Iterator[None]:
    """Within the block a tiny model is judged at once, and every byte passes through files that Python can see.

    Safetensors writes from Rust, and files are copied by the kernel: both are done in Python here, and fail as they do.
    """

    def score(encoder: object, *, seed: int = 0) -> GeneralScore:
        found = _score("general", 70, seed)
        return GeneralScore(found, found, found)

    patches = [
        (finetuning, "general_score", score),
        (finetuning, "draw_curves", lambda path, *data: path.write_text("<svg/>")),
        (finetuning, "held_out_task", lambda rows, seed: _Better()),
        (shutil, "_USE_CP_SENDFILE", False),
    ]
    users = ("retriever.training.checkpoints.save_file", "retriever.encoders.checkpoint.save_file")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with ExitStack() as stack:
        for module, name, value in patches:
            stack.enter_context(mock.patch.object(module, name, value))
        for name in (*users, "peft.peft_model.safe_save_file"):
            stack.enter_context(mock.patch(name, _save_file))
        try:
            yield
        finally:
            torch.set_num_threads(threads)


class _Better:
    """A held-out score of 60 for the trained model, which is measured first, then of 40 for its base: it passes."""

    def __init__(self) -> None:
        self.value = 80.0

    def measure(self, encoder: object, *, seed: int) -> Score:
        self.value -= 20
        return _score("held-out triplets", self.value, seed)


def _score(task: str, value: float, seed: int) -> Score:
    return mean_score(task, "mean", np.full(9, value), seed=seed)


def _save_file(tensors, path, metadata=None) -> None:
    try:
        Path(path).write_bytes(safetensors.torch.save(tensors, metadata))
    except OSError as error:
        raise SafetensorError(f"Error while serializing: I/O error: {error}") from error


def _earlier(root: Path, base: Path) -> None:
    """Make the model that is the default before."""
    tiny_checkpoints.save_trained(root / EARLIER, base)
    write_promotion(root / EARLIER)


def _write_task(root: Path) -> None:
    (root / "tune.toml").write_text(SETTINGS)
    finetune_fakes.write(root / "qa.jsonl", finetune_fakes.rows(24))


def _default(root: Path) -> Path:
    """Return the default model's folder below the root, once its every file is whole."""
    folder = promoted_folder()
    if folder is None or read_promotion() is None:
        raise LostError("the default is forgotten")
    check_manifest(folder, hint="")
    return folder.relative_to(root.resolve())


def _check_states(root: Path) -> None:
    found = sorted((root / f"{OUTPUT}.training").glob("*/states/step-*"))
    if not found:
        raise LostError("no training state is left")
    try:
        check_manifest(found[-1], hint="")
    except CheckpointError as error:
        raise LostError(f"the newest training state is damaged: {error}") from error


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    files = ("adapter_model.safetensors", "look_ahead.safetensors")
    return {name: value for file in files for name, value in safetensors.torch.load_file(folder / file).items()}
