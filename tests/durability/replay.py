"""Lays a folder out as it stood after some of the changes that `disk` wrote down, or after a loss of power.

The rules of a power loss are the strictest ones POSIX allows: bytes are sure only after an fsync of their file, names
only after an fsync of their folder; of what is not sure, any part may be there. SQLite syncs the folder of a log it
makes by itself, inside its VFS, so the first sync of a new log makes its folder's names sure too.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from disk import Change

FOLDER = None


@dataclass(eq=False)
class _File:
    data: bytearray = field(default_factory=bytearray)


@dataclass
class _Step:
    """A change with the file it means, and whether a later sync made it sure."""

    change: Change
    file: _File | None = None
    names: tuple[str, ...] = ()  # folders whose sync makes it sure; empty for a change of bytes
    sure: bool = False


def read_tree(root: Path) -> dict[str, bytes | None]:
    """Return every file's bytes and every folder below a folder; SQLite's shared memory is left out."""
    found = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*"))}
    return {name: path.read_bytes() if path.is_file() else FOLDER for name, path in found.items() if _kept(name)}


def write_tree(root: Path, tree: dict[str, bytes | None]) -> None:
    """Lay a tree out; what lies in a folder that is not there is lost."""
    root.mkdir(parents=True)
    for name in sorted(tree, key=lambda name: name.count("/")):
        path = root / name
        if path.parent.is_dir():
            path.mkdir() if tree[name] is FOLDER else path.write_bytes(tree[name])


def after(tree: dict[str, bytes | None], changes: Sequence[Change], *, torn: bool = False) -> dict[str, bytes | None]:
    """Return the tree after the changes, as a killed process leaves it; ``torn`` halves the last write."""
    if torn and changes and changes[-1].kind == "write":
        last = changes[-1]
        half = Change("write", last.path, last.offset, last.data[: len(last.data) // 2], sqlite=last.sqlite)
        changes = [*changes[:-1], half]
    return _laid_out(tree, _steps(tree, changes), lambda step: True)


def after_power_loss(
    tree: dict[str, bytes | None], changes: Sequence[Change], seed: int | None
) -> dict[str, bytes | None]:
    """Return the tree after the changes and a power loss: of what is not sure, a part by the seed, or nothing."""
    chance = random.Random(seed)
    return _laid_out(
        tree, _steps(tree, changes), lambda step: step.sure or (seed is not None and chance.random() < 0.5)
    )


def _steps(tree, changes) -> list[_Step]:
    """Return the changes with their files, and which of them syncs made sure."""
    files = {name: _File() for name, data in tree.items() if data is not FOLDER}
    steps: list[_Step] = []
    for change in changes:
        if change.kind == "fsync":
            _make_sure(steps, change, files.get(change.path))
            continue
        if change.kind in ("write", "truncate") and change.path not in files:  # SQLite makes files unseen
            files[change.path] = _File()
            made = Change("create", change.path, sqlite=True)
            steps.append(_Step(made, files[change.path], (_folder(change.path),)))
        if change.kind == "create":
            files[change.path] = _File()
        step = _Step(change, files.get(change.path))
        if change.kind not in ("write", "truncate"):
            step.names = tuple({_folder(path) for path in (change.path, change.target) if path})
        steps.append(step)
        _rename(files, change)
    return steps


def _make_sure(steps, change, file) -> None:
    folder = change.path if file is None else _folder(change.path)
    new_log = change.sqlite and any(
        step.file is file and step.change.kind == "create" and step.change.sqlite and not step.sure for step in steps
    )
    for step in steps:
        if file is not None and step.file is file and not step.names:
            step.sure = True
        if step.names and (file is None or new_log) and folder in step.names:
            step.sure = True


def _rename(files, change) -> None:
    if change.kind == "replace":
        for name in [one for one in files if one == change.path or one.startswith(f"{change.path}/")]:
            files[change.target + name[len(change.path) :]] = files.pop(name)
    elif change.kind == "unlink":
        files.pop(change.path, None)


def _laid_out(tree, steps, kept) -> dict[str, bytes | None]:
    contents: dict[int, bytearray] = {}
    names: dict[str, int | None] = {}
    for name, data in tree.items():
        names[name] = FOLDER if data is FOLDER else len(contents)
        if data is not FOLDER:
            contents[len(contents)] = bytearray(data)
    first = {}
    files = [name for name, data in tree.items() if data is not FOLDER]
    numbers: dict[int, int] = {}
    for step in steps:
        if step.file is not None and id(step.file) not in numbers:
            known = step.change.kind != "create" and step.change.path in files and step.change.path not in first
            numbers[id(step.file)] = names[step.change.path] if known else len(contents)
            if not known:
                contents[len(contents)] = bytearray()
        first[step.change.path] = True
        if kept(step):
            _apply(step, names, contents, numbers)
    return {name: FOLDER if at is FOLDER else bytes(contents[at]) for name, at in names.items() if _kept(name)}


def _apply(step, names, contents, numbers) -> None:
    change = step.change
    if change.kind in ("write", "truncate"):
        _change_bytes(change, contents[numbers[id(step.file)]])
    elif change.kind == "create":
        names[change.path] = numbers[id(step.file)]
    elif change.kind == "mkdir":
        names[change.path] = FOLDER
    elif change.kind in ("unlink", "rmdir"):
        names.pop(change.path, None)
    elif change.kind == "replace":
        if step.file is not None:
            names.pop(change.path, None)
            names[change.target] = numbers[id(step.file)]
        else:
            names.setdefault(change.path, FOLDER)
            for name in [one for one in names if one == change.path or one.startswith(f"{change.path}/")]:
                names[change.target + name[len(change.path) :]] = names.pop(name)


def _change_bytes(change, data) -> None:
    if change.kind == "truncate":
        del data[change.offset :]
        data.extend(bytes(change.offset - len(data)))
    else:
        data.extend(bytes(max(0, change.offset - len(data))))
        data[change.offset : change.offset + len(change.data)] = change.data


def _folder(path: str) -> str:
    parent = PurePosixPath(path).parent.as_posix()
    return "" if parent == "." else parent


def _kept(name: str) -> bool:
    return not name.endswith("-shm")
