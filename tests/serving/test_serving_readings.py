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
    gate.opened.set()
    assert (first.job.wait(WAIT).result, second.job.wait(WAIT).status) == (1, "stopped")
    assert gate.began == [1]
    assert shared.join("c", "c", "reviews", gate(5)).job.wait(WAIT).result == 5


def test_of_those_that_are_over_the_last_are_kept(gate, monkeypatch):
    monkeypatch.setattr(readings, "KEPT", 2)
    gate.opened.set()
    shared = Readings(running=1, waiting=9)
    for name in "abcd":
        shared.join(name, name, "reviews", gate(name)).job.wait(WAIT)
    assert [name for name in "abcd" if shared.known(name)] == ["b", "c", "d"]
