"""Where things live outside an index, and how a folder is put in place whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_dir() -> Path:
    """Return the folder for derived model files: RETRIEVER_CACHE, else the XDG cache folder."""
    if override := os.environ.get("RETRIEVER_CACHE"):
        return Path(override).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retriever"


def sync_directory(folder: Path) -> None:
    """Flush a folder's entries, so that a rename in it survives a power loss (POSIX; elsewhere a no-op)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes ``target`` when the block ends well and vanishes when it does not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield draft
        for path in draft.rglob("*"):
            if path.is_file():
                with path.open("rb+") as file:
                    os.fsync(file.fileno())
        draft.chmod(target.parent.stat().st_mode & 0o777)  # mkdtemp's own mode shuts everyone else out
        draft.rename(target)
        sync_directory(target.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
