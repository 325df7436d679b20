"""What a run embeds with: this process, workers here, or workers on Ray."""

import queue
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from retriever.core.errors import RetrieverError, UsageError
from retriever.core.paths import folder_within
from retriever.core.types import JSON
from retriever.index.embedder import EmbedderFactory, LocalEmbedder
from retriever.index.workers.child import Child, Message
from retriever.index.workers.embedder import PIECE, StartPool, WorkerEmbedder
from retriever.index.workers.ledger import FOLDER, Ledger
from retriever.index.workers.pool import Pool, ProcessPool, RayPool, cores, shared
from retriever.index.workers.worker import LOAD, WorkerSettings


@dataclass(frozen=True, slots=True)
class Workers:
    """Who embeds.

    Attributes:
        count: workers; None for this process alone, or with Ray for one per GPU, else one per four CPUs.
        ray: address of a Ray cluster, ``local`` for one that is started here; None for processes of this machine.
        ledger: folder that all workers reach, of this index alone; None for one in the index's own.
        device: where workers' encoders run.
        load: ``module:function`` that gives them, as `retriever.index.encoding.load_described` does.
        piece: most texts of a piece.
    """

    count: int | None = None
    ray: str | None = None
    ledger: Path | None = None
    device: str = "auto"
    load: str = LOAD
    piece: int = PIECE

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise UsageError(f"{self.count} workers embed nothing.", hint="Give --workers 1 or more.")
        if self.ray is not None and find_spec("ray") is None:
            raise RetrieverError("The package 'ray' is missing.", hint="pip install 'retriever[ray]'")

    def ledger_of(self, folder: Path) -> Ledger:
        """Return the ledger of an index's folder.

        Raises:
            IndexDamagedError: a link stands for its folder.
        """
        return Ledger(folder_within(folder, FOLDER) if self.ledger is None else self.ledger.expanduser().resolve())

    def embedder(self, folder: Path) -> EmbedderFactory:
        """Return what makes the embedder of a run; without workers, one that uses what a ledger still holds."""
        ledger = self.ledger_of(folder)
        if self.count is None and self.ray is None:
            return LocalEmbedder if ledger.is_empty() else partial(WorkerEmbedder, ledger=ledger, piece=self.piece)
        return partial(WorkerEmbedder, ledger=ledger, start=self._starter(ledger), piece=self.piece)

    def _starter(self, ledger: Ledger) -> StartPool:
        def start(readers: Sequence[Mapping[str, JSON]]) -> Pool:
            folder = str(ledger.folder.resolve())
            threads = max(1, shared(cores()) // (self.count or 1))
            settings = WorkerSettings(folder, self.device, threads, list(readers), self.load)
            if self.ray is None:
                return ProcessPool(self.count or 1, settings)
            asked = {**settings.to_json(), "address": self.ray, "workers": self.count}

            def driver(inbox: "queue.SimpleQueue[Message]") -> Child:
                return Child("retriever.index.workers.ray_driver", asked, inbox, threads)

            return RayPool(driver)

        return start
