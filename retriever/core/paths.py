"""Where things live outside an index, and how a folder is put in place whole or not at all."""

import errno
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import platformdirs

from retriever.core.errors import IndexDamagedError, OutputError, UsageError

ANOTHER_CACHE = "folder for the cache: set RETRIEVER_CACHE"
"""To be chosen where the cache cannot be written, as `writing` takes it."""

DRAFT_SUFFIX = ".tmp"
"""How the names of unfinished files end, which processes that were killed leave behind."""
_NAME = re.compile(r"\w[\w .-]{0,63}")


def cache_dir() -> Path:
    """Return the folder for derived model files: RETRIEVER_CACHE, else the platform's cache folder (XDG on Linux).

    Raises:
        OutputError: neither is named, and the user has no home folder.
    """
    return _own_folder("RETRIEVER_CACHE", platformdirs.user_cache_path)


def config_dir() -> Path:
    """Return the folder for the user's choices: RETRIEVER_CONFIG, else the platform's (XDG); errors as `cache_dir`."""
    return _own_folder("RETRIEVER_CONFIG", platformdirs.user_config_path)


def _own_folder(ours: str, usual: Callable[..., Path]) -> Path:
    override = os.environ.get(ours)
    folder = Path(override).expanduser() if override else usual("retriever", appauthor=False)
    if not override and not folder.is_absolute():  # a home that is not known stays ~
        raise OutputError("There is no home folder.", hint=f"Set {ours} to a folder.")
    return folder


def plain_name(name: str, of: str) -> str:
    """Return a name without spaces around it, fit to be a folder's and to lead nowhere else.

    Raises:
        UsageError: it is not; ``of`` says what it was to name.
    """
    wanted = name.strip()
    if not _NAME.fullmatch(wanted) or wanted.endswith("."):
        raise UsageError(
            f"{name!r} cannot be the name of {of}.",
            hint="Use letters, digits, spaces, dots, - and _, beginning with a letter or digit; 64 at most.",
        )
    return wanted


def within(folder: Path, relative: str) -> Path:
    """Return the path of a file that data names, once it is sure to lie in the folder.

    Raises:
        IndexDamagedError: the name is absolute, climbs out, or goes through a link; or there lies no regular file.
    """
    parts = PurePosixPath(relative).parts
    path = folder.joinpath(*parts)
    if not parts or "\0" in relative or PurePosixPath(relative).is_absolute() or ".." in parts:
        raise IndexDamagedError(f"{relative!r} names no file of {folder}.", hint="Run `retriever repair`.")
    folder_within(folder, *parts[:-1])
    if path.is_symlink():
        raise IndexDamagedError(f"{path} is a link, which is not followed.", hint="Run `retriever repair`.")
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise IndexDamagedError(f"{path} is no regular file.", hint="Run `retriever repair`.")
    return path


def folder_within(folder: Path, *names: str) -> Path:
    """Return a folder in another, there or not, once it is sure that no link stands for it: links lead out.

    Raises:
        IndexDamagedError: it, or one on the way to it, is a link.
    """
    path = folder
    for name in names:
        path /= name
        if path.is_symlink():
            raise IndexDamagedError(
                f"{path} is a link, which is not followed.", hint="Remove the link, then run `retriever repair`."
            )
    return path


def sync_directory(folder: Path) -> None:
    """Flush a folder's entries, so that a rename in it survives a power loss (POSIX; elsewhere a no-op)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Make a folder and those above it that are missing, for their owner alone where ``private``.

    They survive a power loss.
    """
    missing = []
    while not folder.is_dir():
        if folder.exists():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        missing.append(folder)
        folder = folder.parent
    for made in reversed(missing):
        made.mkdir(mode=0o700 if private else 0o777, exist_ok=True)
        sync_directory(made.parent)


@contextmanager
def writing(path: Path, option: str) -> Iterator[None]:
    """Tell in our words what keeps the block from writing a file that the user named.

    Raises:
        OutputError: path, reason and the option to change are named.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{path} cannot be written: {reason}.", hint=f"Choose another {option}.") from error


def write_output(path: Path, text: str, option: str) -> None:
    """Write a file that an option of the command line names, as it is; errors as `writing`."""
    with writing(path, option):
        path.write_text(text, encoding="utf-8", newline="")


def write_whole(path: Path, text: str) -> None:
    """Write a text file by way of a draft beside it, so that readers see the old or the new one."""
    with atomic_write(path) as file:
        file.write(text.encode())


@contextmanager
def atomic_write(target: Path, *, private: bool = True) -> Iterator[BinaryIO]:
    """Yield a file that becomes ``target``, on the disk, when the block ends well and vanishes when it does not.

    Args:
        target: replaced where it exists.
        private: whether the file is for its owner alone; otherwise its mode is that of any new file.
    """
    draft = target.with_name(f".{target.name}-{secrets.token_hex(4)}{DRAFT_SUFFIX}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_directory(target.parent)


@contextmanager
def new_folder(target: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield an empty folder that becomes ``target`` when the block ends well and vanishes when it does not.

    Args:
        target: must not exist.
        private: whether it is for its owner alone; otherwise its mode is that of the folder above it.
    """
    make_folder(target.parent)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield draft
        for path in draft.rglob("*"):
            if path.is_dir():
                sync_directory(path)
            else:
                with path.open("rb+") as file:
                    os.fsync(file.fileno())
        sync_directory(draft)
        if not private:
            draft.chmod(target.parent.stat().st_mode & 0o777)  # mkdtemp's own mode shuts everyone else out
        draft.rename(target)
        sync_directory(target.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
