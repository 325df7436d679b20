"""Other work gives way to what users wait for."""

import threading
import time

import pytest

from retriever_app import foreground
from retriever_app.foreground import Foreground

SOON = 5.0


@pytest.fixture
def nobody(monkeypatch):
    monkeypatch.setattr(foreground, "PAUSE_SECONDS", 0.3)
    return Foreground()


@pytest.fixture
def giving_way(nobody):
    """Begin work that gives way; an event tells when it goes on."""

    def begin():
        goes_on = threading.Event()
        thread = threading.Thread(target=lambda: (nobody.give_way(lambda: None), goes_on.set()), daemon=True)
        thread.start()
        return goes_on

    return begin


def test_where_nobody_waits_it_goes_on_at_once(nobody):
    began = time.monotonic()
    nobody.give_way(lambda: None)
    assert time.monotonic() - began < foreground.PAUSE_SECONDS


def test_it_waits_until_all_are_over_and_a_moment_more(nobody, giving_way):
    with nobody.waited_for():
        with nobody.waited_for():
            goes_on = giving_way()
        assert not goes_on.wait(2 * foreground.PAUSE_SECONDS)
    over = time.monotonic()
    assert goes_on.wait(SOON)
    assert time.monotonic() - over >= foreground.PAUSE_SECONDS - 0.05


def test_a_search_that_fails_is_over_too(nobody, giving_way):
    with pytest.raises(ValueError, match="no view"), nobody.waited_for():
        raise ValueError("no view")
    assert giving_way().wait(SOON)


def test_it_does_not_wait_for_ever(nobody, giving_way, monkeypatch):
    monkeypatch.setattr(foreground, "MOST_SECONDS", 0.5)
    with nobody.waited_for():
        assert giving_way().wait(SOON)


def test_what_waits_can_be_stopped(nobody):
    def stop():
        raise KeyboardInterrupt

    with nobody.waited_for(), pytest.raises(KeyboardInterrupt):
        nobody.give_way(stop)
