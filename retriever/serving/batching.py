"""A queue before encoders: what waits for one is read together, on a thread of its own, whoever asked.

It knows encoders and texts, and nothing of who asks for vectors or how.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from retriever.core.contexts import Closing
from retriever.core.door import Door
from retriever.core.errors import BusyError, RetrieverError
from retriever.core.protocols import Encoder, WrappedEncoder
from retriever.core.types import Encoded

PASS_TEXTS = 64
PASS_CHARACTERS = 24_000
"""Of a pass of long texts: some 6,000 tokens."""
DOCUMENT_CHARACTERS = 8_000
"""Of a pass of documents, under all its instructions together: as long as a query waits for one to end."""
PATIENCE = 5.0
"""Seconds that documents let queries of the same encoder go before them."""
IDLE_SECONDS = 30.0
"""Seconds after which an encoder's thread ends that has nothing to read."""
WAITING_TEXTS = 4096


@dataclass(frozen=True, slots=True)
class Pass:
    """Figures of one pass of an encoder: texts read, requests served by it, and seconds taken."""

    texts: int
    requests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of some texts: one result an instruction, and the tokens the texts have where they were counted."""

    views: list[Encoded]
    tokens: int = 0


@dataclass(eq=False, slots=True)
class _Request:
    """Texts that somebody waits for, and what of them has been read.

    Attributes:
        on_tokens: told of tokens as they are read; such a request has its passes to itself.
        counts: whether the texts' tokens are counted too, on the thread that reads: tokenizers are not for several.
        done: how many texts have been read.
        parts: what was read, slice by slice: per slice one result an instruction.
        due: when it came or was last read, in seconds, and later by `PATIENCE` for documents; the earliest is next.
    """

    encoder: Encoder
    texts: Sequence[str]
    instructions: tuple[str, ...]
    words: int
    on_tokens: Callable[[int], None] | None = None
    counts: bool = False
    answer: "Future[Reading]" = field(default_factory=Future)
    done: int = 0
    parts: list[list[Encoded]] = field(default_factory=list)
    counted: int = 0
    due: float = 0.0

    def wait_its_turn(self) -> None:
        """Go behind those that wait."""
        self.due = time.monotonic() + (PATIENCE if self.words else 0.0)

    @property
    def characters(self) -> int:
        """Most characters of a pass that it is in."""
        return DOCUMENT_CHARACTERS // len(self.instructions) if self.words else PASS_CHARACTERS

    @property
    def left(self) -> int:
        """Texts still to read."""
        return len(self.texts) - self.done

    def goes_with(self, other: "_Request") -> bool:
        """Whether the texts of both can be read in one pass."""
        return self is other or (
            self.encoder is other.encoder
            and self.instructions == other.instructions
            and self.words == other.words
            and self.on_tokens is other.on_tokens is None
        )


class BatchQueue(Closing):
    """Requests for vectors, read in passes, by a thread for each encoder: a pass holds what waits for one instruction.

    Requests take turns: one of many texts is read a pass at a time, and those that came meanwhile in between. Requests
    under one instruction share a pass in equal parts. Queries go before documents that have waited less than
    `PATIENCE`, and wait for no pass of another encoder. Safe in all threads; a context manager.

    Args:
        pass_texts: most texts of a pass.
        waiting_texts: most texts that may wait; a request beyond them is refused, unless nothing waits.
        on_pass: told of every pass, on the thread that reads.
    """

    def __init__(
        self,
        *,
        pass_texts: int = PASS_TEXTS,
        waiting_texts: int = WAITING_TEXTS,
        on_pass: Callable[[Pass], object] = lambda _: None,
    ) -> None:
        self._pass_texts = pass_texts
        self._waiting_texts = waiting_texts
        self._on_pass = on_pass
        self._changed = threading.Condition()
        self._requests: list[_Request] = []
        self._closed = False
        self._threads: dict[int, threading.Thread] = {}  # by the id of the encoder, which its thread holds

    @property
    def waiting(self) -> int:
        """Texts that wait, those of the pass under way included."""
        with self._changed:
            return self._waiting()

    def submit(self, encoder: Encoder, texts: Sequence[str], instruction: str = "") -> "Future[Reading]":
        """Ask for the vectors of texts under an instruction, and how many tokens they have.

        Cancelled before it is there, it is no longer read.

        Raises:
            BusyError: too much waits already.
            RetrieverError: the queue is closed.
        """
        return self._enter(_Request(encoder, texts, (instruction,), 0, counts=True), bounded=True)

    def read(
        self,
        encoder: Encoder,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int,
        on_tokens: Callable[[int], None] | None,
    ) -> list[Encoded]:
        """Wait for what `Encoder.encode_views` gives; ``on_tokens`` is called on the thread that reads.

        Documents (``words`` above 0) are read however much waits: whoever reads them was let in before.

        Raises:
            BusyError: too much waits already.
            RetrieverError: the queue is closed.
        """
        request = _Request(encoder, texts, tuple(instructions), words, on_tokens)
        return self._enter(request, bounded=words == 0).result().views

    def close(self, seconds: float | None = None) -> None:
        """Refuse what waits and what comes, and wait for the passes under way, or no longer than so many seconds."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._changed:
            self._closed = True
            threads = list(self._threads.values())
            self._changed.notify_all()
        self._fail_waiting(_stopping())
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(None if until is None else max(0.0, until - time.monotonic()))

    def _waiting(self) -> int:
        return sum(request.left for request in self._requests if not request.answer.cancelled())

    def _enter(self, request: _Request, *, bounded: bool) -> "Future[Reading]":
        with self._changed:
            if self._closed:
                raise _stopping()
            waiting = self._waiting() if bounded else 0
            if waiting and waiting + len(request.texts) > self._waiting_texts:
                raise BusyError(
                    f"{waiting} texts wait for the model already, and {self._waiting_texts} may.",
                    hint="Ask again in a moment, or for fewer texts at a time.",
                )
            request.wait_its_turn()
            self._requests.append(request)
            encoder = request.encoder
            if id(encoder) not in self._threads:
                thread = threading.Thread(target=self._work, args=(encoder,), name="encoder", daemon=True)
                self._threads[id(encoder)] = thread
                thread.start()
            self._changed.notify_all()
        return request.answer

    def _work(self, encoder: Encoder) -> None:
        while together := self._next(encoder):
            try:
                self._pass(together)
            except BaseException as error:  # without this thread nobody would be answered any more
                self._fail_waiting(error, encoder)

    def _pass(self, together: list[_Request]) -> None:
        """Read a pass of requests and answer those that are read whole."""
        started, slices = time.monotonic(), self._shares(together)
        _read(slices)
        self._settle([request for request, _ in slices])
        self._on_pass(Pass(sum(len(texts) for _, texts in slices), len(slices), time.monotonic() - started))

    def _fail_waiting(self, error: BaseException, encoder: Encoder | None = None) -> None:
        """Give an error to every request that waits; or to those for an encoder."""
        with self._changed:
            failed = [request for request in self._requests if encoder in (None, request.encoder)]
            self._requests = [request for request in self._requests if request not in failed]
        for request in failed:
            _fail(request, error)

    def _next(self, encoder: Encoder) -> list[_Request]:
        """Wait for an encoder's requests and return those of the next pass; none where it has nothing more to read."""
        with self._changed:
            while not self._closed:
                self._requests = [request for request in self._requests if not request.answer.cancelled()]
                own = [request for request in self._requests if request.encoder is encoder]
                if own:
                    first = min(own, key=lambda request: request.due)
                    return [request for request in own if request.goes_with(first)]
                if not self._changed.wait(IDLE_SECONDS):
                    break
            del self._threads[id(encoder)]
            return []

    def _shares(self, together: list[_Request]) -> list[tuple[_Request, Sequence[str]]]:
        """Return slices of requests that fill a pass, each with as many texts as any other as far as it has them.

        Where texts are long there are fewer of each request, at least one.
        """
        left = self._pass_texts
        taken = {}
        by_size = sorted(together[: self._pass_texts], key=lambda request: request.left)
        for place, request in enumerate(by_size):
            most = min(request.left, left // (len(by_size) - place))
            texts = request.texts[request.done : request.done + most]
            taken[request] = texts[: _fitting(texts, request.characters // len(by_size))]
            left -= len(taken[request])
        return [(request, taken[request]) for request in together if request in taken]

    def _settle(self, read: Sequence[_Request]) -> None:
        """Answer the requests that are read whole, and put the others behind those that wait."""
        with self._changed:
            for request in read:
                if request not in self._requests:
                    continue  # the queue was closed meanwhile
                self._requests.remove(request)
                if request.left and not request.answer.done():
                    request.wait_its_turn()
                    self._requests.append(request)
        for request in read:
            if not request.left:
                try:
                    _finish(request)
                except Exception as error:  # what its passes gave does not fit together
                    _fail(request, error)


def _fitting(texts: Sequence[str], characters: int) -> int:
    """Return how many of the first texts are so long together, at least one."""
    for count, text in enumerate(texts):
        characters -= len(text)
        if characters < 0:
            return max(1, count)
    return len(texts)


def _read(slices: Sequence[tuple[_Request, Sequence[str]]]) -> None:
    """Read the texts of several requests in one pass; where that fails, those of each in a pass of its own."""
    first = slices[0][0]
    texts = [text for _, some in slices for text in some]
    try:
        views = first.encoder.encode_views(texts, first.instructions, words=first.words, on_tokens=first.on_tokens)
        wanted = any(request.counts for request, _ in slices)
        counted = first.encoder.count_tokens(texts) if wanted else [0] * len(texts)
    except BaseException as error:  # a library's panic is no Exception; the thread goes on
        if len(slices) == 1:
            _fail(first, error)
            return
        for pair in slices:
            _read([pair])
        return
    start = 0
    for request, some in slices:
        stop = start + len(some)
        request.parts.append([Encoded(view.embeddings[start:stop], view.words[start:stop]) for view in views])
        request.done += len(some)
        request.counted += sum(counted[start:stop])
        start = stop


def _finish(request: _Request) -> None:
    """Put the slices of a request together and give them to whoever waits."""
    if request.answer.done():
        return
    views = [
        Encoded(np.concatenate([part.embeddings for part in parts]), [words for part in parts for words in part.words])
        for parts in ([part[view] for part in request.parts] for view in range(len(request.instructions)))
    ]
    if request.answer.set_running_or_notify_cancel():
        request.answer.set_result(Reading(views, request.counted))


def _fail(request: _Request, error: BaseException) -> None:
    if not request.answer.done() and request.answer.set_running_or_notify_cancel():
        request.answer.set_exception(error)


def read_queries(encoder: Encoder, queries: Sequence[str], instruction: str) -> Reading:
    """Return queries as an encoder that has prompts for them reads them."""
    vectors = encoder.encode_queries(queries, instruction=instruction)
    return Reading([Encoded(vectors, [[] for _ in queries])], sum(encoder.count_tokens(queries)))


def _stopping() -> RetrieverError:
    return BusyError("The server is stopping.", hint="Ask again when it is back.")


class QueuedEncoder(WrappedEncoder):
    """An encoder whose texts are read by a thread of a queue, together with what others ask of it."""

    def __init__(self, encoder: Encoder, queue: BatchQueue) -> None:
        super().__init__(encoder)
        self._queue = queue

    def through(self, door: Door) -> Encoder:
        """Return the encoder without a queue where it sends texts through a door: its server has one."""
        sent = self._encoder.through(door)
        return self if sent is self._encoder else sent

    def submit(self, texts: Sequence[str], instruction: str = "") -> "Future[Reading]":
        """Ask for vectors without waiting; as `BatchQueue.submit`."""
        return self._queue.submit(self._encoder, texts, instruction)

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Wait for the encoder's thread to read; nothing is asked of it where there are no texts."""
        if not texts or not instructions:
            return self._encoder.encode_views(texts, instructions, words=words, on_tokens=on_tokens)
        return self._queue.read(self._encoder, list(texts), instructions, words=words, on_tokens=on_tokens)
