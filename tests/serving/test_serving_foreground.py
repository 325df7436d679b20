from contextlib import ExitStack

import pytest

from retriever.serving import foreground as waiting
from retriever.serving.foreground import Foreground


class Clock:
    """A clock that goes on when somebody sleeps, and at no other time."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(waiting, "time", clock := Clock())
    return clock


def test_where_nobody_waits_it_goes_on_at_once(clock):
    Foreground().give_way(lambda: None)
    assert clock.now == 0


def test_it_waits_until_all_are_over_and_a_moment_more(clock):
    foreground, searches = Foreground(), [ExitStack(), ExitStack()]
    for search in searches:
        search.enter_context(foreground.waited_for())

    def look():
        for over, search in enumerate(searches, start=1):
            if clock.now >= over:
                search.close()

    foreground.give_way(look)
    assert clock.now == pytest.approx(2 + waiting.PAUSE_SECONDS, abs=0.3)


def test_a_search_that_fails_is_over_too(clock):
    foreground = Foreground()
    with pytest.raises(ValueError, match="no view"), foreground.waited_for():
        raise ValueError("no view")
    foreground.give_way(lambda: None)
    assert clock.now == pytest.approx(waiting.PAUSE_SECONDS, abs=0.3)


def test_it_does_not_wait_for_ever(clock):
    foreground = Foreground()
    with foreground.waited_for():
        foreground.give_way(lambda: None)
    assert clock.now == pytest.approx(waiting.MOST_SECONDS, abs=0.3)


def test_what_waits_can_be_stopped(clock):
    def stop():
        raise KeyboardInterrupt

    with (foreground := Foreground()).waited_for(), pytest.raises(KeyboardInterrupt):
        foreground.give_way(stop)
