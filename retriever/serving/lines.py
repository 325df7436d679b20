"""Lines of jobs: those that write to one index go one after the other, in the order they came."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

from retriever.core.errors import IndexLockedError
from retriever.serving.jobs import Job, Waiting, current_job

LOCK_SECONDS = 30.0
"""That a job in its turn tries for the writer's lock of an index which another process holds."""

_PAUSE = 0.5  # seconds between two tries
_ANOTHER_PROCESS = "another program that writes to the index"


class Line:
    """Jobs of this process that write to one index, one at a time in the order they came. Safe in all threads.

    A job whose whole work is to write is in the line from its beginning to its end (`retriever.serving.jobs.Jobs.start`
    with its line); any other while it holds the writer's lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()  # the first has its turn

    @property
    def busy(self) -> bool:
        """Whether the next job would wait."""
        with self._lock:
            return bool(self._jobs)

    def join(self, job: Job) -> bool:
        """Put a job at the end, unless it is in the line; return whether it was put there."""
        with self._lock:
            if job in self._jobs:
                return False
            if self._jobs:
                job.hold(partial(self._place, job))
            else:
                job.go_on()
            self._jobs.append(job)
            return True

    def leave(self, job: Job) -> None:
        """Take a job out; where it had its turn, the next one goes on."""
        with self._lock:
            had_turn = self._jobs[0] is job
            self._jobs.remove(job)
            if had_turn and self._jobs:
                self._jobs[0].go_on()

    @contextmanager
    def holding(self, lock: AbstractContextManager[object]) -> Iterator[None]:
        """Hold an index's writer's lock: on the thread of a job in its turn, on any other without waiting.

        Raises:
            IndexLockedError: another process holds it, for longer than a job tries.
            Stopped: the job was stopped while it waited.
        """
        job = current_job()
        with ExitStack() as stack:
            if job is None:
                stack.enter_context(lock)
            else:
                if self.join(job):
                    stack.callback(self.leave, job)
                job.wait_turn()
                job.check()
                _enter(lock, job, stack)
            yield

    def _place(self, job: Job) -> Waiting | None:
        with self._lock:
            place = self._jobs.index(job) if job in self._jobs else 0
            return Waiting(self._jobs[0].title, place) if place else None


def _enter(lock: AbstractContextManager[object], job: Job, stack: ExitStack) -> None:
    """Enter a writer's lock until a stack is left, trying again where another process holds it."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            stack.enter_context(lock)
        except IndexLockedError:
            if time.monotonic() > until:
                raise
            job.hold(lambda: Waiting(_ANOTHER_PROCESS))
            job.wait_turn(_PAUSE)
            job.check()
        else:
            job.go_on()
            return
