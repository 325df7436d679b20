"""Calls to `/v1/embeddings`: several in flight, each reply checked, a call that is too large sent in parts."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import anyio
import httpx
import numpy as np
from anyio.from_thread import start_blocking_portal

from retriever.core.door import Door
from retriever.core.errors import EncoderError, EndpointError
from retriever.core.similarity import normalise
from retriever.core.text import counted
from retriever.core.types import JSON, Embeddings
from retriever.encoders.answers.exchange import ReplyError, connected, fetch, usage_of
from retriever.encoders.answers.patience import call_seconds, pace_at, patiently
from retriever.encoders.answers.places import Place
from retriever.encoders.answers.refusals import CONTEXT, Wording, explained, late, says, unreachable
from retriever.encoders.answers.wire import estimated_tokens
from retriever.encoders.remote.served import Served

CHARACTERS_A_CALL = 24_000
"""Most characters of a call of several texts: some 6,000 tokens."""

MOST_BYTES = 32 << 20
"""Bytes of a reply that are read."""

LEAST_CHARACTERS = 200
"""A text that is too long for the model is cut in halves down to so many characters."""

LOOK_SECONDS = 0.2
"""Seconds between two looks at calls in flight, at which whoever waits may end the work."""

OWNER = "retriever"
"""Who owns the models of a server of this package, as it says itself."""

_TOO_LARGE = (400, 413, 422)  # what servers answer to more texts or tokens than they take
_WORDS = Wording(
    made="embeddings",
    kind="embeddings",
    name="http:URL#MODEL",
    kept="What is stored stays, and the same command goes on from there.",
)


@dataclass(frozen=True, slots=True)
class Call:
    """Texts that are sent together.

    Attributes:
        texts: with their prompts.
        rows: their places among all.
        beside: further fields of the request.
    """

    texts: Sequence[str]
    rows: Sequence[int] = ()
    beside: Mapping[str, str] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Tokens that are sent, by estimate."""
        return sum(map(estimated_tokens, [*self.texts, *self.beside.values()]))


def packed(texts: Sequence[str], beside: Mapping[str, str], most: int) -> list[Call]:
    """Return calls that hold some texts, those of like lengths together: ``most`` texts or `CHARACTERS_A_CALL` each."""
    calls: list[Call] = []
    rows: list[int] = []
    characters = 0
    for row in sorted(range(len(texts)), key=lambda row: -len(texts[row])):
        if rows and (len(rows) == most or characters + len(texts[row]) > CHARACTERS_A_CALL):
            calls.append(Call([texts[each] for each in rows], rows, beside))
            rows, characters = [], 0
        rows.append(row)
        characters += len(texts[row])
    return [*calls, Call([texts[each] for each in rows], rows, beside)] if rows else calls


@dataclass(slots=True)
class Caller:
    """Sends calls to one model.

    Args:
        place: of the model.
        served: what is known of it.
        dimensions: numbers of a vector that are asked for; None for the model's own.
        door: lets texts out, and counts them.
        dim: numbers that its vectors have; None where the first reply says it.
    """

    place: Place
    served: Served
    dimensions: int | None
    door: Door
    dim: int | None = None

    def send(self, calls: Sequence[Call], on_call: Callable[[Call | None], None]) -> list[Embeddings]:
        """Send calls, several at a time, and return the vectors (n, dim) of each, of length 1.

        ``on_call`` is told of each that is answered, and of None now and then; what it raises cancels those in flight.

        Raises:
            ConsentError: nobody allowed texts to be sent there; nothing was sent.
            ReadingLimitError: a limit is reached.
            EndpointError: the endpoint cannot be asked, or sends something else than was asked for.
        """
        self.door.open(self.place.host, local=self.place.loopback)
        pending, answered = deque(enumerate(calls)), dict[int, Embeddings]()
        running: dict[Future[Embeddings], int] = {}
        try:
            with ExitStack() as stack:
                portal = stack.enter_context(start_blocking_portal())
                client = stack.enter_context(portal.wrap_async_context_manager(connected(self.place)))
                while pending or running:
                    while pending and self._slot(wait=not running):
                        number, call = pending.popleft()
                        future = portal.start_task_soon(self._ask, client, call)
                        future.add_done_callback(lambda _: self.served.slots.release())
                        running[future] = number
                    done = wait(running, LOOK_SECONDS, FIRST_COMPLETED).done if running else set()
                    for future in done:
                        number = running.pop(future)
                        answered[number] = future.result()
                        on_call(calls[number])
                    if not done:
                        on_call(None)
        finally:
            self.door.close()
        return [answered[number] for number in range(len(calls))]

    def _slot(self, *, wait: bool) -> bool:
        """Return whether a call may begin now; wait a little for that where nothing else is to be waited for."""
        slots = self.served.slots
        return slots.acquire(timeout=LOOK_SECONDS) if wait else slots.acquire(blocking=False)

    def is_own(self) -> bool:
        """Return whether a server of this package serves the model; False where nobody can tell."""
        self.door.open(self.place.host, local=self.place.loopback)

        async def look() -> bool:
            with suppress(ReplyError, httpx.HTTPError, TimeoutError), anyio.fail_after(call_seconds()):
                async with connected(self.place) as client:
                    described = await fetch(client, f"{self.place.url}/models/{quote(self.place.model)}")
                    return isinstance(described, dict) and described.get("owned_by") == OWNER
            return False

        with start_blocking_portal() as portal:
            return portal.call(look)

    async def _ask(self, client: httpx.AsyncClient, call: Call) -> Embeddings:
        """Return the vectors of a call's texts; one that is too large is sent in halves, a text that is, shortened."""
        self.door.send(len(call.texts))
        return await self._in_parts(client, call)

    async def _in_parts(self, client: httpx.AsyncClient, call: Call) -> Embeddings:
        try:
            return await self._vectors(client, call)
        except ReplyError as failure:
            if failure.status not in _TOO_LARGE:
                raise await self._error(client, failure) from None
            parts = self._smaller(call, failure)
            if not parts:
                raise await self._error(client, failure) from None
        return np.concatenate([await self._in_parts(client, part) for part in parts])

    def _smaller(self, call: Call, failure: ReplyError) -> list[Call]:
        """Return what to send in place of a call that was refused; nothing where no smaller one would do."""
        half = len(call.texts) // 2
        if half:
            if not says(failure, CONTEXT):
                self.served.texts = min(self.served.texts, max(half, 1))
            return [replace(call, texts=call.texts[:half]), replace(call, texts=call.texts[half:])]
        (text,) = call.texts
        too_long = says(failure, CONTEXT) or failure.status == 413
        if too_long and len(text) > LEAST_CHARACTERS:
            return [replace(call, texts=[text[: len(text) // 2]])]
        return []

    async def _vectors(self, client: httpx.AsyncClient, call: Call) -> Embeddings:
        """Send a call, again after failures that pass, and return the vectors of its checked reply."""
        seconds, unsent = call_seconds(), True

        async def post() -> Any:  # noqa: ANN401 - JSON
            nonlocal unsent
            await pace_at(self.place).wait(call.tokens)
            self.door.before(call.tokens)
            unsent = False
            try:
                return await self._post(client, call, seconds)
            except httpx.ConnectError:
                unsent = True
                self.door.after(-call.tokens)
                raise

        try:
            made = await patiently(post, self.place, settled=self.served.settled)
        except httpx.TransportError as error:
            raise _away(unreachable(error, self.place, _WORDS)) from None
        except TimeoutError:
            raise _away(late(self.place, seconds, _WORDS)) from None
        finally:  # of a call that waited while another one failed, too
            if unsent:
                self.door.send(-len(call.texts))
        return self._checked(made, len(call.texts))

    async def _post(self, client: httpx.AsyncClient, call: Call, seconds: float) -> Any:  # noqa: ANN401 - JSON
        body: dict[str, JSON] = {"model": self.place.model, "input": list(call.texts), "encoding_format": "float"}
        body.update(call.beside)
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        with anyio.fail_after(seconds):
            made = await fetch(client, f"{self.place.url}/embeddings", body, MOST_BYTES)
        counted = usage_of(made).get("prompt_tokens")
        self.door.after(counted - call.tokens if isinstance(counted, int) else 0)
        return made

    def _checked(self, made: Any, texts: int) -> Embeddings:  # noqa: ANN401 - JSON
        """Return the vectors of a reply.

        Raises:
            ReplyError: it holds no list of vectors.
            EndpointError: it holds others than were asked for.
        """
        data = made.get("data") if isinstance(made, dict) else None
        if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
            raise ReplyError(200, str(made)[:300])
        if len(data) != texts:
            raise self._wrong(f"{counted(len(data), 'vector')} for {counted(texts, 'text')}")
        if [row.get("index", place) for place, row in enumerate(data)] != list(range(texts)):
            raise self._wrong("vectors in another order than that of the texts")
        try:
            vectors = np.array([row["embedding"] for row in data], dtype=np.float32).reshape(texts, -1)
        except (KeyError, TypeError, ValueError):
            raise self._wrong("vectors that are no lists of numbers, or not equally long") from None
        self.dim = self.dim or self.dimensions or vectors.shape[1]
        if vectors.shape[1] != self.dim:
            raise self._wrong(f"vectors of {vectors.shape[1]} numbers, not of {self.dim}")
        if not np.isfinite(vectors).all():
            raise self._wrong("a vector with something that is no number (NaN)")
        if not vectors.any(axis=1).all():
            raise self._wrong("a vector of zeros")
        return normalise(vectors)

    def _wrong(self, sent: str) -> EndpointError:
        return EndpointError(
            f"{self.place.host} ({self.place.model}) sent {sent}.",
            hint=f"See the log of the server, or of a proxy before it. {_WORDS.kept}",
        )

    async def _error(self, client: httpx.AsyncClient, failure: ReplyError) -> EndpointError:
        models = ""
        if failure.status in (400, 404) and not self.served.settled:
            with suppress(ReplyError, httpx.HTTPError, TimeoutError, KeyError, TypeError), anyio.fail_after(5):
                listed = [str(model["id"]) for model in (await fetch(client, f"{self.place.url}/models"))["data"]]
                models = f"It has {', '.join(listed[:5])}." if listed and self.place.model not in listed else ""
        return _away(explained(failure, self.place, models, settled=self.served.settled, words=_WORDS))


def _away(error: EncoderError) -> EndpointError:
    return EndpointError(error.message, hint=error.hint)
