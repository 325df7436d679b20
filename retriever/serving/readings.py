"""Searches that read on in the background: equal ones once, those under one question of an index in turn."""

import secrets
import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial

from retriever.core.errors import OverloadedError
from retriever.core.results import SearchResult
from retriever.serving.jobs import Job, Waiting

KEPT = 64
"""Readings that are over and can still be asked for."""

_SAME_QUESTION, _OTHER_QUESTIONS = "a search under the same question", "searches under other questions"

Settle = Callable[[Job], tuple[SearchResult, int]]
"""Gives the settled answer to a search, and the revision of its index at the end."""


@dataclass(eq=False, slots=True)
class Reading:
    """A search that reads on.

    Attributes:
        id: to ask for it by.
        job: the work; its result is the settled `SearchResult`.
        revision: of the index at its end; None before that, and where it failed.
        told: whether somebody was told of its error.
    """

    id: str
    job: Job
    revision: int | None = None
    told: bool = False

    def run(self, settle: Settle) -> None:
        """Do the work on this thread."""

        def work(job: Job) -> SearchResult:
            job.check()  # it may have been stopped since its turn came
            result, self.revision = settle(job)
            return result

        self.job.run(work)


class Readings:
    """Searches that read on, for all clients of a process: so many at a time, others wait. Safe in all threads."""

    def __init__(self, *, running: int, waiting: int) -> None:
        self._most_running = running
        self._most = running + waiting
        self._lock = threading.Lock()
        self._known: dict[Hashable, Reading] = {}  # oldest first
        self._lines: dict[Hashable, deque[tuple[Reading, Settle]]] = {}  # the first of each is under way or next
        self._ready: deque[Hashable] = deque()  # lines of which none is under way
        self._running = 0

    def join(self, key: Hashable, line: Hashable, index: str, settle: Settle) -> Reading:
        """Return the reading of a key that is under way, whoever began it, or begin it, which is to ``settle``.

        A key tells the search from all others; readings of one line go one after the other.

        Raises:
            OverloadedError: as many wait as may.
        """
        with self._lock:
            known = self._known.get(key)
            if known is not None and not known.job.over:
                return known
            unfinished = len(self._unfinished())
            if unfinished >= self._most:
                raise OverloadedError(
                    f"{unfinished} searches wait for texts to be read under their questions, and no more may.",
                    hint="Ask again in a moment. Searches without a question, or under one that was read, go on.",
                )
            self._known.pop(key, None)
            reading = self._known[key] = Reading(secrets.token_hex(8), Job("A search", index))
            reading.job.hold(partial(self._place, reading, line))
            if line not in self._lines:
                self._lines[line] = deque()
                self._ready.append(line)
            self._lines[line].append((reading, settle))
            self._begin()
            over = [other for other, kept in self._known.items() if kept.job.over]
            for other in over[: max(0, len(over) - KEPT)]:
                del self._known[other]
            return reading

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
            return self._unfinished()

    def _unfinished(self) -> list[Job]:
        return [reading.job for line in self._lines.values() for reading, _ in line if not reading.job.over]

    def _place(self, reading: Reading, line: Hashable) -> Waiting | None:
        """Return what a reading waits for."""
        with self._lock:
            known = [other for other, _ in self._lines.get(line, ()) if not other.job.over or other is reading]
            if reading not in known:
                return None
            before = known.index(reading)
            if line not in self._ready:  # the first of the line is under way
                return Waiting(_SAME_QUESTION, before) if before else None
            return Waiting(_OTHER_QUESTIONS, self._ready.index(line) + 1 + before)

    def _begin(self) -> None:
        """Begin what is next, as far as more may go on; the caller holds the lock."""
        while self._ready and self._running < self._most_running:
            line = self._ready.popleft()
            waiting = self._lines[line]
            while waiting and waiting[0][0].job.over:  # it was stopped
                waiting.popleft()
            if not waiting:
                del self._lines[line]
                continue
            self._running += 1
            waiting[0][0].job.go_on()
            threading.Thread(target=self._read, args=(line,), name="reading", daemon=True).start()

    def _read(self, line: Hashable) -> None:
        """Do the first of a line, and put the line behind those that wait."""
        with self._lock:
            reading, settle = self._lines[line][0]
        reading.run(settle)
        with self._lock:
            self._running -= 1
            self._lines[line].popleft()
            if self._lines[line]:
                self._ready.append(line)
            else:
                del self._lines[line]
            self._begin()
