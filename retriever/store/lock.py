"""The writer's lock of an index. The operating system holds it, so it ends with its process, however that ends."""

import json
import os
import shlex
import socket
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from retriever.core.errors import IndexLockedError, RetrieverError
from retriever.core.paths import make_folder
from retriever.store.connection import utc_now


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who holds a lock, as told to whoever wants it too."""

    pid: int
    host: str
    command: str
    started: str


LOCK_NAME = "writer.lock"
"""The lock's name inside an index's folder."""

_PATIENCE = 0.5  # seconds to try for: whoever asks whether the lock is held has it for a moment


class WriterLock:
    """A context manager that one process at a time can enter; it waits for no other writer.

    The holder is described in a file beside the lock, for messages alone: a description left behind by a process that
    died locks nobody out.

    Args:
        path: the lock file; made when missing, its folder too, and left in place.

    Raises:
        IndexLockedError: on entering, while another process or another `WriterLock` of this one holds it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._description = path.with_name(f"{path.name}.json")
        self._lock = FileLock(path, timeout=_PATIENCE, poll_interval=_PATIENCE / 25, mode=0o600)

    def __enter__(self) -> "WriterLock":
        try:
            make_folder(self._path.parent, private=True)
            self._lock.acquire()
        except Timeout:
            raise self._refusal() from None
        except OSError as error:
            raise RetrieverError(
                f"{self._path} cannot be locked: {error}.", hint="Check the permissions of its folder."
            ) from error
        with suppress(OSError):  # the lock holds without its description
            self._describe()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # a description left behind locks nobody out
            self._description.unlink(missing_ok=True)
        self._lock.release()

    def is_held(self) -> bool:
        """Whether somebody holds the lock now; where that cannot be found out, as in a folder that forbids it, not."""
        if not self._path.exists():
            return False
        try:
            with self._lock.acquire(timeout=0):
                return False
        except Timeout:
            return True
        except OSError:
            return False

    def holder(self) -> LockHolder | None:
        """Return who last described itself as the holder, or None."""
        with suppress(OSError, ValueError, TypeError):
            return LockHolder(**json.loads(self._description.read_text(encoding="utf-8")))
        return None

    def _describe(self) -> None:
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        holder = LockHolder(os.getpid(), socket.gethostname(), command, utc_now())
        fresh = self._description.with_name(f"{self._description.name}.{holder.pid}")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(asdict(holder)), encoding="utf-8")
        fresh.replace(self._description)

    def _refusal(self) -> IndexLockedError:
        holder = self.holder()
        if holder is None:
            return IndexLockedError(
                f"Another process is writing to {self._path.parent}.", hint="Run the command again when it has ended."
            )
        return IndexLockedError(
            f"Process {holder.pid} on {holder.host} is writing to {self._path.parent} since {holder.started}: "
            f"{holder.command}",
            hint=f"\nWait for it, or stop it with `kill {holder.pid}`: what it stored is kept, and the same command "
            "again does the rest.",
        )
