"""Workers as processes of this machine, and how a process and its child speak to each other: in JSON, through a pipe.

A child ends when the parent's end of the pipe does, so that none outlives a parent that was killed. What it prints goes
to standard error.
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
from dataclasses import asdict
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from retriever.core.registry import resolve
from retriever.core.types import JSON
from retriever.index.workers.pool import Event, Pool
from retriever.index.workers.worker import Worker, WorkerSettings

_MODULE = "retriever.index.workers.processes"  # in a child its __name__ is another
_PATIENCE = 20.0  # seconds for a child to end by itself


class Child:
    """A Python process that calls a function, which finds its `Parent`.

    Args:
        function: ``module:function``.
        settings: its first message.
        threads: that its libraries may start.
        quiet: whether what it prints is dropped.
    """

    def __init__(self, function: str, settings: Mapping[str, JSON], threads: int, *, quiet: bool = False) -> None:
        limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
        path = os.pathsep.join(dict.fromkeys(path for path in sys.path if path and not path.endswith(".zip")))
        self.pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, function, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if quiet else 2,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is the parent's alone
                env={**os.environ, **limits, "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": path},
            )
        self.send(settings)

    def send(self, message: Mapping[str, JSON]) -> None:
        """Send a message; to a child that has ended it is lost."""
        with suppress(OSError):
            self.pipe.send_bytes(json.dumps(message).encode())

    def receive(self) -> dict[str, Any] | None:
        """Wait for the child's next message; None when it has ended."""
        try:
            return dict(json.loads(self.pipe.recv_bytes()))
        except (EOFError, OSError):
            return None

    def how_it_ended(self) -> str:
        """Wait for the process's end and say how it came."""
        code = self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def close(self, *, kill: bool) -> None:
        """End the process, at once or by closing its pipe and waiting for it; what it started ends with it."""
        if kill:
            self._process.kill()
        self.pipe.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(OSError):  # its group: Ray's agents outlive Ray's node process for a while
            os.killpg(self._process.pid, signal.SIGKILL)


class Parent:
    """The process that started this one: its requests arrive in a queue, None when it has gone.

    With ``ends``, this process ends at once then.
    """

    def __init__(self, *, ends: bool) -> None:
        handle = int(sys.argv[2])
        os.set_inheritable(handle, False)
        self._pipe, self._ends = Connection(handle), ends
        self.settings: dict[str, Any] = json.loads(self._pipe.recv_bytes())
        self.requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, **message: JSON) -> None:
        """Send a message to the parent."""
        try:
            self._pipe.send_bytes(json.dumps(message).encode())
        except OSError:
            os._exit(0)

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self.requests.put(json.loads(self._pipe.recv_bytes()))
        if self._ends:
            os._exit(0)
        self.requests.put(None)


class ProcessPool(Pool):
    """Workers as processes of this machine."""

    def __init__(self, count: int | None, address: str, settings: WorkerSettings) -> None:
        self._settings = settings
        self._children: dict[int, Child] = {}
        super().__init__(count or 1)

    def close(self, *, kill: bool) -> None:
        """End the workers; see `Pool.close`."""
        for child in self._children.values():
            child.close(kill=kill)

    def _start(self, worker: int) -> None:
        self._children[worker] = Child(f"{_MODULE}:serve", asdict(self._settings), self._settings.threads)

    def _request(self, worker: int, name: str) -> None:
        self._children[worker].send({"name": name})

    def _stop(self, worker: int) -> None:
        self._children.pop(worker).close(kill=True)

    def _next(self) -> Event:
        pipes = {child.pipe: worker for worker, child in self._children.items()}
        worker = pipes[next(pipe for pipe in wait(list(pipes)) if isinstance(pipe, Connection))]
        said = self._children[worker].receive()
        return Event(worker, **said) if said else Event(worker, "ended", how=self._children[worker].how_it_ended())


def serve() -> None:
    """Be a worker as a process: load the encoders, then embed what is asked for until the parent has gone."""
    parent = Parent(ends=True)
    worker = Worker(WorkerSettings(**parent.settings))
    parent.say(**worker.load())
    while (request := parent.requests.get()) is not None:
        parent.say(**worker.embed(request["name"]))


if __name__ == "__main__":
    resolve(sys.argv[1])()
