"""Bits flipped and ends cut off in what is read whole or not at all: models, training states, archives, the default."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import tiny_checkpoints
import torch
from damage import Outcome, Verdict, file_damages, make_index
from operations import state_of
from replay import read_tree, write_tree

from retriever.core.errors import RetrieverError
from retriever.core.paths import config_dir
from retriever.encoders.catalog import POINTER, promoted_folder, write_promotion
from retriever.encoders.checkpoint import load_checkpoint
from retriever.encoders.methods import EncoderOptions
from retriever.index.upkeep.archive import export_index, import_index
from retriever.training.checkpoints import Position, TrainingCheckpoints

Read = Callable[[Path], Any]


def torture_files(path: Path, read: Read, folder: Path, *, each: int = 3, seed: int = 0) -> Outcome:
    """Damage every file of a folder in every eighth of it, and read the folder each time.

    Args:
        path: the whole folder.
        read: returns what is in a folder, comparable; raises a `RetrieverError` where it is refused.
        folder: for the damaged copies.
        each: flips in every region.
        seed: of their places.
    """
    tree, expected, outcome = read_tree(path), read(path), Outcome()
    place = folder / path.name
    for file in (name for name, data in tree.items() if data is not None):
        for damage in file_damages(file, tree[file] or b"", each, seed):
            write_tree(place, {**tree, file: damage.data})
            try:
                verdict, why = (Verdict.HARMLESS if read(place) == expected else Verdict.WRONG), ""
            except RetrieverError:
                verdict, why = Verdict.FOUND, ""
            except Exception as error:
                verdict, why = Verdict.CRASHED, f"{type(error).__name__}: {error}"
            outcome.add(replace(damage, region=Path(file).name), verdict, False, why)
            shutil.rmtree(place)
    return outcome


def make_model(path: Path, base: Path) -> Read:
    """Make a checkpoint over a tiny model; return how it is read."""
    tiny_checkpoints.save_trained(path, base)

    def read(folder: Path) -> bytes:
        encoder = load_checkpoint(folder, EncoderOptions(), device="cpu")
        return encoder.encode(["the kettle broke"], instruction="what kind of product").tobytes()

    return read


def make_states(path: Path) -> Read:
    """Make a training state; return how it is read."""

    def parts() -> tuple[dict[str, torch.nn.Parameter], torch.optim.Optimizer]:
        weight = torch.nn.Parameter(torch.arange(64.0))
        return {"weight": weight}, torch.optim.AdamW([weight])

    TrainingCheckpoints(path, {"seed": 0}).save(*parts(), Position(7, 1, 2, 3.5))

    def read(folder: Path) -> Any:
        weights, optimizer = parts()
        [state] = folder.iterdir()
        random = torch.get_rng_state()
        position = TrainingCheckpoints(folder, {"seed": 0}).load(state, weights, optimizer)
        torch.set_rng_state(random)
        return position, weights["weight"].tolist()

    return read


def make_archive(path: Path, draft: Path) -> Read:
    """Make an exported index; return how it is read."""
    make_index(draft)
    path.mkdir()
    export_index(draft, path / "archive.tar")

    def read(folder: Path) -> Any:
        target = draft.with_name("imported")
        if target.exists():
            shutil.rmtree(target)
        import_index(folder / "archive.tar", target)
        return state_of(target)

    return read


def make_default(path: Path, model: Path) -> Read:
    """Make the user's choice of a model, in the folder that RETRIEVER_CONFIG names; return how it is read."""
    write_promotion(model)
    shutil.copytree(config_dir(), path)

    def read(folder: Path) -> Any:
        (config_dir() / POINTER).write_bytes((folder / POINTER).read_bytes())
        return promoted_folder()

    return read
