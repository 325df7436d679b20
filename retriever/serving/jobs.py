"""Background work: a thread a job, with progress, waiting, cancelling, result and error.

A job outlives the request or page that began it. Everything here may be called from any thread. Work that has to
outlive the server itself, as a training does, is a process and no job.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from retriever.core.errors import RetrieverError
from retriever.core.results import IndexingReport

if TYPE_CHECKING:
    from retriever.serving.lines import Line

Status = Literal["waiting", "running", "stopping", "done", "stopped", "failed"]
Work = Callable[["Job"], Any]

_LOG = logging.getLogger(__name__)


class Stopped(KeyboardInterrupt):
    """Somebody stopped the job."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The reason why a job waits.

    Attributes:
        behind: the work that is under way in its place.
        place: in the line; 1 is next.
    """

    behind: str
    place: int = 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job as it is now.

    Attributes:
        status: how it stands; ``stopping`` until the work has come to a place where it can end.
        seconds: how long it has run, or ran, what it waited included.
        idle: seconds since it is over; 0 before that.
        waiting: what it waits for; None unless its status is ``waiting``.
        progress: what the work last told; None before that.
        result: what the work returned; None before that.
    """

    status: Status
    seconds: float = 0.0
    progress: Any = None
    result: Any = None
    error: BaseException | None = None
    idle: float = 0.0
    waiting: Waiting | None = None

    @property
    def over(self) -> bool:
        """Whether the thread has ended."""
        return self.status in ("done", "stopped", "failed")


@dataclass(eq=False)
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
    _moved: threading.Event = field(default_factory=threading.Event)
    _place: Callable[[], Waiting | None] | None = None
    _begun: bool = False

    def snapshot(self) -> Snapshot:
        """Describe the current state of the job."""
        with self._lock:
            since = time.monotonic() - self._started
            seconds = self._state.seconds if self._state.over else since
            state, place = replace(self._state, seconds=seconds, idle=since - seconds), self._place
        if place is None:
            return state
        waiting = place()  # without the lock: places are told under locks of their own
        return replace(state, status="running") if waiting is None else replace(state, waiting=waiting)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._over.is_set()

    def hold(self, place: Callable[[], Waiting | None]) -> None:
        """Have the job wait until `go_on`; ``place`` tells what for, None once it waits no more."""
        with self._lock:
            if self._state.status == "running":
                self._moved.clear()
                self._place, self._state = place, replace(self._state, status="waiting")

    def go_on(self) -> None:
        """Let a job that waits go on."""
        with self._lock:
            if self._state.status == "waiting":
                self._place, self._state = None, replace(self._state, status="running")
            self._moved.set()

    def wait_turn(self, seconds: float | None = None) -> None:
        """Wait on the job's own thread until it may go on, or is stopped, or so long."""
        self._moved.wait(seconds)

    def tell(self, progress: object) -> None:
        """Say how far the work is; the value must not change afterwards."""
        with self._lock:
            self._state = replace(self._state, progress=progress)
        self._told.set()

    def stop(self) -> None:
        """Ask the work to end: where it next calls `check`, or at once where it waits."""
        with self._lock:
            if self._state.status == "waiting" and not self._begun:
                self._end("stopped")
            elif self._state.status in ("waiting", "running"):
                self._place, self._state = None, replace(self._state, status="stopping")
            self._moved.set()

    def check(self) -> None:
        """Raise `Stopped` if the user asked for it; the work calls this where it can end."""
        with self._lock:
            if self._state.status == "stopping":
                raise Stopped

    def follow(self, report: IndexingReport) -> None:
        """Tell how far an indexing run is and its seconds left, and raise `Stopped` if the user asked for it."""
        left = None if report.left is None else round(report.left, 1)
        self.tell({"done": report.in_hand, "total": report.expected, "tokens": report.tokens, "left": left})
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
        """Do the work on this thread, unless it was stopped before.

        An error that is none of ours goes to the log too, with its traceback.
        """
        with self._lock:
            if self._state.over:
                return
            self._begun = True
        token = _CURRENT.set(self)
        ending: dict[str, Any] = {"status": "done"}
        try:
            ending["result"] = work(self)
        except Stopped:
            ending["status"] = "stopped"
        except BaseException as error:  # a library's panic is no Exception; nothing is above this but the thread's end
            if not isinstance(error, RetrieverError):
                _LOG.error("%s failed", self.title, exc_info=error)
            # Its frames would hold what the work was about, an open index say, for as long as the job is kept.
            ending |= {"status": "failed", "error": error.with_traceback(None)}
        finally:
            _CURRENT.reset(token)
        with self._lock:
            self._end(**ending)

    def _end(self, status: Status, *, result: object = None, error: BaseException | None = None) -> None:
        """Be over; the caller holds the lock."""
        seconds = time.monotonic() - self._started
        self._place = None
        self._state = replace(self._state, status=status, seconds=seconds, result=result, error=error)
        self._over.set()
        self._told.set()


_CURRENT: ContextVar[Job | None] = ContextVar("job", default=None)


def current_job() -> Job | None:
    """Return the job that this thread does the work of; None on any other thread."""
    return _CURRENT.get()


class Jobs:
    """Jobs by name: one a name, kept after its end until it is forgotten or another takes its place."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def begin(self, title: str, work: Work) -> Job:
        """Begin a job without a name, which only the caller knows: its result goes when the caller lets go of it."""
        return _begun(title, work)

    def start(
        self,
        name: str,
        title: str,
        work: Work,
        *,
        about: object = None,
        alone: str = "",
        line: "Line | None" = None,
    ) -> Job:
        """Begin a job and keep it under a name.

        The work is given the job, to tell its progress and to learn whether it is stopped; ``about`` says what it works
        on, for whoever began it. Of the names that begin with ``alone``, such as ``diagnose``, one job runs at a time;
        empty, it is this name alone. In a ``line`` it begins when its turn has come.

        Raises:
            RetrieverError: the job of that name, or one of that prefix, still runs.
        """
        with self._lock:
            rivals = [job for other, job in self._jobs.items() if other == name or (alone and other.startswith(alone))]
            running = next((job for job in rivals if not job.over), None)
            if running is not None:
                raise RetrieverError(f"{running.title} is still going on.", hint="Wait for it, or stop it first.")
            job = self._jobs[name] = _begun(title, work, about, line)
            return job

    def join(self, name: str, title: str, work: Work) -> Job:
        """Return the job of a name that still runs, whoever began it, or begin it."""
        with self._lock:
            job = self._jobs.get(name)
            if job is None or job.over:
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

    @property
    def idle(self) -> bool:
        """Whether all jobs with a name are over."""
        with self._lock:
            return all(job.over for job in self._jobs.values())

    def forget(self, name: str) -> None:
        """Drop a job that is over."""
        with self._lock:
            job = self._jobs.get(name)
            if job is not None and job.over:
                del self._jobs[name]


def _begun(title: str, work: Work, about: object = None, line: "Line | None" = None) -> Job:
    job = Job(title, about)
    if line is not None:
        line.join(job)
    threading.Thread(target=_run, args=(job, work, line), name=title, daemon=True).start()
    return job


def _run(job: Job, work: Work, line: "Line | None") -> None:
    if line is None:
        job.run(work)
        return
    job.wait_turn()
    job.run(work)
    line.leave(job)
