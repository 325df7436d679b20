"""Ctrl-C during training: the first lets the step end and its state be saved, the second ends at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """Within the block SIGINT is noted instead of raised. Outside the main thread nothing changes."""

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
