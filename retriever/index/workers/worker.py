"""A worker: loads the encoders that a task names, and puts what they read into the ledger."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from retriever.core import errors
from retriever.core.encoder import Encoder
from retriever.core.errors import RetrieverError
from retriever.core.registry import resolve
from retriever.core.types import JSON
from retriever.index.readers import Readers
from retriever.index.workers.ledger import Finished, Ledger, Task

LOAD = "retriever.index.encoding:load_described"
OUT_OF_MEMORY = 112
"""Exit code of a worker whose memory is full: it ends, so that all of it is given back."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How workers work: values that JSON holds.

    Attributes:
        ledger: the folder.
        device: where encoders run.
        threads: of each worker.
        readers: descriptions of the encoders that are loaded before the first piece.
        load: ``module:function`` that gives the encoder of a description on a ``device``.
    """

    ledger: str
    device: str = "auto"
    threads: int = 1
    readers: Sequence[Mapping[str, JSON]] = ()
    load: str = LOAD

    def to_json(self) -> dict[str, JSON]:
        """Return them as a JSON object."""
        return asdict(self)


class Worker:
    """Embeds pieces, one after the other.

    Args:
        settings: how.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._ledger = Ledger(Path(settings.ledger))
        self._loaded: dict[str, Encoder] = {}

    def load(self) -> None:
        """Load the encoders that are known to be needed.

        Raises:
            EncoderError: one cannot be loaded, in the words of `load_described`.
        """
        for description in self._settings.readers:
            self._encoder(description)

    def embed(self, name: str) -> int:
        """Embed a piece and put it into the ledger; return the text tokens read.

        Raises:
            RetrieverError: the task cannot be read.
            Exception: whatever the encoder raises.
        """
        task = self._ledger.task(name)
        readers = self._readers(task)
        tokens = 0

        def count(more: int) -> None:
            nonlocal tokens
            tokens += more

        try:
            encoded = readers.encode_views(task.texts, task.instructions, count)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, MemoryError) or "memory" in str(error).lower():  # torch has no type for it on a CPU
                os._exit(OUT_OF_MEMORY)
            raise
        self._ledger.finish(name, Finished(encoded, tokens))
        return tokens

    def _readers(self, task: Task) -> Readers:
        question, plain = task.question or {}, task.plain or {}
        return Readers(lambda: self._encoder(question), (lambda: self._encoder(plain)) if task.two else None)

    def _encoder(self, description: Mapping[str, JSON]) -> Encoder:
        key = json.dumps(description, sort_keys=True)
        if key not in self._loaded:
            self._loaded[key] = resolve(self._settings.load)(description, device=self._settings.device)
            limit_threads(self._settings.threads)
        return self._loaded[key]


def limit_threads(threads: int) -> None:
    """Limit this process to a number of threads in whatever computes here."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(threads)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


def told(error: BaseException) -> dict[str, JSON]:
    """Return an error as JSON, for another process to raise."""
    if isinstance(error, RetrieverError):
        return {"type": type(error).__name__, "message": error.message, "hint": error.hint}
    return {"type": type(error).__name__, "message": str(error), "hint": ""}


def raised(what: Mapping[str, Any]) -> RetrieverError:
    """Return the error that `told` told of; one that is not ours is named."""
    kind, message, hint = (str(what.get(key, "")) for key in ("type", "message", "hint"))
    own = getattr(errors, kind, None)
    if isinstance(own, type) and issubclass(own, RetrieverError):
        return own(message, hint=hint)
    return RetrieverError(
        f"A worker met {kind}: {message}", hint="Run it without --workers to see where, with RETRIEVER_DEBUG=1."
    )
