"""What runs as Ray's actor. It stands in a module of its own, which machines of a cluster import: no code is sent."""

from collections.abc import Mapping
from typing import Any

from retriever.index.workers.worker import Worker, WorkerSettings, told


class Actor:
    """A worker as Ray's actor: errors come back as values, so that any other end is the actor's own death."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._worker = Worker(WorkerSettings(**settings))

    def load(self) -> dict[str, Any]:
        """Load the encoders; return what kept this from loading them, or nothing."""
        try:
            self._worker.load()
        except Exception as error:
            return {"error": told(error)}
        return {}

    def embed(self, name: str) -> dict[str, Any]:
        """Embed a piece; return its tokens, or what the encoder raised."""
        try:
            return {"tokens": self._worker.embed(name)}
        except Exception as error:
            return {"error": told(error)}
