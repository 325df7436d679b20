"""`repair` interrupted at every change of its files: the next repair ends as an undisturbed one would have."""

import sqlite3
from functools import partial
from pathlib import Path

from disk import Disk
from index_fakes import FakeEncoder, gives
from interruptions import LostError, Recording, Tree, fail
from operations import INDEX, OPERATIONS, Operation, state_of
from replay import read_tree, write_tree

from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.store.database import DATABASE


def damaged(root: Path) -> None:
    """Make an index that lacks nothing but a vector of each view and a FAISS file, which are damaged."""
    OPERATIONS["delete"].prepare(root)
    database = sqlite3.connect(root / INDEX / DATABASE)
    database.execute("UPDATE vectors SET vector = zeroblob(length(vector)) WHERE content_id = 3")
    database.commit()
    database.close()
    file = sorted((root / INDEX).rglob("*.faiss"))[0]
    file.write_bytes(file.read_bytes()[:-1] + b"x")


def mend(root: Path, encoder: FakeEncoder) -> None:
    """Repair the index."""
    repair(root / INDEX, load=gives(lambda: encoder))


def record_repair(folder: Path) -> Recording:
    """Repair once, undisturbed, and write down what it changes; the end is the index before the damage."""
    whole, root = folder / "whole", folder / "recorded"
    OPERATIONS["delete"].prepare(whole)
    damaged(root)
    before, final = read_tree(root), state_of(whole / INDEX)
    with Disk(root).watched() as disk:
        mend(root, FakeEncoder())
    assert state_of(root / INDEX) == final
    return Recording(
        Operation(damaged, mend, lambda root: state_of(root / INDEX)), before, disk.changes, [final], final
    )


def judge_repair(recording: Recording, tree: Tree, root: Path, *, only_final: bool = False) -> None:
    """Repair what an interruption left, as the user would, with the same command.

    Raises:
        LostError: something is not as before the damage, or still damaged.
    """
    write_tree(root, tree)
    if only_final and state_of(root / INDEX) != recording.final:
        raise LostError("a repair that succeeded is not done")
    mend(root, FakeEncoder())
    if state_of(root / INDEX) != recording.final:
        raise LostError("the same repair again does not end as an undisturbed one")
    found = verify(root / INDEX, deep=True, load=gives(FakeEncoder))
    if not found.whole:
        raise LostError(f"damage: {found.findings[0]}")


fail_repair = partial(fail, judge=judge_repair)
