"""Interrupts an operation at every change of its files, and judges what is left. Used by tests and by `torture`."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from disk import Change, Disk, Fault
from operations import INDEX, OTHER, Operation, legal_states
from replay import after, after_power_loss, read_tree, write_tree

from retriever.core.errors import IndexNotFoundError, RetrieverError
from retriever.index.upkeep.verify import verify

Tree = dict[str, bytes | None]


@dataclass(frozen=True)
class Recording:
    """An operation run once, undisturbed.

    Attributes:
        operation: it.
        before: the folder before.
        changes: of files, in order.
        legal: the states an interruption may leave.
        final: the state afterwards.
    """

    operation: Operation
    before: Tree
    changes: list[Change]
    legal: list[Any]
    final: Any


@dataclass
class Tally:
    """The outcome of many interruptions.

    Attributes:
        injected: how many there were that differ.
        lost: where, how, and what was lost.
    """

    injected: int = 0
    lost: list[str] = field(default_factory=list)


class LostError(AssertionError):
    """An interruption left what it may not leave."""


def record(operation: Operation, folder: Path) -> Recording:
    """Run an operation once and write down what it changes."""
    root = folder / "recorded"
    root.mkdir(parents=True)
    operation.prepare(root)
    before = read_tree(root)
    with Disk(root).watched() as disk:
        operation.run(root, operation.encoder())
    assert after(before, disk.changes) == read_tree(root), "the recording does not explain the folder"
    legal = legal_states(operation, folder / "legal")
    assert operation.state(root) == legal[-1]
    return Recording(operation, before, disk.changes, legal, legal[-1])


def points(recording: Any, every: int, most: int | None = None) -> list[int]:
    """Return how many changes to let through: each sync, name and file's end, and every few of the writes.

    Args:
        recording: of the changes.
        every: of so many writes one is taken.
        most: take no more than so many points, evenly spread.
    """
    changes = recording.changes
    telling = {at + step for at, change in enumerate(changes) if change.kind != "write" for step in (0, 1)}
    found = sorted(telling | set(range(0, len(changes) + 1, every)) | {len(changes)})
    return found if most is None else sorted({found[at * (len(found) - 1) // (most - 1)] for at in range(most)})


def crashed(recording: Any, at: int, seeds: int = 1) -> Iterator[tuple[str, Tree]]:
    """Yield the folders that a crash after some changes may leave: a kill, one within a write, losses of power."""
    done = recording.changes[:at]
    yield "killed", after(recording.before, done)
    yield "torn", after(recording.before, done, torn=True)
    yield "power lost", after_power_loss(recording.before, done, None)
    for seed in range(seeds):
        yield f"power lost, reordered {seed}", after_power_loss(recording.before, done, 1000 * at + seed)


def judge(recording: Recording, tree: Tree, root: Path, *, only_final: bool = False) -> None:
    """Lay out what a crash left, and judge it there."""
    write_tree(root, tree)
    judge_there(recording, root, only_final=only_final)


def judge_there(recording: Recording, root: Path, *, only_final: bool = False) -> None:
    """Open what a crash left, and do the operation again.

    Raises:
        LostError: a state that may not be; damage; work done twice; another result than an undisturbed run's.
    """
    operation = recording.operation
    state = operation.state(root)
    if state not in (recording.legal[-1:] if only_final else recording.legal):
        raise LostError(f"the state is none of the {len(recording.legal)} legal ones")
    _require_whole(root, operation)
    encoder = operation.encoder()
    operation.run(root, encoder)
    if operation.state(root) != recording.final:
        raise LostError("the same operation again does not end as an undisturbed one")
    _require_nothing_twice(state, encoder)
    _require_whole(root, operation)


def fail(recording: Recording, fault: Fault, root: Path, *, judge: Callable[..., None] = judge) -> Change | None:
    """Run an operation whose files fail once; judge as a crash is judged. Return the change that failed.

    Raises:
        LostError: as for `judge`, or an error that is not told in our words.
    """
    operation = recording.operation
    write_tree(root, recording.before)
    disk = Disk(root, fault)
    try:
        with disk.watched():
            operation.run(root, operation.encoder())
        succeeded = True
    except RetrieverError:
        succeeded = False
    except OSError as error:
        raise LostError(f"a bare {type(error).__name__} reaches the user: {error}") from error
    tree = read_tree(root)
    shutil.rmtree(root)
    judge(recording, tree, root, only_final=succeeded)
    return disk.hit


def crash_everywhere(
    recording: Any,
    folder: Path,
    *,
    every: int = 1,
    most: int | None = None,
    seeds: int = 1,
    judge: Callable[..., None] = judge,
) -> Tally:
    """Judge the folders that a crash may leave after some changes; see `points` for which."""
    tally, seen = Tally(), set()
    for at in points(recording, every, most):
        for how, tree in crashed(recording, at, seeds):
            if (key := hash(frozenset(tree.items()))) in seen:
                continue
            seen.add(key)
            tally.injected += 1
            try:
                judge(recording, tree, folder / str(len(seen)))
            except LostError as error:
                tally.lost.append(f"{how} after {_named(recording, at - 1)}: {error}")
    return tally


def fail_everywhere(
    recording: Any, folder: Path, *, every: int = 1, most: int | None = None, fail: Callable[..., Change | None] = fail
) -> Tally:
    """Let some changes fail, each with an I/O error, a full disk, and half a write; see `points` for which."""
    tally = Tally()
    for at in points(recording, every, most):
        for fault in (Fault(at, "eio"), Fault(at, "enospc", lasting=True), Fault(at, "short")):
            try:
                tally.injected += fail(recording, fault, folder / f"{at}-{fault.how}") is not None
            except LostError as error:
                tally.injected += 1
                tally.lost.append(f"{fault.how} at {_named(recording, at)}: {error}")
    return tally


def _named(recording: Any, at: int) -> str:
    if not 0 <= at < len(recording.changes):
        return "the start" if at < 0 else "the end"
    change = recording.changes[at]
    return f"change {at}, {change.kind} {change.path}"


def _require_whole(root: Path, operation: Operation) -> None:
    for place in (INDEX, OTHER):
        try:
            found = verify(root / place, deep=True, load=lambda description: operation.encoder())
        except IndexNotFoundError:
            continue
        if not found.whole:
            raise LostError(f"damage: {found.findings[0]}")


def _require_nothing_twice(state: Any, encoder: Any) -> None:
    stored = {
        (text, instruction)
        for (fingerprint, instruction), texts in ((state or {}).get("vectors") or {}).items()
        for text in texts
        if fingerprint == encoder.fingerprint
    }
    if again := stored & set(encoder.read):
        raise LostError(f"{len(again)} texts were embedded twice, such as {min(again)}")
