"""Workers as Ray's actors, by way of a process of its own that is Ray's driver.

Ray ends its driver when its node's process dies, prints to standard output, and takes signals over: all that is better
done to that process than to the writer. Pieces go to actors by name; machines of a cluster import this module, so that
no code is sent.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from retriever.core.environment import guard_local_ray
from retriever.core.errors import RetrieverError, UsageError
from retriever.core.registry import resolve
from retriever.index.workers.pool import Event, Pool, cores, shared
from retriever.index.workers.processes import Child, Parent
from retriever.index.workers.worker import Worker, WorkerSettings, error_from_json, error_to_json

LOCAL = "local"
"""The address that starts a Ray of this process's own."""

_MODULE = "retriever.index.workers.ray_pool"
_CPUS = 4  # of a worker, where nobody said how many workers there are to be
_SAID = 300  # characters of what Ray says of a death
_TICK = 0.1  # seconds between looks at what else was asked for
_REACHED = 10.0  # seconds in which a cluster's port has to answer; Ray itself tries for minutes
_OBJECTS = 80 << 20  # bytes of Ray's object store here, the least it takes: nothing but names goes through it


class RayPool(Pool):
    """Workers as Ray's actors.

    Args:
        count: how many; None for one per GPU, else one per four CPUs.
        address: of the cluster.
        settings: of each worker.

    Raises:
        RetrieverError: Ray cannot be reached, or has no room for a worker.
    """

    def __init__(self, count: int | None, address: str, settings: WorkerSettings) -> None:
        request = {**asdict(settings), "address": address, "count": count}
        self._driver = Child(f"{_MODULE}:drive", request, settings.threads, quiet=True)  # Ray tells at length of deaths
        try:
            super().__init__(int(self._message()["count"]))
        except BaseException:
            self.close(kill=True)
            raise

    def close(self, *, kill: bool) -> None:
        """End Ray's driver, and with it a Ray that it started; see `Pool.close`."""
        self._driver.close(kill=False)

    def _start(self, worker: int) -> None:
        self._driver.send({"start": worker})

    def _request(self, worker: int, name: str) -> None:
        self._driver.send({"embed": name, "worker": worker})

    def _stop(self, worker: int) -> None:
        self._driver.send({"stop": worker})

    def _next(self) -> Event:
        return Event(**self._message())

    def _message(self) -> Mapping[str, Any]:
        said = self._driver.receive()
        if said is None:
            raise RetrieverError(
                f"Ray has ended ({self._driver.how_it_ended()}).",
                hint="What was embedded is kept: run the same command again, with --ray or without.",
            )
        if "worker" not in said and "error" in said:
            raise error_from_json(said["error"])
        return said


class _Driver:
    """Has actors do what the parent requests, and reports what comes of it."""

    def __init__(self, ray: Any, parent: Parent, settings: WorkerSettings, gpus: int) -> None:  # noqa: ANN401
        self._ray, self._parent, self._settings = ray, parent, settings
        options = {"num_cpus": settings.threads, "num_gpus": gpus, "max_restarts": 0, "max_task_retries": 0}
        self._class = ray.remote(**options)(Worker)
        self._actors: dict[int, Any] = {}
        self._workers: dict[Any, int] = {}  # by the references of their answers

    def run(self) -> None:
        """Serve the parent until it is gone."""
        while True:
            while not self._workers or not self._parent.requests.empty():
                request = self._parent.requests.get()
                if request is None:
                    return
                self._obey(request)
            done, _ = self._ray.wait(list(self._workers), num_returns=1, timeout=_TICK)
            for answer in done:
                self._report(answer)

    def _obey(self, request: Mapping[str, Any]) -> None:
        if "start" in request:
            worker = request["start"]
            self._actors[worker] = self._class.remote(self._settings)
            self._workers[self._actors[worker].load.remote()] = worker
        elif "stop" in request:
            self._ray.kill(self._actors.pop(request["stop"]))
            self._workers = {answer: worker for answer, worker in self._workers.items() if worker in self._actors}
        else:
            worker = request["worker"]
            self._workers[self._actors[worker].embed.remote(request["embed"])] = worker

    def _report(self, answer: Any) -> None:  # noqa: ANN401 - a ray.ObjectRef
        worker = self._workers.pop(answer)
        try:
            said = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            said = {"event": "ended", "how": f"{type(error).__name__}: {str(error).strip()[:_SAID]}"}
        self._parent.say(worker=worker, **said)


@contextmanager
def _ray(address: str, workers: int | None) -> Iterator[Any]:
    """Give Ray, connected to a cluster, or to one started here for loopback alone and behind a token."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == LOCAL:
        guard_local_ray()
    resolve("ray:init", extra="ray")
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


def drive() -> None:
    """Be Ray's driver: have actors embed until the parent is gone."""
    parent = Parent(ends=False)
    address, count = parent.settings.pop("address"), parent.settings.pop("count")
    settings = WorkerSettings(**parent.settings)
    try:
        with _ray(address, count) as ray:
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            free = [shared(int(node.get("CPU", 0))) for node in nodes]
            if not any(free):
                raise UsageError(
                    "The Ray cluster has no CPU for a worker.", hint="Start nodes with --num-cpus 2 or more."
                )
            gpus = sum(int(node.get("GPU", 0)) for node in nodes) if settings.device in ("auto", "cuda") else 0
            count = count or gpus or max(1, sum(free) // _CPUS)
            threads = min(max(1, sum(free) // count), max(free))
            parent.say(count=count)
            _Driver(ray, parent, replace(settings, threads=threads), int(gpus >= count)).run()
    except Exception as error:
        parent.say(error=error_to_json(error))
