"""Workers under one roof: pieces are sent to them by name, and what became of each comes back."""

import os
import queue
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from retriever.core.errors import RetrieverError
from retriever.index.workers.child import Child, Message
from retriever.index.workers.worker import OUT_OF_MEMORY, WorkerSettings, raised

IN_FLIGHT = 2
"""Most pieces a worker has at once, so that it need not wait for the next."""

_STARTS = 3  # workers in a row that end before they are ready
_MANY_CORES = 4  # with more, one is left to whoever reads, counts and stores


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a piece.

    Attributes:
        name: of the piece.
        tokens: that were read, where it was embedded.
        died: how the worker ended that was at it; empty where it was embedded.
    """

    name: str
    tokens: int = 0
    died: str = ""


class Pool(Protocol):
    """Workers."""

    def room(self) -> bool:
        """Whether a worker can take another piece now."""
        ...

    def send(self, name: str) -> None:
        """Have a piece of the ledger embedded."""
        ...

    def wait(self) -> list[Outcome]:
        """Wait until something happened, and return what became of pieces; with room for more, there may be none.

        Raises:
            RetrieverError: what a worker raised, or no worker can work.
        """
        ...

    def close(self, *, kill: bool) -> None:
        """End the workers, at once or after what they are at."""
        ...


def cores() -> int:
    """Return the cores of this machine that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shared(cores: int) -> int:
    """Return how many cores of a machine its workers share: all, or of many all but one."""
    return cores - 1 if cores > _MANY_CORES else cores


@dataclass(eq=False, slots=True)
class _Process:
    """One worker's process, whether it is ready, and the pieces sent to it, in the order it takes them."""

    child: Child
    ready: bool = False
    at: deque[str] = field(default_factory=deque)


class ProcessPool:
    """Workers as processes of this machine; one that dies is replaced.

    Args:
        count: how many.
        settings: of each.
    """

    def __init__(self, count: int, settings: WorkerSettings) -> None:
        self._settings = settings
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._unready = 0
        self._again: deque[str] = deque()  # sent to a worker that died before it came to them
        self._processes: list[_Process] = []
        for _ in range(count):
            self._start()

    @property
    def pids(self) -> list[int]:
        """The workers' process numbers."""
        return [one.child.pid for one in self._processes]

    def room(self) -> bool:
        """Whether a worker can take another piece now."""
        return self._free() is not None

    def send(self, name: str) -> None:
        """Have a piece embedded by the worker that has least to do."""
        free = self._free()
        if free is None:
            self._again.append(name)
            return
        free.at.append(name)
        free.child.send({"name": name})

    def wait(self) -> list[Outcome]:
        """Wait for the next message; see `Pool.wait`."""
        message = self._inbox.get()
        process = next((one for one in self._processes if one.child is message.child), None)
        if process is None:  # the last words of one that was replaced
            return []
        if message.said is None:
            found = self._ended(process)
        elif message.said["event"] == "ready":
            process.ready, self._unready, found = True, 0, []
        elif message.said["event"] == "done":
            process.at.remove(message.said["name"])
            found = [Outcome(message.said["name"], message.said["tokens"])]
        else:
            raise raised(message.said["error"])
        while self._again and self.room():
            self.send(self._again.popleft())
        return found

    def close(self, *, kill: bool) -> None:
        """End the workers; see `Pool.close`."""
        for one in self._processes:
            one.child.close(kill=kill)
        self._processes.clear()

    def _start(self) -> None:
        child = Child(
            "retriever.index.workers.process_worker", self._settings.to_json(), self._inbox, self._settings.threads
        )
        self._processes.append(_Process(child))

    def _free(self) -> _Process | None:
        """Return the ready worker that has least to do, if one can take more."""
        able = [one for one in self._processes if one.ready and len(one.at) < IN_FLIGHT]
        return min(able, key=lambda one: len(one.at), default=None)

    def _ended(self, process: _Process) -> list[Outcome]:
        """Replace a worker that died; the piece it was at is told, those behind it are sent anew."""
        how = died(process.child.how_it_ended())
        process.child.close(kill=True)
        self._processes.remove(process)
        if not process.ready:
            self._unready += 1
            if self._unready == _STARTS:
                raise no_start(how)
        blamed = [Outcome(process.at.popleft(), died=how)] if process.at else []
        self._again.extend(process.at)
        self._start()
        return blamed


class RayPool:
    """Workers as Ray's actors; Ray is spoken to by a process of its own, which ends with its node, and alone.

    Args:
        start: gives the process of `retriever.index.workers.ray_driver`, with the inbox for its messages.
    """

    def __init__(self, start: Callable[["queue.SimpleQueue[Message]"], Child]) -> None:
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._driver = start(self._inbox)
        self._workers = self._sent = 0

    @property
    def pids(self) -> list[int]:
        """The process number of Ray's driver."""
        return [self._driver.pid]

    def room(self) -> bool:
        """Whether an actor can take another piece now."""
        return self._sent < IN_FLIGHT * self._workers

    def send(self, name: str) -> None:
        """Have a piece embedded."""
        self._sent += 1
        self._driver.send({"name": name})

    def wait(self) -> list[Outcome]:
        """Wait for the next message; see `Pool.wait`."""
        said = self._inbox.get().said
        if said is None:
            raise RetrieverError(
                f"Ray has ended ({self._driver.how_it_ended()}).",
                hint="What was embedded is kept: run the same command again, with --ray or without.",
            )
        match said["event"]:
            case "workers":
                self._workers = said["count"]
                return []
            case "done":
                self._sent -= 1
                return [Outcome(said["name"], said["tokens"])]
            case "died":
                self._sent -= 1
                return [Outcome(said["name"], died=died(said["how"]))]
            case "unfit":
                raise no_start(said["how"])
        raise raised(said["error"])

    def close(self, *, kill: bool) -> None:
        """End Ray's driver, and with it a Ray that it started; see `Pool.close`."""
        self._driver.send({"stop": True})
        self._driver.close(kill=False)


def died(how: str) -> str:
    """Return how a worker ended, with what that means."""
    if how == f"exit code {OUT_OF_MEMORY}":
        return "it ran out of memory"
    return f"{how}, as the system does when memory is short" if how == "signal 9" else how


def no_start(how: str) -> RetrieverError:
    """Return the error for workers that end before they are ready."""
    return RetrieverError(
        f"{_STARTS} workers in a row ended before they had loaded the model ({how}).",
        hint="Give fewer --workers if memory is short, or run it without.",
    )
