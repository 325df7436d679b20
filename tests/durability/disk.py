"""Sees every change to files below a folder, SQLite's included: writes them down, or lets one of them fail.

Python's files, `os` functions and SQLite's VFS are all asked first. What is written down is enough to lay the folder
out anew as it stood after any of the changes, or as a power loss might have left it (`replay`).
"""

import builtins
import errno
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from sqlite_vfs import FULL, IOERR_WRITE, SHORT, Shim

_real_open, _real_os_open = io.open, os.open
_shim: Shim | None = None
_unflushed = False


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        kind: create, write, truncate, fsync, replace, unlink, mkdir, rmdir; a folder's fsync has kind fsync too.
        path: below the watched folder.
        offset: where a write begins; the new size for a truncation.
        data: what is written.
        target: the new path of a replacement.
        sqlite: whether SQLite did it.
    """

    kind: str
    path: str
    offset: int = 0
    data: bytes = b""
    target: str = ""
    sqlite: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """The fault: at which change, how, and whether everything that needs room fails from then on."""

    at: int
    how: str  # eio, enospc or short
    lasting: bool = False


class Disk:
    """The watched folder.

    Args:
        root: the folder.
        fault: what goes wrong, if anything.
    """

    def __init__(self, root: Path, fault: Fault | None = None) -> None:
        self.root = f"{root}{os.sep}"
        self.fault = fault
        self.changes: list[Change] = []
        self.hit: Change | None = None
        self._files: dict[int, str] = {}

    @contextmanager
    def watched(self) -> Iterator["Disk"]:
        """Watch while the block runs."""
        global _shim
        _shim = _shim or Shim()
        with ExitStack() as stack:
            for module, name in [(builtins, "open"), (io, "open"), (tarfile, "bltn_open")]:
                stack.enter_context(mock.patch.object(module, name, self._open))
            for name in ("open", "close", "fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir"):
                stack.enter_context(mock.patch.object(os, name, getattr(self, f"_os_{name}")))
            stack.enter_context(_shim.hooked(self._sqlite))
            yield self

    def _refused(self, change: Change) -> str | None:
        """Write a change down; return how it fails, where it does."""
        number = len(self.changes)
        self.changes.append(change)
        fault = self.fault
        if fault is None or number < fault.at or (number > fault.at and not (fault.lasting and _needs_room(change))):
            return None
        self.hit = self.hit or change
        return fault.how

    def _ask(self, kind: str, path: str, **rest) -> None:
        """Write a change down; raise where it fails."""
        how = self._refused(Change(kind, self._name(path), **rest))
        if how is not None:
            code = errno.EIO if how == "eio" else errno.ENOSPC
            raise OSError(code, os.strerror(code), path)

    def _sqlite(self, kind: str, path: str, offset: int, data: bytes) -> int | None:
        if not path.startswith(self.root):
            return None
        how = self._refused(Change(kind, path.removeprefix(self.root), offset, data, sqlite=True))
        return None if how is None else {"eio": IOERR_WRITE, "enospc": FULL, "short": SHORT}[how]

    def _name(self, path: str) -> str:
        """Return a path below the folder; the folder itself is empty."""
        return f"{path}{os.sep}".removeprefix(self.root).removesuffix(os.sep)

    def _path(self, path, dir_fd: int | None = None) -> str | None:
        """Return the absolute path, or None where it is none of ours."""
        if isinstance(path, int):
            return self._files.get(path)
        name = os.fspath(path)
        if dir_fd is not None:
            name = str(Path(self._files[dir_fd], name)) if dir_fd in self._files else ""
        name = os.path.abspath(name) if name else ""  # noqa: PTH100 - links stay as they are
        return name if f"{name}{os.sep}".startswith(self.root) else None

    def _os_open(self, path, flags, mode=0o777, *, dir_fd=None):
        name = self._path(path, dir_fd)
        if name and flags & os.O_CREAT and not Path(name).exists():
            self._ask("create", name)
        descriptor = _real_os_open(path, flags, mode, dir_fd=dir_fd)
        if name:
            self._files[descriptor] = name
        return descriptor

    def _os_close(self, descriptor):
        self._files.pop(descriptor, None)
        _originals["close"](descriptor)

    def _os_fsync(self, descriptor):
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        name = self._files.get(number)
        if name:
            self._ask("fsync", name)
        if not _unflushed:
            _originals["fsync"](descriptor)

    def _os_replace(self, source, target, **options):
        name = self._path(source)
        if name:
            self._ask("replace", name, target=(self._path(target) or "").removeprefix(self.root))
        _originals["replace"](source, target, **options)

    _os_rename = _os_replace

    def _os_unlink(self, path, *, dir_fd=None):
        name = self._path(path, dir_fd)
        if name and os.path.lexists(name):
            self._ask("unlink", name)
        _originals["unlink"](path, dir_fd=dir_fd)

    _os_remove = _os_unlink

    def _os_mkdir(self, path, mode=0o777, *, dir_fd=None):
        name = self._path(path, dir_fd)
        if name and Path(name).parent.is_dir() and not Path(name).exists():
            self._ask("mkdir", name)
        _originals["mkdir"](path, mode, dir_fd=dir_fd)

    def _os_rmdir(self, path, *, dir_fd=None):
        name = self._path(path, dir_fd)
        if name:
            self._ask("rmdir", name)
        _originals["rmdir"](path, dir_fd=dir_fd)

    def _open(self, file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
        name = self._path(file)
        plain = mode.replace("b", "").replace("t", "")
        if name is None or plain == "r" or stat.S_ISDIR(Path(name).stat().st_mode if Path(name).exists() else 0):
            return _real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if not isinstance(file, int):
            self._before_opening(name, plain)
        raw = _WatchedFile(self, name, file, plain, closefd)
        self._files[raw.fileno()] = name
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    def _before_opening(self, name: str, mode: str) -> None:
        if not Path(name).exists():
            self._ask("create", name)
        elif "w" in mode:
            self._ask("truncate", name)


class _WatchedFile(io.FileIO):
    """A file whose writes the disk sees, below Python's buffers."""

    def __init__(self, disk: Disk, name: str, file, mode: str, closefd: bool) -> None:
        self._disk, self._name = disk, name
        super().__init__(file, mode, closefd)

    def write(self, data):
        held = bytes(data)
        change = Change("write", self._name.removeprefix(self._disk.root), self.tell(), held)
        how = self._disk._refused(change)
        if how == "short":
            super().write(held[: len(held) // 2])
        if how is not None:
            code = errno.EIO if how == "eio" else errno.ENOSPC
            raise OSError(code, os.strerror(code), self._name)
        return super().write(held)

    def close(self):
        if not self.closed:
            self._disk._files.pop(self.fileno(), None)
        super().close()


@contextmanager
def unflushed() -> Iterator[None]:
    """Flush nothing to the real disk within the block: what a loss of power leaves is reckoned here, not tried."""
    global _shim, _unflushed
    shim = _shim = _shim or Shim()
    before, _unflushed, shim.flushes = _unflushed, True, False
    with mock.patch.object(os, "fsync", lambda descriptor: None):
        try:
            yield
        finally:
            _unflushed, shim.flushes = before, not before


def _needs_room(change: Change) -> bool:
    return change.kind in ("create", "write", "mkdir")


_originals = {name: getattr(os, name) for name in ("close", "fsync", "replace", "unlink", "mkdir", "rmdir")}
