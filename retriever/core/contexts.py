"""Objects closed at the end of a `with` block, one thread for NumPy's BLAS library, and a bar of progress on stderr."""

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Self


class Closing(ABC):
    """A context manager that is itself, and is closed at the block's end, however that ends."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held; once more does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OneThread:
    """A context that any number of threads may be in, and enter again; outside BLAS has the threads it had before.

    There is one number of threads for the whole process, and `threadpoolctl` gives back the number it found: of two
    threads of Python that limit it at once, the later finds the other's limit, and leaves it behind or lifts it too
    soon. Here the first to enter notes the number and the last to leave gives it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = [library.num_threads for library in _libraries()]
                _set([1] * len(self._before))
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                _set(self._before)


one_thread = OneThread()
"""The one of this process."""


@contextmanager
def single_threaded() -> Iterator[None]:
    """Be in `one_thread`, and keep all other libraries, OpenMP's among them, to one thread too.

    Sums over threads differ in the last bit, and a row may change sides for it.
    """
    from threadpoolctl import threadpool_limits

    with one_thread, threadpool_limits(1):
        yield


@contextmanager
def token_bar(show: bool, total: Callable[[], int]) -> Iterator[Callable[[int], None] | None]:
    """Show rate and time left while the block runs; yields what to call with every number of tokens read.

    Args:
        show: whether a bar is wanted. Where it is not, or stderr is no terminal, None is yielded.
        total: counts the tokens that will be read; asked only for a bar.
    """
    if not (show and sys.stderr.isatty()):
        yield None
        return
    from tqdm import tqdm  # type: ignore[import-untyped]

    with tqdm(total=total(), unit=" tokens", unit_scale=True) as bar:
        yield bar.update


def _set(threads: list[int]) -> None:
    for library, count in zip(_libraries(), threads, strict=True):
        release = getattr(library, "clear_controlling_thread", lambda *, force: None)
        release(force=True)  # only the thread that set OpenBLAS last may set it again
        library.set_num_threads(count)
        release(force=True)


@cache
def _libraries() -> list[Any]:
    """Return what controls the BLAS libraries that are loaded; to find them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
