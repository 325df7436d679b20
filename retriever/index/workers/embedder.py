"""Embeds batches by workers: cuts them into pieces, has each embedded once, and puts the batches together again."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from retriever.core.errors import RetrieverError, UsageError
from retriever.core.paths import folder_within
from retriever.core.registry import missing_extra, nearest, resolve
from retriever.core.types import JSON, Encoded
from retriever.index.embedder import Batch, EmbeddedBatch, EmbedderFactory, LocalEmbedder, TextGroup
from retriever.index.sources.filling import OnTokens, read
from retriever.index.workers.pool import POOLS, Event, Pool, cores, shared
from retriever.index.workers.spool import FOLDER, Finished, Spool, Task
from retriever.index.workers.worker import LOAD, WorkerSettings

PIECE = 250
"""Most texts of a piece: few enough that workers end together, enough for full batches."""

_DEATHS = 2  # of workers at a piece, after which it is halved or, of one text, given up
_PATIENCE = 60.0  # seconds until a file of another machine is seen here: shared folders remember what was not there
_GIVEN_UP = 10  # texts in a row with nothing embedded between: it is not the texts


@dataclass(frozen=True, slots=True)
class Workers:
    """The embedders of a run: this process, workers here, or workers on a cluster.

    Attributes:
        count: workers; None for as many as the pool chooses, and with processes for none beside this one.
        pool: their kind, a key of `retriever.index.workers.pool.POOLS`.
        address: of the cluster, ``local`` for one that is started here; empty for processes.
        spool: folder that all workers reach, of this index alone; None for one in the index's own.
        device: where workers' encoders run.
        load: ``module:function`` that gives them, as `retriever.index.encoding.load_described` does.
        piece: most texts of a piece.
    """

    count: int | None = None
    pool: str = "processes"
    address: str = ""
    spool: Path | None = None
    device: str = "auto"
    load: str = LOAD
    piece: int = PIECE

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise UsageError(f"{self.count} workers embed nothing.", hint="Give --workers 1 or more.")
        if self.pool not in POOLS:
            raise UsageError(f"There is no pool of workers {self.pool!r}.", hint=nearest(self.pool, POOLS))
        if self.pool == "ray" and find_spec("ray") is None:
            raise missing_extra("ray", "ray")

    @property
    def alone(self) -> bool:
        """Whether this process embeds, without workers."""
        return self.count is None and self.pool == "processes"

    def spool_of(self, folder: Path) -> Spool:
        """Return the spool of an index's folder.

        Raises:
            IndexDamagedError: a link stands for its folder.
        """
        return Spool(folder_within(folder, FOLDER) if self.spool is None else self.spool.expanduser().resolve())

    def embedder(self, folder: Path) -> EmbedderFactory:
        """Return what makes the embedder of a run; without workers, one that uses what a spool still holds."""
        spool = self.spool_of(folder)
        if self.alone and spool.is_empty():
            return LocalEmbedder
        start = None if self.alone else partial(self._start, spool)
        return partial(WorkerEmbedder, spool=spool, start=start, size=self.piece)

    def _start(self, spool: Spool, encoders: Sequence[Mapping[str, JSON]]) -> Pool:
        threads = max(1, shared(cores()) // (self.count or 1))
        settings = WorkerSettings(str(spool.folder.resolve()), self.device, threads, encoders, self.load)
        pool: Pool = resolve(POOLS[self.pool])(self.count, self.address, settings)
        return pool


@dataclass(eq=False, slots=True)
class _Piece:
    """Texts of one group of a batch under way, from the place ``start`` on."""

    batch: "_OpenBatch"
    group: TextGroup
    start: int
    texts: Sequence[str]
    name: str
    deaths: int = 0
    done: Finished | None = None


@dataclass(eq=False, slots=True)
class _OpenBatch:
    """A batch under way: its pieces, and the texts that were given up."""

    batch: Batch
    pieces: list[_Piece] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    def embedded(self, spool: Spool) -> EmbeddedBatch:
        """Return the batch with its vectors, without the texts that were given up; stored, its pieces are removed."""
        groups: list[TextGroup] = []
        encoded: list[list[Encoded]] = []
        for group in self.batch.groups:
            pieces = sorted((piece for piece in self.pieces if piece.group is group), key=lambda piece: piece.start)
            done = [piece.done.encoded for piece in pieces if piece.done]
            groups.append(replace(group, texts=[text for piece in pieces for text in piece.texts]))
            encoded.append([_joined(key.dim, [each[place] for each in done]) for place, key in enumerate(group.keys)])
        tokens = sum(piece.done.tokens for piece in self.pieces if piece.done)
        remove = partial(spool.remove, [piece.name for piece in self.pieces])
        return EmbeddedBatch(Batch(self.batch.number, groups), encoded, tokens, self.refused, remove)


class WorkerEmbedder:
    """Embeds by workers, from what the spool holds first.

    Args:
        on_tokens: told of a piece's tokens when it is there.
        spool: where pieces lie.
        start: starts workers that load the encoders of some descriptions first; None to embed in this process.
        size: most texts of a piece.
    """

    def __init__(
        self,
        on_tokens: OnTokens,
        *,
        spool: Spool,
        start: Callable[[Sequence[Mapping[str, JSON]]], Pool] | None = None,
        size: int = PIECE,
    ) -> None:
        self._on_tokens = on_tokens
        self._spool, self._start, self._size = spool, start, size
        self._pool: Pool | None = None
        self._waiting: deque[_Piece] = deque()
        self._sent: dict[str, _Piece] = {}
        self._complete: deque[_OpenBatch] = deque()
        self._given_up = 0  # in a row

    def embed(self, jobs: Iterable[Batch]) -> Iterator[EmbeddedBatch]:
        """Yield every batch embedded, in the order they are completed; see `retriever.index.embedder.Embedder`."""
        rest: Iterator[Batch] | None = iter(jobs)
        ended = False
        try:
            while rest or self._waiting or self._sent or self._complete:
                if self._complete:
                    yield self._complete.popleft().embedded(self._spool)
                elif rest and not self._waiting:
                    job = next(rest, None)
                    rest = rest if job else None
                    if job:
                        self._open(job)
                elif self._waiting and self._room():
                    self._embed(self._waiting.popleft())
                elif self._pool and (event := self._pool.wait()):
                    self._settle(event, self._sent.pop(event.name))
            ended = True
        finally:
            if self._pool:
                self._pool.close(kill=not ended)
                self._pool = None

    def _open(self, job: Batch) -> None:
        """Cut a batch into pieces, and take from the spool what is done."""
        batch = _OpenBatch(job)
        for group in job.groups:
            for start in range(0, len(group.texts), self._size):
                self._add(batch, group, start, group.texts[start : start + self._size])
        self._look_up(batch, batch.pieces)

    def _add(self, batch: _OpenBatch, group: TextGroup, start: int, texts: Sequence[str]) -> None:
        batch.pieces.append(_Piece(batch, group, start, texts, self._spool.name(texts, group.keys)))

    def _look_up(self, batch: _OpenBatch, pieces: Sequence[_Piece]) -> None:
        """Take pieces of a batch from the spool, or line them up."""
        for piece in pieces:
            if done := self._spool.find(piece.name, len(piece.texts), piece.group.keys):
                self._finish(piece, done)
            else:
                self._waiting.append(piece)
        self._check(batch)

    def _check(self, batch: _OpenBatch) -> None:
        if all(piece.done for piece in batch.pieces):
            self._complete.append(batch)

    def _room(self) -> bool:
        """Whether a piece can be embedded now; the first one starts the workers."""
        if self._start and not self._pool and (encoder := self._waiting[0].group.sources[0].describe()) is not None:
            self._pool = self._start([encoder])
        return self._pool is None or self._pool.room()

    def _embed(self, piece: _Piece) -> None:
        encoder = piece.group.sources[0].describe()
        if self._pool is None or encoder is None:  # what workers cannot load is read here
            tokens: list[int] = []
            encoded = read(piece.group.sources, piece.texts, tokens.append)
            self._finish(piece, Finished(encoded, sum(tokens)))
            self._check(piece.batch)
            return
        instructions = [source.instruction for source in piece.group.sources]
        self._spool.ask(piece.name, Task(piece.texts, instructions, encoder))
        self._sent[piece.name] = piece
        self._pool.send(piece.name)

    def _settle(self, event: Event, piece: _Piece) -> None:
        """Take what became of a piece."""
        patience = _PATIENCE if event.event == "done" else 0
        done = self._spool.find(piece.name, len(piece.texts), piece.group.keys, patience=patience)
        if done is not None:
            self._finish(piece, done)
            self._check(piece.batch)
        elif event.event == "ended":
            self._died(event.how, piece)
        else:
            raise RetrieverError(
                f"A worker embedded a piece that is not in {self._spool.folder}.",
                hint="Name a folder with --spool that all machines reach under the same name.",
            )

    def _finish(self, piece: _Piece, done: Finished) -> None:
        self._on_tokens(done.tokens)
        self._given_up = 0
        piece.done = done

    def _died(self, how: str, piece: _Piece) -> None:
        """Try a piece again that a worker died of; one that two died of is halved, or its one text given up."""
        piece.deaths += 1
        if piece.deaths < _DEATHS:
            self._waiting.appendleft(piece)
            return
        batch, texts = piece.batch, piece.texts
        batch.pieces.remove(piece)
        if len(texts) > 1:
            middle = len(texts) // 2
            self._add(batch, piece.group, piece.start, texts[:middle])
            self._add(batch, piece.group, piece.start + middle, texts[middle:])
            self._look_up(batch, batch.pieces[-2:])
            return
        self._given_up += 1
        if self._given_up == _GIVEN_UP:
            raise RetrieverError(
                f"{_GIVEN_UP} texts in a row ended their workers; the last by {how}.",
                hint="Give fewer --workers if memory is short. What was embedded is kept.",
            )
        batch.refused[texts[0]] = f"It ended {_DEATHS} workers that read it: {how}."
        self._check(batch)


def _joined(dim: int, parts: Sequence[Encoded]) -> Encoded:
    embeddings = [np.empty((0, dim), dtype=np.float32), *(part.embeddings for part in parts)]
    return Encoded(np.concatenate(embeddings), [words for part in parts for words in part.words])
