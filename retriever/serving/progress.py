"""How far an indexing is, as a job tells it."""

from collections.abc import Callable

from retriever.core.results import IndexingReport
from retriever.serving.jobs import Job


def indexing_progress(job: Job) -> Callable[[IndexingReport], None]:
    """Return what tells a job how far a run is, and ends the run when the job is stopped."""

    def told(report: IndexingReport) -> None:
        job.tell({"done": report.in_hand, "total": report.expected, "tokens": report.tokens})
        job.check()

    return told
