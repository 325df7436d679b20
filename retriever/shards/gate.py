"""Who may read the shards while a change is written to all of them: many readers, or one writer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Lets any number of readers in, or one writer alone; a writer that waits goes before readers that come later."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._writers = 0  # waiting or inside
        self._writing = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let the block read; no writer is inside meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writers)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let the block write, when the readers inside have left."""
        with self._changed:
            self._writers += 1
            self._changed.wait_for(lambda: not self._readers and not self._writing)
            self._writing = True
        try:
            yield
        finally:
            with self._changed:
                self._writers -= 1
                self._writing = False
                self._changed.notify_all()
