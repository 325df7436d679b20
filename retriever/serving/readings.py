"""Searches that read on in the background: equal ones once, those under one question of an index in turn."""

import secrets
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from retriever.core.errors import OverloadedError
from retriever.core.results import SearchResult
from retriever.serving.jobs import Job

KEPT = 64
"""Readings that are over and can still be asked for."""


@dataclass(eq=False, slots=True)
class Reading:
    """A search that reads on.

    Attributes:
        id: to ask for it by.
        job: the work; its result is the settled `SearchResult`.
        work: does it and returns also the revision of the index at its end.
        revision: of the index at its end; None before that, and where it failed.
        told: whether somebody was told of its error.
    """

    id: str
    job: Job
    work: Callable[[Job], tuple[SearchResult, int]]
    revision: int | None = None
    told: bool = False

    def run(self) -> None:
        """Do the work on this thread."""
        self.job.run(self._read)

    def _read(self, job: Job) -> SearchResult:
        job.check()  # it may have been stopped while it waited
        result, self.revision = self.work(job)
        return result


class Readings:
    """Searches that read on, for all clients of a process; safe in all threads.

    Args:
        running: most that go on at a time.
        waiting: most that wait for their turn.
    """

    def __init__(self, *, running: int, waiting: int) -> None:
        self._most = running + waiting
        self._threads = ThreadPoolExecutor(running, thread_name_prefix="reading")
        self._lock = threading.Lock()
        self._known: dict[Hashable, Reading] = {}  # oldest first
        self._lines: dict[Hashable, deque[Reading]] = {}  # the first of each is under way or next

    def join(
        self, key: Hashable, line: Hashable, index: str, work: Callable[[Job], tuple[SearchResult, int]]
    ) -> Reading:
        """Return the reading of a key that is under way, whoever began it, or begin it.

        Args:
            key: tells the search from all others.
            line: what readings have in common that go one after the other.
            index: its name.
            work: gives the settled result and the index's revision at its end.

        Raises:
            OverloadedError: as many wait as may.
        """
        with self._lock:
            known = self._known.pop(key, None)
            if known is None or known.job.snapshot().over:
                unfinished = sum(map(len, self._lines.values()))
                if unfinished >= self._most:
                    raise OverloadedError(
                        f"{unfinished} searches wait for texts to be read under their questions, and no more may.",
                        hint="Ask again in a moment. Searches without a question, or under one that was read, go on.",
                    )
                known = Reading(secrets.token_hex(8), Job("A search", index), work)
                self._lines.setdefault(line, deque()).append(known)
                if len(self._lines[line]) == 1:
                    self._threads.submit(self._go_on, line)
            self._known[key] = known
            over = [other for other, reading in self._known.items() if reading.job.snapshot().over]
            for other in over[: max(0, len(over) - KEPT)]:
                del self._known[other]
            return known

    def known(self, key: Hashable) -> Reading | None:
        """Return the reading of a key, under way or over."""
        with self._lock:
            return self._known.get(key)

    def find(self, id: str) -> Reading | None:
        """Return the reading of an id, under way or over."""
        with self._lock:
            return next((reading for reading in self._known.values() if reading.id == id), None)

    def unfinished(self) -> list[Job]:
        """Return the jobs under way and waiting."""
        with self._lock:
            return [reading.job for line in self._lines.values() for reading in line]

    def _go_on(self, line: Hashable) -> None:
        """Do the first of a line, and see to it that the next is done."""
        with self._lock:
            reading = self._lines[line][0]
        reading.run()
        with self._lock:
            self._lines[line].popleft()
            if self._lines[line]:
                self._threads.submit(self._go_on, line)
            else:
                del self._lines[line]
