"""How long the rest of some work takes, measured by how long the part before it took."""

import time
from collections.abc import Callable

LEAST_SECONDS = 3.0
"""Seconds of work before which its rate is not known well enough to be told."""


class Rate:
    """Measures the seconds that a unit of some work takes, by pieces of it that were done.

    The first piece has no part in it: all that is done once, loading a model say, goes with that.
    """

    def __init__(self) -> None:
        self._begun = False
        self._work = self._seconds = 0.0

    @property
    def known(self) -> bool:
        """Whether `LEAST_SECONDS` of work were measured."""
        return self._work > 0 and self._seconds >= LEAST_SECONDS

    def took(self, work: float, seconds: float) -> None:
        """Note a piece of work that was done, and how long it took."""
        if self._begun:
            self._work += work
            self._seconds += seconds
        self._begun = self._begun or work > 0

    def seconds(self, work: float) -> float | None:
        """Return the seconds that more of the work takes; None where the rate is not known."""
        if not work:
            return 0.0
        return work * self._seconds / self._work if self.known else None


class Pace:
    """Measures how fast some work goes on, by the share of it that is done.

    Args:
        now: gives the time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._rate = Rate()
        self._last = (0.0, 0.0)

    def left(self, share: float) -> float | None:
        """Return the seconds that the rest takes at the mean rate so far; None before `LEAST_SECONDS` of work.

        ``share`` is the part of all the work that is done now, 0 to 1.
        """
        now, (before, reached) = self._now(), self._last
        self._rate.took(share - reached, now - before)
        self._last = (now, share)
        return self._rate.seconds(1 - share)
