"""Pools of workers: pieces are sent to them by name, what became of each comes back, and workers that die are replaced.

Why the pools of `concurrent.futures` and of Ray do not serve here: docs/decisions/workers.md.
"""

import itertools
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from retriever.core.errors import RetrieverError
from retriever.index.workers.worker import OUT_OF_MEMORY, error_from_json

POOLS: Mapping[str, str] = {
    "processes": "retriever.index.workers.processes:ProcessPool",
    "ray": "retriever.index.workers.ray_pool:RayPool",
}
"""Kinds of workers, ``module:class``; made by ``(count, address, settings)``: how many, where, and how they work."""

IN_FLIGHT = 2
"""Most pieces a worker has at once, so that it need not wait for the next."""

_STARTS = 3  # workers in a row that end before they are ready
_MANY_CORES = 4  # with more, one is left to the process that reads, counts and stores


@dataclass(frozen=True, slots=True)
class Event:
    """A worker is ready, has done a piece, raised an error, or has ended.

    Attributes:
        worker: its number.
        name: of the piece that is done, or that the worker was at when it ended.
        error: what was raised, as `error_to_json` writes it.
        how: how the worker ended.
    """

    worker: int
    event: Literal["ready", "done", "failed", "ended"]
    name: str = ""
    error: Mapping[str, str] | None = None
    how: str = ""


class Pool(ABC):
    """So many workers of one kind, which its subclass starts and reaches by their numbers."""

    def __init__(self, count: int) -> None:
        self._pieces: dict[int, deque[str]] = {}  # sent to each worker, in the order it takes them
        self._ready: set[int] = set()
        self._again: deque[str] = deque()  # sent to a worker that died before it came to them
        self._unready = 0  # workers in a row that ended before they were ready
        self._numbers = itertools.count()
        for _ in range(count):
            self._add()

    def room(self) -> bool:
        """Whether a worker can take another piece now."""
        return any(len(self._pieces[worker]) < IN_FLIGHT for worker in self._ready)

    def send(self, name: str) -> None:
        """Have a piece of the spool embedded by the worker that has least to do; there is room for it."""
        worker = min(self._ready, key=lambda ready: len(self._pieces[ready]))
        self._pieces[worker].append(name)
        self._request(worker, name)

    def wait(self) -> Event | None:
        """Wait until something happened; return the event of a piece, done or ended with the worker that was at it.

        None means that there only is more room.

        Raises:
            RetrieverError: what a worker raised, or no worker can work.
        """
        event = self._next()
        settled = self._settle(event) if event.worker in self._pieces else None
        while self._again and self.room():
            self.send(self._again.popleft())
        return settled

    @abstractmethod
    def close(self, *, kill: bool) -> None:
        """End the workers, at once or after what they are at."""

    @abstractmethod
    def _start(self, worker: int) -> None:
        """Start a worker of that number; its event ``ready`` follows."""

    @abstractmethod
    def _request(self, worker: int, name: str) -> None:
        """Have a worker embed a piece after those it has."""

    @abstractmethod
    def _stop(self, worker: int) -> None:
        """End a worker at once and forget it; it may have ended already."""

    @abstractmethod
    def _next(self) -> Event:
        """Wait for the next event; one of a worker that was stopped may still come."""

    def _add(self) -> None:
        worker = next(self._numbers)
        self._pieces[worker] = deque()
        self._start(worker)

    def _settle(self, event: Event) -> Event | None:
        match event.event:
            case "ready":
                self._ready.add(event.worker)
                self._unready = 0
                return None
            case "done":
                self._pieces[event.worker].remove(event.name)
                return event
            case "failed":
                raise error_from_json(event.error or {})
            case "ended":
                return self._replace(event.worker, _explained(event.how))

    def _replace(self, worker: int, how: str) -> Event | None:
        """Replace a worker that died; the piece it was at is blamed, those behind it are sent anew."""
        pieces = self._pieces.pop(worker)
        self._stop(worker)
        self._unready += worker not in self._ready
        self._ready.discard(worker)
        if self._unready == _STARTS:
            raise RetrieverError(
                f"{_STARTS} workers in a row ended before they had loaded the model ({how}).",
                hint="Give fewer --workers if memory is short, or run it without.",
            )
        blamed = Event(worker, "ended", pieces.popleft(), how=how) if pieces else None
        self._again.extend(pieces)
        self._add()
        return blamed


def cores() -> int:
    """Return the cores of this machine that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shared(cores: int) -> int:
    """Return how many cores of a machine its workers share: all, or of many all but one."""
    return cores - 1 if cores > _MANY_CORES else cores


def _explained(how: str) -> str:
    if how == f"exit code {OUT_OF_MEMORY}":
        return "it ran out of memory"
    return f"{how}, as the system does when memory is short" if how == "signal 9" else how
