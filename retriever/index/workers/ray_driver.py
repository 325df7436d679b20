"""Ray's driver as a process of its own: ``python -m retriever.index.workers.ray_driver``, started by the pool.

Ray ends its driver when its node's process dies, prints to standard output, and takes signals over: all that is better
done to this process than to the writer. What goes to actors is a name, what comes back a number.
"""

import os
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from retriever.core.errors import RetrieverError, UsageError
from retriever.core.local_ray import guard_local_ray
from retriever.core.registry import resolve
from retriever.index.workers.child import Parent
from retriever.index.workers.pool import IN_FLIGHT, cores, shared
from retriever.index.workers.ray_actor import Actor
from retriever.index.workers.worker import WorkerSettings, raised, told

LOCAL = "local"
"""The address that starts a Ray of this process's own."""

_PACKAGE = "retriever[ray]"
_CPUS = 4  # of a worker, where nobody said how many workers there are to be
_STARTS = 3
_SAID = 300  # characters of what Ray says of a death
_TICK = 0.1  # seconds between looks at what else was asked for
_REACHED = 10.0  # seconds in which a cluster's port has to answer; Ray itself tries for minutes
_OBJECTS = 80 << 20  # bytes of Ray's object store here, the least it takes: nothing but names goes through it


@dataclass(eq=False, slots=True)
class _Worker:
    """An actor, its answer to `load` until it is ready, and the pieces sent to it by the reference of their answers."""

    actor: Any
    loading: Any
    at: dict[Any, str] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return self.loading is None


class _Driver:
    """Sends pieces to actors; an actor that dies is replaced."""

    def __init__(self, ray: Any, parent: Parent, settings: WorkerSettings, count: int, gpus: int) -> None:  # noqa: ANN401
        self._ray, self._parent, self._settings = ray, parent, settings
        options = {"num_cpus": settings.threads, "num_gpus": gpus, "max_restarts": 0, "max_task_retries": 0}
        self._class = ray.remote(**options)(Actor)
        self._unready = 0
        self._asked: deque[str] = deque()
        self._workers = [self._start() for _ in range(count)]

    def run(self) -> None:
        """Serve the parent until it is gone or says stop."""
        while True:
            while not self._parent.asked.empty():
                asked = self._parent.asked.get()
                if asked is None or "stop" in asked:
                    return
                self._asked.append(asked["name"])
            self._send()
            waited = [ref for one in self._workers for ref in ([] if one.ready else [one.loading], one.at)]
            references = [ref for each in waited for ref in each]
            if references:
                done, _ = self._ray.wait(references, num_returns=1, timeout=_TICK)
                for reference in done:
                    self._settle(reference)
            else:
                time.sleep(_TICK / 10)

    def _start(self) -> _Worker:
        actor = self._class.remote(self._settings.to_json())
        return _Worker(actor, actor.load.remote())

    def _send(self) -> None:
        able = [one for one in self._workers if one.ready and len(one.at) < IN_FLIGHT]
        while self._asked and able:
            least = min(able, key=lambda one: len(one.at))
            name = self._asked.popleft()
            least.at[least.actor.embed.remote(name)] = name
            able = [one for one in able if len(one.at) < IN_FLIGHT]

    def _settle(self, reference: Any) -> None:  # noqa: ANN401 - a ray.ObjectRef
        worker = next((one for one in self._workers if reference is one.loading or reference in one.at), None)
        if worker is None:  # of an actor that was replaced
            return
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._died(worker, error)
            return
        if "error" in answer:
            raise raised(answer["error"])
        if worker.ready:
            self._parent.say(event="done", name=worker.at.pop(reference), tokens=answer["tokens"])
        else:
            worker.loading, self._unready = None, 0
            self._tell()

    def _died(self, worker: _Worker, error: Exception) -> None:
        how = f"{type(error).__name__}: {str(error).strip()[:_SAID]}"
        names = list(worker.at.values())
        if not worker.ready:
            self._unready += 1
            if self._unready == _STARTS:
                self._parent.say(event="unfit", how=how)
        elif names:
            self._parent.say(event="died", name=names.pop(0), how=how)
        self._asked.extend(names)
        self._ray.kill(worker.actor)
        self._workers[self._workers.index(worker)] = self._start()
        self._tell()

    def _tell(self) -> None:
        self._parent.say(event="workers", count=sum(one.ready for one in self._workers))


@contextmanager
def _ray(address: str, workers: int | None) -> Iterator[Any]:
    """Give Ray, connected to a cluster, or to one started here for loopback alone and behind a token."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == LOCAL:
        guard_local_ray()
    resolve("ray:init", package=_PACKAGE)
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    cpus = max(cores(), workers or 1)
    own: dict[str, Any] = {"include_dashboard": False, "num_cpus": cpus, "object_store_memory": _OBJECTS}
    try:
        _require_port(address)
        ray.init(address=address, **quiet, **(own if address == LOCAL else {}))
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise RetrieverError(
            f"Ray cannot be reached at {address}: {str(error).strip().partition(chr(10))[0]}",
            hint="Start it there with `ray start`, the same version on every machine, or say --ray local.",
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_port(address: str) -> None:
    """Raise OSError where nothing listens at ``HOST:PORT``, with or without ``ray://``; other addresses name none."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _REACHED).close()


def _shares(ray: Any, asked: int | None, settings: WorkerSettings) -> tuple[int, int, int]:  # noqa: ANN401
    """Return how many workers there are to be, the threads of each, and its GPUs."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    free = [shared(int(node.get("CPU", 0))) for node in nodes]
    gpus = sum(int(node.get("GPU", 0)) for node in nodes) if settings.device in ("auto", "cuda") else 0
    count = asked or gpus or max(1, sum(free) // _CPUS)
    threads = max(1, sum(free) // count)
    threads = min(threads, max(free, default=1))
    if not any(free):
        raise UsageError("The Ray cluster has no CPU for a worker.", hint="Start nodes with --num-cpus 2 or more.")
    return count, threads, int(gpus >= count)


def main() -> None:
    """Embed what is asked for by actors until the parent is gone or says stop."""
    parent = Parent(ends=False, quiet=True)  # Ray tells at length of every actor that died
    asked = dict(parent.settings)
    address, workers = asked.pop("address"), asked.pop("workers")
    settings = WorkerSettings(**asked)
    try:
        with _ray(address, workers) as ray:
            count, threads, gpus = _shares(ray, workers, settings)
            _Driver(ray, parent, replace(settings, threads=threads), count, gpus).run()
    except Exception as error:
        parent.say(event="failed", error=told(error))
    parent.end()


if __name__ == "__main__":
    main()
