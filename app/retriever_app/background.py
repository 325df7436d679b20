"""Work behind the pages: how far it is, how long it will take, and what users wait for.

The time that reading will take is estimated by the last reading of an index; nothing is assumed.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from retriever.core.results import IndexingReport, IndexStatus, OnIndexing
from retriever.core.text import about
from retriever.index.completing import judging_cost
from retriever.serving.foreground import Foreground
from retriever.serving.jobs import Job

LOADING = "Loading the model"
READING = "Reading the reviews under the question"
JUDGING = "Checking whether the model follows this question"

_LOOK_SECONDS = 0.1  # between looks
LEAST_TEXTS = 30  # of a run that tells how long a text takes


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is.

    Attributes:
        doing: what it does now, for the user.
        share: the part of the whole job that is done, 0 to 1; None where nobody knows.
        left: seconds that the rest takes; None where that is not measured yet.
    """

    doing: str
    share: float | None = None
    left: float | None = None

    @property
    def sentence(self) -> str:
        """The work at hand, and how long the rest takes."""
        if self.share is None:
            return f"{self.doing} …"
        return self.doing if self.left is None else f"{self.doing}, about {about(self.left)} left"


def reporting(
    job: Job,
    doing: str,
    check: Callable[[], object] | None = None,
    first: str = LOADING,
    last: str = "",
) -> OnIndexing:
    """Tell that a job begins, and return what tells how much of its work is done and how long the rest takes.

    Args:
        job: ends between two reports where it is stopped.
        doing: for the user.
        check: called at each report in place of the job's own.
        first: what it does before the first text is read.
        last: what it does after the last one; empty for nothing that takes time.
    """
    check = check or job.check
    job.tell(Progress(first))

    def report(done: IndexingReport) -> None:
        check()
        share = done.share
        if share is None:
            share = done.in_hand / done.expected if done.expected else 0.0
        if last and share >= 1:
            job.tell(Progress(last))
        elif share:
            read = f"{doing}, {done.in_hand:,} of {done.expected:,}" if done.expected else doing
            job.tell(Progress(JUDGING if done.judging else read, share, done.left))

    return report


def seconds_a_text(statuses: Iterable[IndexStatus], *, instruction: bool) -> float | None:
    """Return the seconds that a text took, under an instruction or as it is, the last time that enough were read.

    None where that was never measured in any of the indexes.
    """
    for status in statuses:
        cheap = {str(view.view) for view in status.views if status.plain is not None and not view.instruction}
        for run in status.runs:
            counts = run["statistics"]
            embedded = {str(view): number for view, number in counts.get("embedded", {}).items()}
            under = sum(number for view, number in embedded.items() if view not in cheap)
            texts = under if instruction else sum(embedded.values()) if not under else 0
            if texts >= LEAST_TEXTS and counts.get("seconds", 0):
                return float(counts["seconds"] / texts)
    return None


def expected_seconds(status: IndexStatus, texts: int, *, judged: bool) -> float | None:
    """Return the seconds that reading some texts of an index under an instruction takes; None where nobody knows.

    ``judged`` is whether it also checks whether the model follows the instruction.
    """
    rate = seconds_a_text([status], instruction=True)
    return None if rate is None else rate * (texts + judging_cost(judged))


def promise(seconds: float | None) -> str:
    """Return how long something takes as the end of a sentence; empty where nobody knows."""
    return "" if seconds is None else f", which takes about {about(seconds)}"


@contextmanager
def taking_turns(lock: threading.Lock, job: Job) -> Iterator[None]:
    """Hold a lock, and wait for it before that; a stopped job waits no longer."""
    while not lock.acquire(timeout=_LOOK_SECONDS):
        job.check()
    try:
        yield
    finally:
        lock.release()


FOREGROUND = Foreground()
"""The searches and clusterings of all sessions."""
