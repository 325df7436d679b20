"""Threads for what blocks, and waiting for them no longer than a request may take."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from retriever.api.problems import TookTooLongError
from retriever.api.settings import ServerLimits
from retriever.core.errors import BusyError
from retriever.core.text import counted

T = TypeVar("T")


class Workers:
    """Threads that work for requests. Who waits too long is told so; the thread goes on to the end of its work."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.threads, thread_name_prefix="request")
        self._lock = threading.Lock()
        self._pending = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Do work on a thread and wait for it; `BusyError` where too much waits already, other errors as `in_time`."""
        return await in_time(self._submit(work), self._limits.seconds)

    def close(self) -> None:
        """Begin no more of what waits."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _submit(self, work: Callable[[], T]) -> "Future[T]":
        with self._lock:
            if self._pending >= self._limits.threads + self._limits.waiting_requests:
                raise BusyError(
                    f"The server is at work on {counted(self._pending, 'request')} already.",
                    hint="Ask again in a moment.",
                )
            self._pending += 1
        try:
            future = self._threads.submit(work)
        except RuntimeError as error:  # it is shut down
            self._done(None)
            raise BusyError("The server is stopping.", hint="Ask again when it is back.") from error
        future.add_done_callback(self._done)
        return future

    def _done(self, _: object) -> None:
        with self._lock:
            self._pending -= 1


async def in_time(future: "Future[T]", seconds: float) -> T:
    """Wait for a future; where time is up, cancel it if it has not begun, and raise `TookTooLongError`."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
    except TimeoutError as error:
        raise TookTooLongError(
            f"There was no answer within {seconds:g} seconds.", hint="Ask for less, or ask again later."
        ) from error
