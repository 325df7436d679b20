"""Between the texts that lack vectors and the one writer who stores them: batches go in, embedded batches come out.

An embedder knows no database. It may hold several batches at once and give them back in any order.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol

from retriever.core.types import Embeddings, Encoded
from retriever.index.sources.filling import OnTokens, read
from retriever.index.sources.source import Source
from retriever.store.views import ViewKey


@dataclass(frozen=True, slots=True)
class TextGroup:
    """Distinct texts that the views of the same sources lack, which one encoder reads.

    ``windows`` is whether they are windows of texts of other groups.
    """

    texts: Sequence[str]
    sources: Sequence[Source]
    windows: bool = False

    @property
    def keys(self) -> list[ViewKey]:
        """The keys of the views."""
        return [source.key for source in self.sources]


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts to embed and to store in one transaction.

    Attributes:
        number: tells it from the other batches of the run.
        groups: its texts; none where every view has them all.
    """

    number: int
    groups: Sequence[TextGroup]

    @property
    def texts(self) -> list[str]:
        """Its texts without windows, each once a group."""
        return [text for group in self.groups if not group.windows for text in group.texts]


@dataclass(frozen=True, slots=True)
class EmbeddedBatch:
    """A batch with its vectors.

    Attributes:
        batch: what was asked for, less what was refused.
        encoded: for each of its groups, the embeddings and words of the group's texts under each of its views.
        tokens: text tokens that were read, 0 where the encoder does not tell.
        refused: texts that nothing could embed, which the batch's groups are without, and why.
        on_stored: to be called, in the caller's thread, when the batch is stored.
    """

    batch: Batch
    encoded: Sequence[Sequence[Encoded]]
    tokens: int
    refused: Mapping[str, str] = field(default_factory=dict)
    on_stored: Callable[[], None] = lambda: None

    @property
    def of_texts(self) -> list[tuple[TextGroup, Sequence[Encoded]]]:
        """The groups of whole texts, each with what it was embedded as."""
        return [pair for pair in zip(self.batch.groups, self.encoded, strict=True) if not pair[0].windows]

    @property
    def windows(self) -> dict[str, Embeddings]:
        """The vectors (dim,) of windows, by their texts."""
        pairs = zip(self.batch.groups, self.encoded, strict=True)
        return {
            text: vector
            for group, encoded in pairs
            if group.windows
            for text, vector in zip(group.texts, encoded[0].embeddings, strict=True)
        }


_TICK = 0.5  # seconds between two looks at batches that a server embeds


class Embedder(Protocol):
    """Embeds the batches of one run."""

    def embed(self, jobs: Iterable[Batch]) -> Iterator[EmbeddedBatch]:
        """Yield every batch embedded, in any order.

        Args:
            jobs: read in the caller's thread, and no further ahead than batches fit into memory.

        Raises:
            Exception: whatever the encoder or ``jobs`` raise; what was yielded before stands.
        """
        ...


EmbedderFactory = Callable[[OnTokens], Embedder]
"""Makes the embedder of a run."""


class LocalEmbedder:
    """Embeds in this process, one batch after the other, and tells of text tokens as they are read.

    Batches that a server embeds are read several at a time, and told of when they are there.
    """

    def __init__(self, on_tokens: OnTokens) -> None:
        self._on_tokens = on_tokens
        self._stopped = threading.Event()

    def embed(self, jobs: Iterable[Batch]) -> Iterator[EmbeddedBatch]:
        """Yield every batch embedded, those of one encoder here in the order of ``jobs``.

        Where a batch fails, those that are read at the same time are finished first.
        """
        running: set[Future[EmbeddedBatch]] = set()
        with ThreadPoolExecutor(thread_name_prefix="embed") as threads:
            try:
                for batch in jobs:
                    most = _at_once(batch)
                    if most == 1:
                        yield self._read(batch, self._on_tokens)
                        continue
                    running.add(threads.submit(self._read, batch, self._unless_stopped))
                    while len(running) >= most:
                        yield self._next(running)
                while running:
                    yield self._next(running)
            finally:
                self._stopped.set()

    def _next(self, running: set[Future[EmbeddedBatch]]) -> EmbeddedBatch:
        """Wait for a batch, and take it from those that are read; an error waits until all others are there."""
        while True:
            good = [future for future in running if future.done() and future.exception() is None]
            failed = [future for future in running if future.done() and future.exception() is not None]
            if good or len(failed) == len(running):
                future = (good or failed)[0]
                running.remove(future)
                embedded = future.result()
                self._on_tokens(embedded.tokens)
                return embedded
            wait(running.difference(failed), _TICK, FIRST_COMPLETED)
            self._on_tokens(0)  # whoever is told may end the work

    def _read(self, batch: Batch, on_tokens: OnTokens) -> EmbeddedBatch:
        total = 0

        def count(tokens: int) -> None:
            nonlocal total
            total += tokens
            on_tokens(tokens)

        encoded = [read(group.sources, group.texts, count) for group in batch.groups]
        return EmbeddedBatch(batch, encoded, total)

    def _unless_stopped(self, tokens: int) -> None:
        """End the reading of a batch that nobody waits for any longer."""
        if self._stopped.is_set():
            raise CancelledError


def _at_once(batch: Batch) -> int:
    """Return how many batches like one are read at the same time."""
    return min((group.sources[0].encoder.at_once for group in batch.groups), default=1)
