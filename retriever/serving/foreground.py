"""Work that people wait for, and how other work gives way to it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PAUSE_SECONDS = 1.5
"""In which nobody waits, before other work goes on."""

MOST_SECONDS = 30.0
"""That work which somebody began waits at a time, however much is searched."""

_LOOK_SECONDS = 0.1  # between looks


class Foreground:
    """Counts the work that somebody waits for, such as searches and clusterings; safe in all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._going = 0
        self._over = float("-inf")

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Be work that somebody waits for."""
        with self._lock:
            self._going += 1
        try:
            yield
        finally:
            with self._lock:
                self._going -= 1
                self._over = time.monotonic()

    @property
    def rests(self) -> bool:
        """Whether nobody has waited for anything for a moment."""
        with self._lock:
            return not self._going and time.monotonic() - self._over >= PAUSE_SECONDS

    def give_way(self, check: Callable[[], object]) -> None:
        """Wait until nobody has waited for anything for a moment: a second reading makes every search slower.

        The check is called again and again, and ends the waiting by raising.
        """
        end = time.monotonic() + MOST_SECONDS
        check()
        while not self.rests and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
            check()
