"""Shards in Ray actors (extra `retriever[ray]`): each opens its folder anew when it, or its process, has died.

Ray carries Python objects by pickle and trusts whoever reaches it. What is started here listens on loopback, asks for a
token, and has no dashboard; see docs/security.md.
"""

import importlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from retriever.core.errors import RetrieverError
from retriever.core.local_ray import guard_local_ray
from retriever.core.registry import resolve
from retriever.shards.messages import Gone
from retriever.shards.shard import Shard

LOCAL = "local"
"""The address that stands for a Ray of our own on this machine."""

_PACKAGE = "retriever[ray]"
_OBJECTS = 256 << 20  # bytes of Ray's object store: answers that are larger than 100 kB go through it
_THREADS = 4
_STARTING = 120.0  # seconds


class ShardActor:
    """A shard in a process of its own; one that cannot be opened answers why, and is tried again at every question."""

    def __init__(self, folder: str, device: str) -> None:
        self._folder, self._device = Path(folder), device
        self._shard: Shard | None = None
        with suppress(OSError, RetrieverError):
            self._shard = Shard(self._folder, device=device)

    def answer(self, question: str, version: int | None, arguments: Sequence[object]) -> object:
        """Answer; see `Shard.answer`."""
        try:
            if self._shard is None:
                self._shard = Shard(self._folder, device=self._device)
        except (OSError, RetrieverError) as error:
            return Gone(str(error))
        return self._shard.answer(question, version, arguments)

    def pid(self) -> int:
        """Return the number of the actor's process."""
        return os.getpid()


class RayShards:
    """Shards in Ray actors; implements `retriever.shards.transport.Transport`.

    Args:
        folders: of the shards, on storage that every machine of the cluster has under the same name.
        address: of a cluster; ``local`` starts one on this machine that ends with this process.
        device: where to search.
        actor: what each shard runs in.

    Raises:
        RetrieverError: Ray is not installed, or cannot be reached.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        address: str = LOCAL,
        device: str = "auto",
        actor: type[ShardActor] = ShardActor,
    ) -> None:
        self._own = address == LOCAL
        self.ray: Any = _connected(address)
        begin = self.ray.remote(actor).options(
            num_cpus=0 if self._own else 1,
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=_THREADS,
            scheduling_strategy="SPREAD",
        )
        self.actors = [begin.remote(str(folder.absolute()), device) for folder in folders]
        begun = [actor.pid.remote() for actor in self.actors]
        self.ray.wait(begun, num_returns=len(begun), timeout=_STARTING)  # who needs longer is late until then

    @property
    def parts(self) -> int:
        """Number of shards."""
        return len(self.actors)

    def send(self, part: int, question: str, version: int | None, arguments: Sequence[object]) -> object:
        """Ask a shard; see `Transport.send`."""
        return self.actors[part].answer.remote(question, version, arguments)

    def gather(self, sent: Mapping[int, object], seconds: float | None) -> dict[int, object]:
        """Return the answers that come in time; see `Transport.gather`."""
        if not sent:
            return {}
        parts = {reference: part for part, reference in sent.items()}
        began = time.monotonic()
        try:  # all in one call: one by one takes as long as the shards do, and to wait for them first is another call
            return dict(zip(parts.values(), self.ray.get(list(parts), timeout=seconds), strict=True))
        except self.ray.exceptions.RayError:  # one is late, or lost
            left = None if seconds is None else max(0.0, began + seconds - time.monotonic())
            ready, _ = self.ray.wait(list(parts), num_returns=len(parts), timeout=left)
        return {parts[reference]: self._answer(reference) for reference in ready}

    def close(self) -> None:
        """End the actors, and Ray where it was started here."""
        for actor in self.actors:
            self.ray.kill(actor)
        self.actors = []
        if self._own and self.ray.is_initialized():
            self.ray.shutdown()

    def _answer(self, reference: object) -> object:
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError:
            raise  # a mistake of ours in the shard, not a loss of it
        except self.ray.exceptions.RayError as error:
            return Gone(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")


def _connected(address: str) -> Any:  # noqa: ANN401 - Ray is not there to be typed
    """Return Ray, connected to a cluster or to one of our own, for loopback alone and behind a token."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    own: dict[str, object] = {}
    if address == LOCAL:
        _require_unloaded()
        guard_local_ray()
        own = {"include_dashboard": False, "object_store_memory": _OBJECTS}
    resolve("ray:init", package=_PACKAGE)
    ray = importlib.import_module("ray")
    try:
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False, **own)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise RetrieverError(
            f"Ray cannot be reached at {address}: {str(error).strip().partition(chr(10))[0]}",
            hint="Start it there with `ray start`, the same version on every machine.",
        ) from error
    return ray


def _require_unloaded() -> None:
    """Refuse to start Ray where it was imported before it could be told of the token."""
    if sys.modules.get("ray") is not None and os.environ.get("RAY_AUTH_MODE") != "token":
        raise RetrieverError(
            "Ray was imported before, without RAY_AUTH_MODE=token, and would let anybody in.",
            hint="Set RAY_AUTH_MODE=token before the import, or name a cluster that runs.",
        )
