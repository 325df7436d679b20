"""A worker: loads the encoders that a task names, and puts what they read into the spool."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retriever.core import errors
from retriever.core.errors import RetrieverError
from retriever.core.protocols import Encoder
from retriever.core.registry import resolve
from retriever.core.types import JSON
from retriever.index.encoding import WORDS
from retriever.index.workers.spool import Finished, Spool

LOAD = "retriever.index.encoding:load_described"
OUT_OF_MEMORY = 112
"""Exit code of a worker whose memory is full: it ends, so that all of it is given back."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How workers work: values that JSON holds.

    Attributes:
        spool: the folder.
        device: where encoders run.
        threads: of each worker.
        encoders: descriptions of the encoders that are loaded before the first piece.
        load: ``module:function`` that gives the encoder of a description on a ``device``.
    """

    spool: str
    device: str = "auto"
    threads: int = 1
    encoders: Sequence[Mapping[str, JSON]] = ()
    load: str = LOAD


class Worker:
    """Embeds pieces, one after the other, and reports events as JSON; errors too, so that any other end is its death.

    The fields are those of `retriever.index.workers.pool.Event`, but for the worker's number.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._spool = Spool(Path(settings.spool))
        self._loaded: dict[str, Encoder] = {}

    def load(self) -> dict[str, Any]:
        """Load the encoders that are known to be needed; ready, or failed."""
        return _event(lambda: [self._encoder(description) for description in self._settings.encoders], event="ready")

    def embed(self, name: str) -> dict[str, Any]:
        """Embed a piece and put it into the spool; done, or failed."""
        return _event(lambda: self._embed(name), event="done", name=name)

    def _embed(self, name: str) -> None:
        task = self._spool.task(name)
        encoder = self._encoder(task.encoder)
        tokens: list[int] = []
        try:
            encoded = encoder.encode_views(task.texts, task.instructions, words=WORDS, on_tokens=tokens.append)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, MemoryError) or "memory" in str(error).lower():  # torch has no type for it on a CPU
                os._exit(OUT_OF_MEMORY)
            raise
        self._spool.finish(name, Finished(encoded, sum(tokens)))

    def _encoder(self, description: Mapping[str, JSON]) -> Encoder:
        key = json.dumps(description, sort_keys=True)
        if key not in self._loaded:
            self._loaded[key] = resolve(self._settings.load)(description, device=self._settings.device)
            _limit_threads(self._settings.threads)
        return self._loaded[key]


def error_to_json(error: Exception) -> dict[str, str]:
    """Return an error as JSON, for another process to raise."""
    kind = type(error).__name__
    if isinstance(error, RetrieverError):
        return {"type": kind, "message": error.message, "hint": error.hint}
    hint = "Run it without --workers to see where, with RETRIEVER_DEBUG=1."
    return {"type": RetrieverError.__name__, "message": f"A worker met {kind}: {error}", "hint": hint}


def error_from_json(what: Mapping[str, str]) -> RetrieverError:
    """Return the error that `error_to_json` wrote; one that another module defines is a `RetrieverError`."""
    own: type[RetrieverError] = getattr(errors, what["type"], RetrieverError)
    return own(what["message"], hint=what["hint"])


def _event(work: Callable[[], object], **done: str) -> dict[str, Any]:
    try:
        work()
    except Exception as error:
        return {"event": "failed", "error": error_to_json(error)}
    return done


def _limit_threads(threads: int) -> None:
    """Limit this process to a number of threads in whatever computes here."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(threads)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
