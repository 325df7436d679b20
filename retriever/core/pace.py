"""How long the rest of some work takes, measured by how long the part before it took."""

import time
from collections.abc import Callable

LEAST_SECONDS = 3.0
"""Seconds of work before which its rate is not known well enough to be told."""


class Pace:
    """Measures how fast some work goes on, by the share of it that is done.

    The clock starts at the first report of anything done: whatever came before, loading a model say, has no part in the
    rate.

    Args:
        now: gives the time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._started: tuple[float, float] | None = None

    def left(self, share: float) -> float | None:
        """Return the seconds that the rest takes at the mean rate so far; None before `LEAST_SECONDS` of work.

        ``share`` is the part of all the work that is done now, 0 to 1.
        """
        now = self._now()
        if self._started is None:
            self._started = (now, share) if share > 0 else None
            return None
        started, first = self._started
        if now - started < LEAST_SECONDS or share <= first:
            return None
        return (1 - share) * (now - started) / (share - first)
