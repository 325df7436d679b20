import threading

import pytest

from retriever.core.errors import OverloadedError
from retriever.serving import readings
from retriever.serving.readings import Readings

WAIT = 120  # seconds; a busy machine


@pytest.fixture
def gate():
    """Readings of a number, which go on when their gate is opened."""
    opened = threading.Event()
    began = []

    def settle(number):
        def work(job):
            began.append(number)
            assert opened.wait(WAIT)
            job.check()
            return number, number

        return work

    settle.opened, settle.began = opened, began
    yield settle
    opened.set()


def test_equal_ones_are_done_once_and_those_of_a_line_in_turn(gate):
    shared = Readings(running=2, waiting=9)
    first = shared.join("a", "line", "reviews", gate(1))
    assert shared.join("a", "line", "reviews", gate(2)) is first
    second, other = shared.join("b", "line", "reviews", gate(3)), shared.join("c", "other", "reviews", gate(4))
    assert len(shared.unfinished()) == 3
    gate.opened.set()
    assert [each.job.wait(WAIT).result for each in (first, second, other)] == [1, 3, 4]
    assert [number for number in gate.began if number != 4] == [1, 3]
    assert (first.revision, shared.known("a"), shared.find(first.id)) == (1, first, first)
    assert shared.join("a", "line", "reviews", gate(5)).job.wait(WAIT).result == 5  # it was over


def test_no_more_go_on_or_wait_than_may(gate):
    shared = Readings(running=1, waiting=1)
    first, second = shared.join("a", "a", "reviews", gate(1)), shared.join("b", "b", "reviews", gate(2))
    with pytest.raises(OverloadedError, match="2 searches wait"):
        shared.join("c", "c", "reviews", gate(3))
    assert shared.join("b", "b", "reviews", gate(4)) is second
    second.job.stop()  # while it waits
    assert second.job.snapshot().status == "stopped"
    assert shared.unfinished() == [first.job]
    gate.opened.set()
    assert (first.job.wait(WAIT).result, second.job.wait(WAIT).status) == (1, "stopped")
    assert gate.began == [1]
    assert shared.join("c", "c", "reviews", gate(5)).job.wait(WAIT).result == 5


def test_those_that_wait_say_for_what_and_in_which_place(gate):
    shared = Readings(running=2, waiting=9)
    lines = ["a", "b", "a", "a", "c", "d"]
    joined = [shared.join(n, line, "reviews", gate(n)) for n, line in enumerate(lines)]
    now = [reading.job.snapshot() for reading in joined]
    assert [one.status for one in now] == ["running", "running", *["waiting"] * 4]
    same, others = "a search under the same question", "searches under other questions"
    places = [(one.waiting.behind, one.waiting.place) for one in now[2:]]
    assert places == [(same, 1), (same, 2), (others, 1), (others, 2)]
    joined[2].job.stop()
    assert joined[3].job.snapshot().waiting.place == 1
    gate.opened.set()
    ended = [reading.job.wait(WAIT).status for reading in joined]
    assert ended == ["done", "done", "stopped", "done", "done", "done"]
    assert 2 not in gate.began


def test_of_those_that_are_over_the_last_are_kept(gate, monkeypatch):
    monkeypatch.setattr(readings, "KEPT", 2)
    gate.opened.set()
    shared = Readings(running=1, waiting=9)
    for name in "abcd":
        shared.join(name, name, "reviews", gate(name)).job.wait(WAIT)
    assert [name for name in "abcd" if shared.known(name)] == ["b", "c", "d"]
