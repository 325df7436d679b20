import threading
from contextlib import contextmanager

import pytest
from waiting import until

from retriever.core.errors import IndexLockedError, RetrieverError
from retriever.serving import lines
from retriever.serving.jobs import Jobs, Waiting
from retriever.serving.lines import Line

WAIT = 120  # seconds; a busy machine


class Lock:
    """A writer's lock that another process holds the first ``refusals`` times."""

    def __init__(self, refusals=0):
        self.refusals = refusals
        self.refused, self.held = threading.Event(), False

    def __enter__(self):
        if self.refusals:
            self.refusals -= 1
            self.refused.set()
            raise IndexLockedError("Another process is writing.", hint="Wait.")
        assert not self.held
        self.held = True

    def __exit__(self, *_):
        self.held = False


@pytest.fixture
def jobs():
    return Jobs()


@pytest.fixture
def line():
    return Line()


@contextmanager
def writing(jobs, line):
    """A job that has its turn until the block ends."""
    began, go = threading.Event(), threading.Event()
    job = jobs.start("first", "Adding documents", lambda job: began.set() or go.wait(WAIT), line=line)
    assert began.wait(WAIT)
    yield job
    go.set()
    assert job.wait(WAIT).status == "done"


def test_jobs_of_a_line_go_in_the_order_they_came_and_say_what_they_wait_for(jobs, line):
    done = []
    with writing(jobs, line):
        others = [jobs.start(f"n{n}", "Deleting", lambda job, n=n: done.append(n), line=line) for n in range(5)]
        now = [job.snapshot() for job in others]
        assert {one.status for one in now} == {"waiting"}
        assert [one.waiting for one in now] == [Waiting("Adding documents", place) for place in range(1, 6)]
        assert line.busy
    assert [job.wait(WAIT).status for job in others] == ["done"] * 5
    assert [job.snapshot().waiting for job in others] == [None] * 5
    assert done == [0, 1, 2, 3, 4]


def test_a_job_that_waits_is_over_as_soon_as_it_is_stopped_and_does_nothing(jobs, line):
    done = []
    with writing(jobs, line):
        second = jobs.start("second", "Deleting", lambda job: done.append(2), line=line)
        third = jobs.start("third", "Deleting", lambda job: done.append(3), line=line)
        second.stop()
        assert second.snapshot().status == "stopped"
        assert third.snapshot().status == "waiting"
    assert third.wait(WAIT).status == "done"
    assert done == [3]


def test_a_job_that_fails_lets_the_next_one_go_on(jobs, line):
    def failing(job):
        raise RetrieverError("Full.", hint="Make room.")

    with writing(jobs, line):
        second = jobs.start("second", "Deleting", failing, line=line)
        third = jobs.start("third", "Deleting", lambda job: 3, line=line)
    assert second.wait(WAIT).status == "failed"
    assert third.wait(WAIT).result == 3


def test_a_job_that_writes_in_between_waits_only_while_it_wants_to_write(jobs, line):
    lock, reached, go = Lock(), threading.Event(), threading.Event()

    def work(job):
        reached.set()
        with line.holding(lock):
            assert lock.held
        assert not line.busy  # others may write while it computes
        return go.wait(WAIT)

    with writing(jobs, line):
        job = jobs.start("groups", "Clustering", work)
        assert reached.wait(WAIT)
        until(lambda: job.snapshot().status == "waiting")
        assert job.snapshot().waiting == Waiting("Adding documents", 1)
    go.set()
    assert job.wait(WAIT).status == "done"


def test_a_job_stopped_in_the_middle_while_it_waits_ends_and_leaves_the_line(jobs, line):
    def work(job):
        with line.holding(Lock()):
            raise AssertionError("it had no turn")

    with writing(jobs, line):
        job = jobs.start("groups", "Clustering", work)
        until(lambda: job.snapshot().status == "waiting")
        job.stop()
        assert job.wait(WAIT).status == "stopped"
    assert not line.busy


def test_a_job_of_the_line_takes_the_lock_as_often_as_it_likes(jobs, line):
    lock = Lock()

    def work(job):
        for _ in range(2):
            with line.holding(lock):
                assert line.busy
        return line.busy

    assert jobs.start("edit", "Changes", work, line=line).wait(WAIT).result is True
    until(lambda: not line.busy)  # its thread ends


def test_a_job_tries_again_while_another_process_writes(jobs, line, monkeypatch):
    monkeypatch.setattr(lines, "_PAUSE", 0.01)
    lock = Lock(refusals=3)

    def work(job):
        with line.holding(lock):
            return job.snapshot().status

    assert jobs.start("a", "Adding", work, line=line).wait(WAIT).result == "running"
    assert lock.refusals == 0


def test_a_job_says_that_another_process_writes_and_fails_when_that_takes_too_long(jobs, line, monkeypatch):
    lock = Lock(refusals=1_000_000)

    def work(job):
        with line.holding(lock):
            raise AssertionError("it is not held")

    job = jobs.start("a", "Adding", work, line=line)
    assert lock.refused.wait(WAIT)
    until(lambda: job.snapshot().status == "waiting")
    assert job.snapshot().waiting == Waiting("another program that writes to the index", 1)
    job.stop()
    assert job.wait(WAIT).status == "stopped"
    monkeypatch.setattr(lines, "LOCK_SECONDS", 0)
    monkeypatch.setattr(lines, "_PAUSE", 0.01)
    ended = jobs.start("a", "Adding", work, line=line).wait(WAIT)
    assert (ended.status, type(ended.error)) == ("failed", IndexLockedError)


def test_who_writes_without_a_job_is_refused_at_once(line):
    with pytest.raises(IndexLockedError), line.holding(Lock(refusals=1)):
        pass
    with line.holding(lock := Lock()):
        assert lock.held
    assert not line.busy
