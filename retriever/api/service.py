"""The shared parts of all ways into the server: one model, open indexes, jobs, and threads for what blocks."""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from retriever.api.problems import NotFoundError, NotReadyError, TookTooLongError, UnknownIndexError, result_for_clients
from retriever.api.settings import READING, ServerSettings
from retriever.api.workers import Workers, in_time
from retriever.core.errors import BusyError, IndexNotFoundError, RetrieverError, UsageError
from retriever.core.requests import SearchRequest
from retriever.core.results import SearchResult, Settling
from retriever.core.text import counted, require_text
from retriever.index import encoding
from retriever.index.asking.limits import read_limits
from retriever.index.sources.encoders import DEFAULT_BASE
from retriever.index.teaching.answering import DEFAULT, GIVEN
from retriever.serving import batching
from retriever.serving.batching import BatchQueue, Pass, QueuedEncoder
from retriever.serving.foreground import Foreground
from retriever.serving.jobs import Job, Jobs, Status
from retriever.serving.lines import Line
from retriever.serving.pools import EncoderPool, IndexPool, index_folder
from retriever.serving.reading_on import ReadingOn
from retriever.serving.readings import Reading, Readings
from retriever.workspace import Index, limited

VERDICT, GIVING = "verdict ", "answers "
"""Prefixes of the names of jobs that look into instructions, and that store answers: nobody can ask for them."""

MOST_LOOKED = 1000
"""Instructions looked into last that are remembered, so that no search looks into them again."""

KEPT_SECONDS = 60.0
"""That what the reading of a search came to is kept for who asks the same again."""

SEPARATOR = "@"
"""Separator between the name of a model and that of a saved instruction."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a search as far as it is known, and the search that reads on for a better one, where one does."""

    result: SearchResult
    reading: Reading | None = None


class Service:
    """The indexes and models that a server serves; its methods may be called from any thread.

    ``load`` gives the encoder of an index's description; ``on_pass`` is told of every pass of the model.

    Raises:
        InputError: `settings.toml` in the folder of indexes cannot be read.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        load: encoding.Loader = encoding.load_described,
        on_pass: Callable[[Pass], object] = lambda _: None,
    ) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.queue = BatchQueue(waiting_texts=settings.limits.waiting_texts, on_pass=on_pass)
        self._encoders = EncoderPool(load, wrap=lambda encoder: QueuedEncoder(encoder, self.queue))
        self.indexes = IndexPool(index_folder(settings.index.absolute()), self._encoders)
        self._reading = read_limits(self.folder).filled(READING)
        self.jobs = Jobs()
        self.readings = Readings(running=settings.limits.readings, waiting=settings.limits.waiting_readings)
        self.foreground = Foreground()
        self.reading_on = ReadingOn(self.indexes.folder, self._encoders, self._rests, settings.read_on)
        self._loaded: dict[str, QueuedEncoder] = {}
        self._looked: deque[tuple[str, str]] = deque(maxlen=MOST_LOOKED)
        self.workers = Workers(settings.limits)
        self._stopping = False

    @property
    def folder(self) -> Path:
        """The folder that what is served lies in."""
        return self.indexes.folder.folder

    def names(self) -> list[str]:
        """Return the names of the indexes that are there now."""
        return self.indexes.folder.names()

    def index(self, name: str, *, reader: str | None = None, rerank: str | None = None) -> Index:
        """Return an index, open, for one request: its limits on what language models read are counted from here.

        A client may name a reader and a reranker that the index knows, and no new address or folder.

        Raises:
            UnknownIndexError: there is none of that name.
            UsageError: the reader or the reranker is none of the index's.
        """
        try:
            index = limited(self.indexes.get(name), self._reading)
        except IndexNotFoundError:
            raise UnknownIndexError(f"There is no index {name!r} here.", hint="GET /indexes lists them.") from None
        if reader and reader not in (known := [DEFAULT, GIVEN, *index.teaching.readers()]):
            raise UsageError(f"{name} has no reader {reader!r}.", hint=f"Its readers: {', '.join(known)}.")
        if rerank and rerank not in (used := index.rerankers()):
            hint = f"Its rerankers: {', '.join(used)}." if used else "Who keeps the index can search with one first."
            raise UsageError(f"{name} has no reranker {rerank!r}.", hint=hint)
        return index

    def status(self, name: str) -> dict[str, Any]:
        """Return what an index holds, as JSON has it, and what is read on of it; errors as `index`."""
        index = self.index(name)
        return {**index.status().to_json(), "path": name, "reading_on": self.read_on(index)}

    def read_on(self, index: Index) -> dict[str, Any] | None:
        """Return what is read on of an index while nobody waits, as JSON has it; None where nothing ever is."""
        waiting = self.reading_on.of(index)
        return None if waiting is None else waiting.to_json()

    def read_by(self, name: str, reader: str | None, *instructions: str) -> Index:
        """Return an index of which a reader serves some instructions from now on; None or blank for no change.

        Raises `UsageError` without an instruction; other errors as `index`.
        """
        index = self.index(name, reader=reader)
        if reader:
            for instruction in instructions:
                index.teaching.read_by(instruction, reader)
        return index

    async def give_answers(self, name: str, instruction: str, answers: Mapping[str, str | None]) -> dict[str, Any]:
        """Store a program's answers to a question, by the ids of texts, and return how the question stands.

        Raises:
            UsageError: beyond the limits.
            BusyError: too many jobs wait.
            TookTooLongError: others write to the index for longer than a request may take. Nothing was stored, unless
                storing had begun: that goes on.
            RetrieverError: as `Teaching.give_answers`.
        """
        self.limits.check_instruction(instruction)
        self.limits.check_documents(len(answers))
        require_text(*answers, *filter(None, answers.values()))

        def work(_: Job) -> dict[str, Any]:
            teaching = self.index(name).teaching
            teaching.give_answers(instruction, answers, author="program")
            return {"instruction": instruction, **asdict(teaching.answers_status(instruction))}

        await self.workers.run(lambda: self.index(name))
        self._check_waiting()
        id = f"{GIVING}{secrets.token_hex(8)}"
        job = self.jobs.start(id, "Taking answers", work, line=self.indexes.line(name))
        try:
            await self.wait_for(job, self.limits.seconds)
        finally:  # the client may have gone
            if job.snapshot().status == "waiting":
                job.stop()
        now = job.snapshot()
        self.jobs.forget(id)
        if now.error is not None:
            raise now.error
        if now.status != "done":
            raise TookTooLongError(
                f"The answers were not stored within {self.limits.seconds:g} seconds.", hint="Send them again later."
            )
        return cast("dict[str, Any]", now.result)

    def model_names(self) -> list[str]:
        """Return what a request may name as its model: the models, and each with every saved instruction."""
        encoder = self.settings.encoder
        return [*self._saved(), *([DEFAULT_BASE] if encoder != DEFAULT_BASE else [])]

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
        if instruction and model == DEFAULT_BASE:
            raise UsageError(
                f"{model} reads texts as they are and takes no instruction.",
                hint=f"Ask {self.settings.encoder}, or leave the instruction out."
                if self.settings.encoder != DEFAULT_BASE
                else "Leave the instruction out.",
            )
        return saved or instruction

    async def loaded(self, model: str) -> QueuedEncoder:
        """Return a model by its name, loaded without holding up other requests; `EncoderError` where it cannot be."""
        name = DEFAULT_BASE if model == DEFAULT_BASE else self.settings.encoder
        known = self._loaded.get(name)
        if known is not None:
            return known
        ours = name == self.settings.encoder
        encoder = await self.workers.run(lambda: self._encoders.named(name) if ours else self._encoders.plain())
        # and it stays the same for as long as the server runs
        return self._loaded.setdefault(name, cast("QueuedEncoder", encoder))

    def make_room(self, line: Line | None = None) -> None:
        """Forget jobs that were over first, beyond those that are kept.

        Raises:
            BusyError: no other may begin, nor wait in the line of those that write to an index.
        """
        over = [name for name, job in self.jobs.named("").items() if job.over]
        for name in over[: max(0, len(over) - self.limits.kept_jobs + 1)]:
            self.jobs.forget(name)
        self._check_waiting()
        running = self.running_jobs()
        if running >= self.limits.jobs and not (line and line.busy):
            raise BusyError(f"Already running: {counted(running, 'job')}.", hint="Wait for one, or cancel it.")

    def _check_waiting(self) -> None:
        waiting = list(self.unfinished_jobs().values()).count("waiting")
        if waiting >= self.limits.waiting_jobs:
            jobs = counted(waiting, "job")
            raise BusyError(f"Already waiting to write to an index: {jobs}.", hint="Ask again when some have ended.")

    def check_ready(self) -> None:
        """Raise `NotReadyError` where requests cannot be answered."""
        if self._stopping:
            raise NotReadyError("The server is stopping.", hint="Ask again when it is back.")
        try:
            next(self.folder.iterdir(), None)
        except OSError as error:
            raise NotReadyError(
                "The folder of indexes is not there, or cannot be read.", hint="Whoever runs the server can mend this."
            ) from error
        if self.indexes.folder.only and not self.names():
            raise NotReadyError("The index is not there any more.", hint="Whoever runs the server can mend this.")

    async def wait_for(self, job: Job, seconds: float) -> None:
        """Wait for the end of a job, no longer than a request may take, without a thread for it."""
        until = asyncio.get_running_loop().time() + min(seconds, self.limits.seconds)
        pause = 0.005
        while not job.over and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(pause)
            pause = min(0.2, pause * 1.5)

    async def embed(
        self, model: str, texts: Sequence[str], instruction: str, *, queries: bool = False
    ) -> batching.Reading:
        """Embed texts together with what else waits for the model; errors as `loaded` and `Workers.run`.

        Of a model that reads queries in another way they are read by themselves.
        """
        with self.foreground.waited_for():
            encoder = await self.loaded(model)
            if queries and encoder.spec.prompts:
                return await self.workers.run(lambda: batching.read_queries(encoder, texts, instruction))
            return await in_time(encoder.submit(texts, instruction), self.limits.seconds)

    async def search(self, name: str, request: SearchRequest, *, wait: float) -> Answer:
        """Search an index: the settled answer, or where it takes longer than so many seconds the first one.

        Texts are read for the settled one in the background, once for all who ask the same, also when they go away.

        Raises:
            OverloadedError: too many searches wait for texts to be read.
            RetrieverError: the search failed; as `Index.search`.
        """
        until = asyncio.get_running_loop().time() + wait
        answer = await self.workers.run(lambda: self.begin(name, request))
        if answer.reading is None:
            return answer
        await self.wait_for(answer.reading.job, until - asyncio.get_running_loop().time())
        return self.so_far(answer)

    def so_far(self, answer: Answer) -> Answer:
        """Return an answer to a search with what is known by now; raise the error that ended its reading."""
        if answer.reading is None:
            return answer
        now = answer.reading.job.snapshot()
        if now.error is not None:
            answer.reading.told = True
            raise now.error
        if now.over:  # without a result where somebody stopped it
            return Answer(answer.result if now.result is None else now.result)
        read = 0 if now.progress is None else now.progress["done"]
        return replace(answer, result=replace(answer.result, settling=Settling(0, read, None, settled=False)))

    def begin(self, name: str, request: SearchRequest) -> Answer:
        """Return the first answer to a search, with the reading for the settled one; errors as `search`."""
        index = self.index(name, reader=request.reader, rerank=request.rerank)
        key = (index.identity, request)
        under_way: list[Job] = []  # the one that goes on with these answers

        def report(done: int, texts: int) -> None:
            under_way[0].tell({"done": done, "total": texts})
            under_way[0].check()

        answers = map(result_for_clients, index.search_progressively(request, report))
        with self.foreground.waited_for():
            first = next(answers)

        def settle(job: Job) -> tuple[SearchResult, int]:
            under_way.append(job)
            *_, last = first, *answers
            self.look_into(name, last)
            return last, index.revision

        if first.final:
            return Answer(settle(Job("The search"))[0])
        known = self.readings.known(key)
        if known is not None and (now := known.job.snapshot()).over and now.idle < KEPT_SECONDS:
            if known.revision == index.revision:
                return Answer(now.result)  # it did not settle: later the same search reads on
            if now.error is not None and not known.told:
                return self.so_far(Answer(first, known))
        return Answer(first, self.readings.join(key, (index.identity, request.instruction), name, settle))

    def find_job(self, id: str) -> Job | None:
        """Return a job that clients may ask for, or the reading of a search, by its id."""
        reading = self.readings.find(id)
        return self.jobs.find(id) if reading is None else reading.job

    def look_into(self, name: str, result: SearchResult) -> None:
        """Begin to find out whether the model follows a search's instruction, where nobody has looked yet.

        It goes on beside the requests, one at a time, and shows in later answers.
        """
        if result.verdict is not None or result.view is None or not result.instruction:
            return
        key = (name, result.instruction)
        if result.path == "complete" and key in self._looked:
            return  # it holds too few texts to say
        with suppress(RetrieverError):  # one is under way
            self.jobs.start(f"{VERDICT}{name}", "The verdict", lambda job: self._judge(job, *key), alone=VERDICT)
            if key not in self._looked:
                self._looked.append(key)

    def _judge(self, job: Job, name: str, instruction: str) -> None:
        self.index(name).teaching.judge(instruction, progress=job.follow)

    def running_jobs(self) -> int:
        """Count the jobs under way that clients can ask for."""
        jobs = self.unfinished_jobs().items()
        return sum(status != "waiting" for name, status in jobs if not name.startswith((VERDICT, GIVING)))

    def unfinished_jobs(self) -> dict[str, Status]:
        """Return how the jobs stand that are not over, by name."""
        now = {name: job.snapshot() for name, job in self.jobs.named("").items()}
        return {name: snapshot.status for name, snapshot in now.items() if not snapshot.over}

    def _rests(self) -> bool:
        """Whether nobody waits for anything, and nothing goes on that somebody began."""
        return self.foreground.rests and not self.readings.unfinished() and self.jobs.idle

    def close(self) -> None:
        """Ask all jobs to end, and refuse what waits for the model; what goes on is given a little time and left."""
        self._stopping = True
        until = time.monotonic() + self.limits.grace_seconds
        running = [job for job in self.jobs.named("").values() if not job.over]
        running += self.readings.unfinished()
        for job in running:
            job.stop()
        self.workers.close()
        for job in running:
            job.wait(max(0.0, until - time.monotonic()))
        self.reading_on.close(max(0.0, until - time.monotonic()))
        self.queue.close(max(0.0, until - time.monotonic()))

    def _saved(self) -> dict[str, str]:
        """The model's names: its own, and with each saved instruction, which stands beside it."""
        encoder, saved = self.settings.encoder, self.settings.instructions
        return {encoder: "", **{f"{encoder}{SEPARATOR}{name}": saved[name] for name in sorted(saved)}}
