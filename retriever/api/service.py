"""Service: what all ways in share, namely one model, open indexes, jobs, and threads."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from retriever.api.problems import NotFoundError
from retriever.api.settings import ServerSettings
from retriever.api.work import Workers, in_time
from retriever.core.errors import BusyError, IndexNotFoundError, RetrieverError, UsageError
from retriever.core.results import SearchResult
from retriever.core.types import Embeddings
from retriever.index import encoding
from retriever.index.readers import DEFAULT_PLAIN
from retriever.serving.batching import BatchQueue, Pass, QueuedEncoder
from retriever.serving.encoder_pool import EncoderPool
from retriever.serving.index_pool import IndexPool, index_folder
from retriever.serving.jobs import Job, Jobs
from retriever.serving.progress import indexing_progress
from retriever.serving.shards import served_shards
from retriever.shards.index import ShardedIndex
from retriever.workspace import Index

VERDICT = "verdict "
"""What the names of jobs begin with that look into instructions."""

SEPARATOR = "@"
"""What stands between the name of a model and that of a saved instruction."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of texts, (n, dim), and how many tokens the texts have."""

    vectors: Embeddings
    tokens: int


class Service:
    """What a server serves; its methods may be called from any thread.

    Args:
        settings: of the server.
        load: gives the encoder of an index's description.
        on_pass: told of every pass of the model.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        load: encoding.Loader = encoding.load_described,
        on_pass: Callable[[Pass], object] = lambda one: None,
    ) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.queue = BatchQueue(waiting_texts=settings.limits.waiting_texts, on_pass=on_pass)
        self._encoders = EncoderPool(load, wrap=lambda encoder: QueuedEncoder(encoder, self.queue))
        self.indexes = IndexPool(index_folder(settings.index.absolute()), self._encoders)
        self._shards = None if settings.ray is None else served_shards(settings.index, self._encoders, settings.ray)
        self.jobs = Jobs()
        self._loaded: dict[str, QueuedEncoder] = {}
        self._looked: set[tuple[str, str]] = set()
        self.workers = Workers(settings.limits)

    @property
    def folder(self) -> Path:
        """The folder that what is served lies in."""
        return self.indexes.folder.folder if self._shards is None else self._shards.path.parent

    def names(self) -> list[str]:
        """Return the names of the indexes that are there now."""
        return self.indexes.folder.names() if self._shards is None else [self._shards.path.name]

    def index(self, name: str) -> Index | ShardedIndex:
        """Return an index, open.

        Raises:
            IndexNotFoundError: there is none of that name.
        """
        if self._shards is None:
            return self.indexes.get(name)
        if name != self._shards.path.name:
            raise IndexNotFoundError(f"There is no index {name!r} here.", hint="Only shards are served.")
        return self._shards

    def whole_index(self, name: str) -> Index:
        """Return an index in one folder, open.

        Raises:
            IndexNotFoundError: there is none of that name.
            UsageError: it is in shards.
        """
        found = self.index(name)
        if isinstance(found, ShardedIndex):
            raise UsageError(
                f"{name} is in shards, which are searched, added to and deleted from.",
                hint="Ask for this where the index is served from one folder.",
            )
        return found

    def model_names(self) -> list[str]:
        """Return what a request may name as its model: the models, and each with every saved instruction."""
        encoder = self.settings.encoder
        return [*self._saved(), *([DEFAULT_PLAIN] if encoder != DEFAULT_PLAIN else [])]

    def instruction_of(self, model: str, instruction: str) -> str:
        """Return the instruction that a request means by its model and its own instruction.

        Raises:
            NotFoundError: there is no such model or saved instruction.
            UsageError: it names two instructions, or the model takes none.
        """
        known = self.model_names()
        if model not in known:
            raise NotFoundError(f"There is no model {model!r} here.", hint=f"Known: {', '.join(known[:12])}.")
        saved = self._saved().get(model)
        if instruction and saved:
            raise UsageError(
                f"The request brings an instruction and names the saved one {model!r}.", hint="Leave one of them out."
            )
        if instruction and model == DEFAULT_PLAIN:
            raise UsageError(
                f"{model} reads texts as they are and takes no instruction.",
                hint=f"Ask {self.settings.encoder}, or leave the instruction out."
                if self.settings.encoder != DEFAULT_PLAIN
                else "Leave the instruction out, or serve another with --encoder.",
            )
        return saved or instruction

    async def loaded(self, model: str) -> QueuedEncoder:
        """Return a model by its name without holding up other requests while it is loaded.

        Raises:
            EncoderError: it cannot be loaded.
        """
        name = DEFAULT_PLAIN if model == DEFAULT_PLAIN else self.settings.encoder
        known = self._loaded.get(name)
        if known is not None:
            return known
        ours = name == self.settings.encoder
        encoder = await self.workers.run(lambda: self._encoders.named(name) if ours else self._encoders.plain())
        if not isinstance(encoder, QueuedEncoder):
            raise TypeError("An encoder of the pool is not queued.")
        return self._loaded.setdefault(name, encoder)  # and it stays the same for as long as the server runs

    def make_room(self) -> None:
        """Forget the jobs that were over first, beyond those that are kept, so that another may begin.

        Raises:
            BusyError: as many jobs as may run are running.
        """
        jobs = self.jobs.named("")
        over = [name for name, job in jobs.items() if job.snapshot().over]
        for name in over[: max(0, len(over) - self.limits.kept_jobs + 1)]:
            self.jobs.forget(name)
        running = self.running_jobs()
        if running >= self.limits.jobs:
            raise BusyError(f"{running} jobs are running already.", hint="Wait for one, or cancel it.")

    async def embed(self, model: str, texts: Sequence[str], instruction: str) -> Embedded:
        """Embed texts together with what else waits for the model.

        Raises:
            EncoderError: the model cannot be loaded.
            BusyError: too much waits already.
            TookTooLongError: it is not done in time.
        """
        encoder = await self.loaded(model)
        found = await in_time(encoder.submit(texts, instruction), self.limits.seconds)
        return Embedded(found.views[0].embeddings, found.tokens)

    def look_into(self, name: str, result: SearchResult) -> None:
        """Begin to find out whether the model follows a search's instruction, where nobody has looked yet.

        It goes on beside the requests, one at a time, and shows in later answers.
        """
        if result.verdict is not None or result.view is None or not result.instruction or self._shards is not None:
            return
        asked = (name, result.instruction)
        if result.path == "complete" and asked in self._looked:
            return  # it holds too few texts to say
        with suppress(RetrieverError):  # one is under way
            self.jobs.start(f"{VERDICT}{name}", "The verdict", lambda job: self._judge(job, *asked), alone=VERDICT)
            self._looked.add(asked)

    def _judge(self, job: Job, name: str, instruction: str) -> None:
        self.whole_index(name).judge(instruction, progress=indexing_progress(job))

    def running_jobs(self) -> int:
        """Count the jobs under way that somebody asked for."""
        jobs = self.jobs.named("").items()
        return sum(not job.snapshot().over for name, job in jobs if not name.startswith(VERDICT))

    def close(self) -> None:
        """Ask all jobs to end, and refuse what waits for the model; what goes on is given a little time and left."""
        until = time.monotonic() + self.limits.grace_seconds
        running = [job for job in self.jobs.named("").values() if not job.snapshot().over]
        for job in running:
            job.stop()
        self.workers.close()
        for job in running:
            job.wait(max(0.0, until - time.monotonic()))
        self.queue.close(max(0.0, until - time.monotonic()))
        if self._shards is not None:
            self._shards.close()

    def _saved(self) -> dict[str, str]:
        """The model's names: its own, and with each saved instruction, which stands beside it."""
        encoder, saved = self.settings.encoder, self.settings.instructions
        return {encoder: "", **{f"{encoder}{SEPARATOR}{name}": saved[name] for name in sorted(saved)}}
