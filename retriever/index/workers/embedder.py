"""Embeds shards by workers: cuts them into pieces, has each embedded once, and puts the shards together again."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from retriever.core.errors import RetrieverError
from retriever.core.types import JSON, Encoded
from retriever.index.embedder import EmbeddedShard, OnTokens, Shard, TextGroup
from retriever.index.encoding import describe
from retriever.index.readers import Readers
from retriever.index.workers.ledger import Finished, Ledger, Task
from retriever.index.workers.pool import Outcome, Pool
from retriever.store.views import View

PIECE = 250
"""Most texts of a piece: few enough that workers end together, enough for full batches."""

_DEATHS = 2  # of workers at a piece, after which it is halved or, of one text, given up
_PATIENCE = 60.0  # seconds until a file of another machine is seen here: shared folders remember what was not there
_GIVEN_UP = 10  # texts in a row with nothing embedded between: it is not the texts

StartPool = Callable[[Sequence[Mapping[str, JSON]]], Pool]
"""Starts workers that load the encoders of some descriptions first."""


@dataclass(eq=False, slots=True)
class _Piece:
    """Texts of one group of a shard under way, from the place ``start`` on."""

    shard: "_OpenShard"
    group: int
    start: int
    texts: Sequence[str]
    views: Sequence[View]
    deaths: int = 0


@dataclass(eq=False, slots=True)
class _OpenShard:
    """A shard under way: pieces that are not embedded, those that are by group and place, texts given up and why."""

    shard: Shard
    left: int = 0
    names: list[str] = field(default_factory=list)
    found: dict[tuple[int, int], tuple[_Piece, Finished]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def embedded(self, on_stored: Callable[[], None]) -> EmbeddedShard:
        """Return the shard with its vectors, without the texts that were given up."""
        groups: list[TextGroup] = []
        encoded: list[list[Encoded]] = []
        for number, group in enumerate(self.shard.groups):
            parts = [self.found[key] for key in sorted(self.found) if key[0] == number]
            groups.append(TextGroup([text for piece, _ in parts for text in piece.texts], group.views))
            encoded.append(
                [_joined(view, [done.encoded[place] for _, done in parts]) for place, view in enumerate(group.views)]
            )
        tokens = sum(done.tokens for _, done in self.found.values())
        return EmbeddedShard(Shard(self.shard.number, groups), encoded, tokens, self.refused, on_stored)


class WorkerEmbedder:
    """Embeds by workers, from what the ledger holds first.

    Args:
        readers: what to embed with; workers load encoders of the same descriptions.
        on_tokens: told of a piece's tokens when it is there.
        ledger: where pieces lie.
        start: starts the workers, when there is something to embed; None to embed in this process.
        piece: most texts of a piece.
    """

    def __init__(
        self,
        readers: Readers,
        on_tokens: OnTokens,
        *,
        ledger: Ledger,
        start: StartPool | None = None,
        piece: int = PIECE,
    ) -> None:
        self._readers = readers
        self._on_tokens = on_tokens
        self._ledger = ledger
        self._start = start
        self._size = piece
        self._pool: Pool | None = None
        self._waiting: deque[tuple[str, _Piece]] = deque()
        self._sent: dict[str, _Piece] = {}
        self._complete: deque[_OpenShard] = deque()
        self._given_up = 0  # in a row

    def embed(self, jobs: Iterable[Shard]) -> Iterator[EmbeddedShard]:
        """Yield every shard embedded, in the order they are completed; see `retriever.index.embedder.Embedder`."""
        rest = iter(jobs)
        more = True
        ended = False
        try:
            while more or self._waiting or self._sent or self._complete:
                while self._complete:
                    shard = self._complete.popleft()
                    yield shard.embedded(partial(self._ledger.remove, shard.names))
                if more and not self._waiting:
                    job = next(rest, None)
                    more = job is not None
                    if job is not None:
                        self._open(job)
                elif self._waiting and self._room():
                    self._send(*self._waiting.popleft())
                elif self._sent or self._waiting:
                    self._wait()
            ended = True
        finally:
            if self._pool is not None:
                self._pool.close(kill=not ended)
                self._pool = None

    def _open(self, job: Shard) -> None:
        """Cut a shard into pieces, and take what is done from the ledger."""
        opened = _OpenShard(job)
        pieces = [
            _Piece(opened, number, start, group.texts[start : start + self._size], group.views)
            for number, group in enumerate(job.groups)
            for start in range(0, len(group.texts), self._size)
        ]
        opened.left = len(pieces)
        for piece in pieces:
            self._take(piece)
        if not pieces:
            self._complete.append(opened)

    def _take(self, piece: _Piece) -> None:
        """Take a piece from the ledger, or line it up."""
        name = self._ledger.name(piece.texts, piece.views)
        done = self._ledger.find(name, len(piece.texts), piece.views)
        if done is None:
            self._waiting.append((name, piece))
        else:
            self._on_tokens(done.tokens)
            self._finish(name, piece, done)

    def _room(self) -> bool:
        """Whether a piece can be sent now; the first one starts the workers."""
        if self._start is not None and self._pool is None:
            task = self._task(self._waiting[0][1])
            self._pool = self._start([one for one in (task.plain, task.question) if one is not None])
        return self._pool is None or self._pool.room()

    def _send(self, name: str, piece: _Piece) -> None:
        if self._pool is None:
            self._finish(name, piece, self._embedded_here(piece))
            return
        self._ledger.ask(name, self._task(piece))
        self._sent[name] = piece
        self._pool.send(name)

    def _embedded_here(self, piece: _Piece) -> Finished:
        tokens = 0

        def count(more: int) -> None:
            nonlocal tokens
            tokens += more
            self._on_tokens(more)

        instructions = [view.key.instruction for view in piece.views]
        return Finished(self._readers.encode_views(piece.texts, instructions, count), tokens)

    def _task(self, piece: _Piece) -> Task:
        readers, instructions = self._readers, [view.key.instruction for view in piece.views]
        plain = readers.two and "" in instructions
        question = any(instructions) or not readers.two
        return Task(
            piece.texts,
            instructions,
            describe(readers.question) if question else None,
            describe(readers.base) if plain else None,
            readers.two,
        )

    def _wait(self) -> None:
        if self._pool is None:
            raise RetrieverError("There is nothing to wait for.")
        for outcome in self._pool.wait():
            piece = self._sent.pop(outcome.name)
            patience = 0 if outcome.died else _PATIENCE
            done = self._ledger.find(outcome.name, len(piece.texts), piece.views, patience=patience)
            if done is None and outcome.died:
                self._died(outcome, piece)
                continue
            if done is None:
                raise RetrieverError(
                    f"A worker embedded a piece that is not in {self._ledger.folder}.",
                    hint="Name a folder with --ledger that all machines reach under the same name.",
                )
            self._on_tokens(done.tokens)
            self._finish(outcome.name, piece, done)

    def _finish(self, name: str, piece: _Piece, done: Finished) -> None:
        self._given_up = 0
        piece.shard.names.append(name)
        piece.shard.found[piece.group, piece.start] = piece, done
        self._settled(piece)

    def _settled(self, piece: _Piece) -> None:
        piece.shard.left -= 1
        if not piece.shard.left:
            self._complete.append(piece.shard)

    def _died(self, outcome: Outcome, piece: _Piece) -> None:
        """Try a piece again that a worker died of; one that two died of is halved, or its one text given up."""
        piece.deaths += 1
        if piece.deaths < _DEATHS:
            self._waiting.appendleft((outcome.name, piece))
        elif len(piece.texts) > 1:
            middle = len(piece.texts) // 2
            piece.shard.left += 1
            for start, texts in ((0, piece.texts[:middle]), (middle, piece.texts[middle:])):
                self._take(_Piece(piece.shard, piece.group, piece.start + start, texts, piece.views))
        else:
            self._given_up += 1
            if self._given_up == _GIVEN_UP:
                raise RetrieverError(
                    f"{_GIVEN_UP} texts in a row ended their workers; the last by {outcome.died}.",
                    hint="Give fewer --workers if memory is short. What was embedded is kept.",
                )
            piece.shard.refused[piece.texts[0]] = f"It ended {_DEATHS} workers that read it: {outcome.died}."
            self._settled(piece)


def _joined(view: View, parts: Sequence[Encoded]) -> Encoded:
    embeddings = [np.empty((0, view.key.dim), dtype=np.float32), *(one.embeddings for one in parts)]
    return Encoded(np.concatenate(embeddings), [words for one in parts for words in one.words])
