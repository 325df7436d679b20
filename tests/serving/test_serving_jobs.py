import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from retriever.core.errors import RetrieverError
from retriever.core.results import IndexingReport
from retriever.serving.jobs import Jobs

WAIT = 120  # seconds; a busy machine


@pytest.fixture
def jobs():
    return Jobs()


def test_a_job_tells_its_progress_and_its_result(jobs):
    told, go = threading.Event(), threading.Event()

    def work(job):
        job.tell(3)
        told.set()
        go.wait(WAIT)
        return "found"

    job = jobs.start("a", "Indexing", work)
    told.wait(WAIT)
    assert (job.snapshot().status, job.snapshot().progress) == ("running", 3)
    go.set()
    ended = job.wait(WAIT)
    assert (ended.status, ended.result, ended.over) == ("done", "found", True)
    assert ended.seconds == job.snapshot().seconds


@pytest.mark.parametrize("left", [None, 41.26])
def test_a_job_tells_how_far_an_indexing_run_is_and_how_long_the_rest_takes(jobs, left):
    report = IndexingReport(in_hand=30, expected=224, tokens=900, left=left)
    told = jobs.start("a", "Indexing", lambda job: job.follow(report)).wait(WAIT).progress
    assert told == {"done": 30, "total": 224, "tokens": 900, "left": None if left is None else 41.3}


def test_a_job_stops_where_it_checks(jobs):
    go = threading.Event()
    steps = []

    def work(job):
        for step in range(3):
            job.check()
            steps.append(step)
            go.wait(WAIT)

    job = jobs.start("a", "Indexing", work)
    job.stop()
    assert job.snapshot().status == "stopping"
    go.set()
    assert job.wait(WAIT).status == "stopped"
    assert len(steps) < 3


def failing(error):
    def work(job):
        raise error

    return work


class Panic(BaseException):
    """As a library in Rust raises it."""


@pytest.mark.parametrize("error", [ValueError("no such file"), Panic("no such file")], ids=["error", "panic"])
def test_an_error_is_kept(jobs, error):
    ended = jobs.start("a", "Indexing", failing(error)).wait(WAIT)
    assert (ended.status, ended.error) == ("failed", error)


def test_a_job_that_runs_is_joined(jobs):
    go = threading.Event()
    first = jobs.join("a", "Clustering", lambda job: go.wait(WAIT))
    assert jobs.join("a", "Clustering", lambda job: None) is first
    go.set()
    first.wait(WAIT)
    assert jobs.join("a", "Clustering", lambda job: 2).wait(WAIT).result == 2


def test_one_job_a_name_at_a_time(jobs):
    go = threading.Event()
    first = jobs.start("a", "Indexing reviews", lambda job: go.wait(WAIT))
    with pytest.raises(RetrieverError, match="Indexing reviews is still going on"):
        jobs.start("a", "Again", lambda job: None)
    jobs.start("b", "Other", lambda job: None).wait(WAIT)
    jobs.forget("a")
    assert jobs.find("a") is first
    go.set()
    first.wait(WAIT)
    assert jobs.start("a", "Again", lambda job: 2).wait(WAIT).result == 2
    jobs.forget("a")
    assert jobs.find("a") is None
    assert list(jobs.named("b")) == ["b"]


def test_of_jobs_that_go_alone_one_runs_at_a_time_whatever_its_name(jobs):
    go = threading.Event()
    first = jobs.start("look a", "The look", lambda job: go.wait(WAIT), alone="look ")
    with pytest.raises(RetrieverError, match="The look is still going on"):
        jobs.start("look b", "Another look", lambda job: None, alone="look ")
    jobs.start("find", "Finding", lambda job: None, alone="find").wait(WAIT)
    go.set()
    first.wait(WAIT)
    assert jobs.start("look b", "Another look", lambda job: 2, alone="look ").wait(WAIT).result == 2


def test_many_threads_that_start_the_same_job_start_one(jobs):
    go, together = threading.Event(), threading.Barrier(8)

    def start(_):
        together.wait(WAIT)
        try:
            return jobs.start("a", "Indexing", lambda job: go.wait(WAIT))
        except RetrieverError:
            return None

    with ThreadPoolExecutor(8) as threads:
        begun = [job for job in threads.map(start, range(8)) if job]
    assert len(begun) == 1
    go.set()
    begun[0].wait(WAIT)


def test_a_job_without_a_name_is_known_to_who_began_it_alone(jobs):
    job = jobs.begin("The search", lambda job: job.tell("first") or "last")
    assert job.wait_told(WAIT).progress == "first"
    assert job.wait(WAIT).result == "last"
    assert jobs.named("") == {}


def test_an_error_that_is_none_of_ours_is_logged(jobs, caplog):
    jobs.start("a", "Indexing", failing(ValueError("no such column"))).wait(WAIT)
    assert "Indexing failed" in caplog.text
    assert "Traceback" in caplog.text
    caplog.clear()
    jobs.start("b", "Indexing", failing(RetrieverError("Full.", hint="Make room."))).wait(WAIT)
    assert caplog.text == ""


def test_a_job_that_failed_holds_nothing_of_what_it_worked_on(jobs):
    class Index:
        """The subject of the work."""

    held = []

    def work(job):
        index = Index()
        held.append(weakref.ref(index))
        raise RetrieverError("Full.", hint="Make room.")

    assert jobs.start("a", "Indexing", work).wait(WAIT).error.message == "Full."
    assert held[0]() is None
