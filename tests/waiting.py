"""Waiting for work that goes on in another thread or process."""

import time


def until(holds, seconds=300):
    """Wait until something holds; fail after so many seconds, more than a busy machine needs."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
