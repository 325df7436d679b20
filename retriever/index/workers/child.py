"""Messages between a process and one that it started: lines of JSON on the child's standard input and output.

`Child` is the parent's end, `Parent` the child's. A child ends when its input does, so that none outlives a parent that
was killed. Whatever else a child prints goes to standard error.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, NoReturn

from retriever.core.types import JSON

_PATIENCE = 20.0  # seconds for a child to end by itself


@dataclass(frozen=True, slots=True)
class Message:
    """What a child said; None when it has ended."""

    child: "Child"
    said: Mapping[str, Any] | None


class Child:
    """A Python process that runs a module's ``main`` and says what it does.

    Args:
        module: what it runs.
        settings: its first line of input.
        inbox: where what it says arrives.
        threads: that its libraries may start.
    """

    def __init__(
        self, module: str, settings: Mapping[str, JSON], inbox: "queue.SimpleQueue[Message]", threads: int
    ) -> None:
        limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is the parent's alone
            env={**os.environ, **limits, "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": _import_path()},
        )
        self._inbox = inbox
        threading.Thread(target=self._listen, daemon=True).start()
        self.send(settings)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def send(self, message: Mapping[str, JSON]) -> None:
        """Send a line; to a child that has ended it is lost."""
        with suppress(OSError, ValueError):
            self._input.write(json.dumps(message, ensure_ascii=False) + "\n")
            self._input.flush()

    def how_it_ended(self) -> str:
        """Tell how the process ended, in words."""
        code = self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def close(self, *, kill: bool) -> None:
        """End the process, at once or by ending its input and waiting for it; what it started ends with it."""
        if kill:
            self._process.kill()
        with suppress(OSError):
            self._input.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(OSError, AttributeError):  # its group: Ray's agents outlive Ray's node process for a while
            os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def _input(self) -> IO[str]:
        if self._process.stdin is None:
            raise ValueError("The child has no input.")
        return self._process.stdin

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            with suppress(ValueError):  # a line that was cut short by its end
                self._inbox.put(Message(self, json.loads(line)))
        self._process.wait()
        self._inbox.put(Message(self, None))


class Parent:
    """The process that started this one: what it asks for arrives in `asked`, None when it has gone.

    Args:
        ends: whether this process ends at once when the parent has gone.
        quiet: whether what libraries print is dropped; otherwise it goes to standard error.
    """

    def __init__(self, *, ends: bool, quiet: bool = False) -> None:
        self.asked: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        self._ends = ends
        self._output = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(os.open(os.devnull, os.O_WRONLY) if quiet else 2, 1)
        self.settings: Mapping[str, Any] = json.loads(sys.stdin.readline())
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, **message: JSON) -> None:
        """Say something to the parent."""
        try:
            self._output.write(json.dumps(message, ensure_ascii=False) + "\n")
            self._output.flush()
        except OSError:
            os._exit(0)

    def end(self) -> NoReturn:
        """End this process at once: its thread waits for input, which the interpreter's own way out stumbles over."""
        sys.stderr.flush()
        os._exit(0)

    def _listen(self) -> None:
        for line in sys.stdin:
            self.asked.put(json.loads(line))
        if self._ends:
            os._exit(0)
        self.asked.put(None)


def _import_path() -> str:
    """Return where this process finds its modules, for one that is to find the same."""
    return os.pathsep.join(dict.fromkeys(path for path in sys.path if path and not path.endswith(".zip")))
