"""Background work: a thread a job, with progress, cancelling, result and error.

A job outlives the request or page that began it. Everything here may be called from any thread. Work that has to
outlive the server itself, as a training does, is a process and no job.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from retriever.core.errors import RetrieverError
from retriever.core.results import IndexingReport

Status = Literal["running", "stopping", "done", "stopped", "failed"]
Work = Callable[["Job"], Any]

_LOG = logging.getLogger(__name__)


class Stopped(KeyboardInterrupt):
    """Somebody stopped the job."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job as it is now.

    Attributes:
        status: how it stands; ``stopping`` until the work has come to a place where it can end.
        seconds: how long it has run, or ran.
        idle: seconds since it is over; 0 before that.
        progress: what the work last told; None before that.
        result: what the work returned; None before that.
    """

    status: Status
    seconds: float = 0.0
    progress: Any = None
    result: Any = None
    error: BaseException | None = None
    idle: float = 0.0

    @property
    def over(self) -> bool:
        """Whether the thread has ended."""
        return self.status in ("done", "stopped", "failed")


@dataclass
class Job:
    """One piece of work; its methods may be called from any thread.

    Attributes:
        title: what it does, for the user.
        about: what it works on, for whoever began it.
    """

    title: str
    about: object = None
    _state: Snapshot = field(default_factory=lambda: Snapshot("running"))
    _started: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _told: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)

    def snapshot(self) -> Snapshot:
        """Describe the current state of the job."""
        with self._lock:
            since = time.monotonic() - self._started
            seconds = self._state.seconds if self._state.over else since
            return replace(self._state, seconds=seconds, idle=since - seconds)

    def tell(self, progress: object) -> None:
        """Say how far the work is; the value must not change afterwards."""
        with self._lock:
            self._state = replace(self._state, progress=progress)
        self._told.set()

    def stop(self) -> None:
        """Ask the work to end; it ends where it next calls `check`."""
        with self._lock:
            if self._state.status == "running":
                self._state = replace(self._state, status="stopping")

    def check(self) -> None:
        """Raise `Stopped` if the user asked for it; the work calls this where it can end."""
        with self._lock:
            if self._state.status == "stopping":
                raise Stopped

    def follow(self, report: IndexingReport) -> None:
        """Tell how far an indexing run is, and raise `Stopped` if the user asked for it."""
        self.tell({"done": report.in_hand, "total": report.expected, "tokens": report.tokens})
        self.check()

    def wait(self, seconds: float | None = None) -> Snapshot:
        """Wait until the job is over, or so long, and return how it stands."""
        self._over.wait(seconds)
        return self.snapshot()

    def wait_told(self, seconds: float | None = None) -> Snapshot:
        """Wait until the work has told anything or is over, or so long, and return how it stands."""
        self._told.wait(seconds)
        return self.snapshot()

    def run(self, work: Work) -> None:
        """Do the work on this thread; an error that is none of ours goes to the log too, with its traceback."""
        try:
            result = work(self)
        except Stopped:
            self._end("stopped")
        except BaseException as error:  # a library's panic is no Exception; nothing is above this but the thread's end
            if not isinstance(error, RetrieverError):
                _LOG.error("%s failed", self.title, exc_info=error)
            # Its frames would hold what the work was about, an open index say, for as long as the job is kept.
            self._end("failed", error=error.with_traceback(None))
        else:
            self._end("done", result=result)

    def _end(self, status: Status, *, result: object = None, error: BaseException | None = None) -> None:
        with self._lock:
            seconds = time.monotonic() - self._started
            self._state = replace(self._state, status=status, seconds=seconds, result=result, error=error)
        self._over.set()
        self._told.set()


class Jobs:
    """Jobs by name: one a name, kept after its end until it is forgotten or another takes its place."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def begin(self, title: str, work: Work) -> Job:
        """Begin a job without a name, which only the caller knows: its result goes when the caller lets go of it."""
        return _begun(title, work)

    def start(self, name: str, title: str, work: Work, *, about: object = None, alone: str = "") -> Job:
        """Begin a job and keep it under a name.

        The work is given the job, to tell its progress and to learn whether it is stopped; ``about`` says what it works
        on, for whoever began it. Of the names that begin with ``alone``, such as ``diagnose``, one job runs at a time;
        empty, it is this name alone.

        Raises:
            RetrieverError: the job of that name, or one of that prefix, still runs.
        """
        with self._lock:
            rivals = [job for other, job in self._jobs.items() if other == name or (alone and other.startswith(alone))]
            running = next((job for job in rivals if not job.snapshot().over), None)
            if running is not None:
                raise RetrieverError(f"{running.title} is still going on.", hint="Wait for it, or stop it first.")
            job = self._jobs[name] = _begun(title, work, about)
            return job

    def join(self, name: str, title: str, work: Work) -> Job:
        """Return the job of a name that still runs, whoever began it, or begin it."""
        with self._lock:
            job = self._jobs.get(name)
            if job is None or job.snapshot().over:
                job = self._jobs[name] = _begun(title, work)
            return job

    def find(self, name: str) -> Job | None:
        """Return the job of a name, running or over."""
        with self._lock:
            return self._jobs.get(name)

    def named(self, prefix: str) -> dict[str, Job]:
        """Return the jobs whose names begin so, oldest first."""
        with self._lock:
            return {name: job for name, job in self._jobs.items() if name.startswith(prefix)}

    def forget(self, name: str) -> None:
        """Drop a job that is over."""
        with self._lock:
            job = self._jobs.get(name)
            if job is not None and job.snapshot().over:
                del self._jobs[name]


def _begun(title: str, work: Work, about: object = None) -> Job:
    job = Job(title, about)
    threading.Thread(target=job.run, args=(work,), name=title, daemon=True).start()
    return job
