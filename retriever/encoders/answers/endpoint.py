"""A chat endpoint: one call at a time is sent, in the way that this endpoint was found to understand.

It uses the `openai` client, whose retries wait longer each time, or as long as the server's ``Retry-After`` says.
"""

import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Literal, Protocol, TypeVar

import anyio
import httpx
import openai

from retriever.core.errors import EncoderError
from retriever.core.types import JSON
from retriever.encoders.answers.answerer import Unread
from retriever.encoders.answers.places import API_KEY, Place
from retriever.encoders.answers.refusals import explained, is_about_context, names, no_completion
from retriever.encoders.answers.wire import Format, Reply, estimated_tokens

TEXTS_PER_CALL = 6
RETRIES = 5
FIRST_RETRIES = 2
"""Retries until an endpoint has answered once: one that is not there is told soon."""

SECONDS = 120.0
"""After so many seconds without an answer a call is sent again."""

TOKENS_A_MINUTE = "RETRIEVER_TOKENS_A_MINUTE"
"""The variable that limits the tokens of a minute, sent and allowed in replies; without it there is no limit."""

CONNECT_SECONDS = 10.0
THINKING_TOKENS = 4096
"""Tokens that a model may write besides its answers once it was seen to think."""

_PLAIN_HEADERS = frozenset(
    {"host", "accept", "accept-encoding", "connection", "content-length", "content-type", "user-agent"}
)


@dataclass(frozen=True, slots=True)
class Abilities:
    """Ways of asking that an endpoint was found to understand; worth keeping, since finding them out costs calls.

    Attributes:
        form: the rung of the ladder.
        settled: whether a reply of that form was usable once; until then the ladder is tried.
        token_limit: name of the parameter for the most tokens of a reply.
        temperature: whether a temperature of 0 is accepted.
        thinks: whether the model writes more than its answers.
        texts_per_call: most texts of a call; 1 for models that leave texts out or mix them up.
    """

    form: Format = Format.SCHEMA
    settled: bool = False
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True
    thinks: bool = False
    texts_per_call: int = TEXTS_PER_CALL


class CheckedReply(Protocol):
    """A checked reply; ``whole`` is the reason where nothing of it could be used."""

    @property
    def whole(self) -> Unread | None:
        """The reason; None where something could be used."""
        ...


C = TypeVar("C", bound=CheckedReply)
C_co = TypeVar("C_co", bound=CheckedReply, covariant=True)


class Call(Protocol[C_co]):
    """What a call sends in each form, and how its reply is checked."""

    @property
    def reply_tokens(self) -> int:
        """Tokens that the reply may have."""
        ...

    def messages(self, form: Format) -> list[dict[str, str]]:
        """Return the messages."""
        ...

    def response_format(self, form: Format) -> JSON:
        """Return the ``response_format``; None where the rung has none."""
        ...

    def check(self, reply: Reply, form: Format) -> C_co:
        """Check the reply, whatever the server promised of its form."""
        ...


class Pace:
    """Spreads calls so that a minute has at most so many tokens, by their estimate; 0 sets no limit."""

    def __init__(self, tokens_a_minute: int) -> None:
        self._seconds_a_token = 60.0 / tokens_a_minute if tokens_a_minute else 0.0
        self._free = 0.0

    async def wait(self, tokens: int) -> None:
        """Wait until a call of so many tokens may begin."""
        now = time.monotonic()
        begin = max(now, self._free)
        self._free = begin + tokens * self._seconds_a_token
        await anyio.sleep(begin - now)


def _tokens_a_minute() -> int:
    """Return the most tokens of a minute that the environment allows; 0 where it says nothing.

    Raises:
        EncoderError: it says no number.
    """
    said = os.environ.get(TOKENS_A_MINUTE, "").strip()
    if said and (not said.isdecimal() or int(said) < 1):
        raise EncoderError(f"{TOKENS_A_MINUTE} is {said!r}.", hint="Set it to a number of tokens, such as 30000.")
    return int(said or 0)


class Endpoint:
    """An endpoint and what is known of it.

    Args:
        place: where it is, and which model is asked.
        abilities: as an earlier object found them out.
        seconds: time-out of a call.
    """

    def __init__(self, place: Place, *, abilities: Abilities | None = None, seconds: float = SECONDS) -> None:
        self.place = place
        self.abilities = abilities or Abilities()
        self._seconds = seconds
        self._pace = Pace(_tokens_a_minute())
        self._lock = Lock()

    def learn(self, **changes: Any) -> None:  # noqa: ANN401 - fields of Abilities
        """Change what is known of the endpoint."""
        with self._lock:
            self.abilities = replace(self.abilities, **changes)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[openai.AsyncOpenAI]:
        """Give a client, closed behind; it follows no redirects, and the way to this machine leads over no proxy."""
        timeout = httpx.Timeout(self._seconds, connect=CONNECT_SECONDS)
        hooks = {"request": [] if self.place.keyed else [_plain]}
        http = openai.DefaultAsyncHttpxClient(
            timeout=timeout, follow_redirects=False, trust_env=not self.place.loopback, event_hooks=hooks
        )
        key = os.environ.get(API_KEY, "") if self.place.keyed else ""
        async with openai.AsyncOpenAI(
            api_key=key or "none", base_url=self.place.url, http_client=http, timeout=timeout, max_retries=RETRIES
        ) as client:
            yield client

    async def ask(self, client: openai.AsyncOpenAI, call: Call[C]) -> C:
        """Send a call once, or several times until the endpoint understands, and return its checked reply.

        Raises:
            EncoderError: the endpoint cannot be asked.
        """
        while True:
            way = self.abilities
            try:
                reply = await self._complete(client, call, way)
            except openai.APIError as error:
                if not self._adapt(way, error):
                    raise explained(error, self.place) from None
                continue
            except json.JSONDecodeError:
                raise no_completion(self.place) from None
            checked = call.check(reply, way.form)
            formed = checked.whole in (None, Unread.MIXED)
            if formed and not way.settled:
                self.learn(settled=True)
            if checked.whole is None or formed or not self._try_otherwise(way, reply, checked.whole):
                return checked

    async def _complete(self, client: openai.AsyncOpenAI, call: Call[C], way: Abilities) -> Reply:
        """Send one request and return the reply."""
        sent = call.messages(way.form)
        limit = call.reply_tokens + (THINKING_TOKENS if way.thinks else 0)
        extra: dict[str, Any] = {way.token_limit: limit}
        if way.temperature:
            extra["temperature"] = 0
        if form := call.response_format(way.form):
            extra["response_format"] = form
        await self._pace.wait(sum(estimated_tokens(message["content"]) for message in sent) + limit)
        patient = client if way.settled else client.with_options(max_retries=FIRST_RETRIES)
        made = await patient.chat.completions.create(model=self.place.model, messages=sent, **extra)  # type: ignore[arg-type]
        return _reply(made, self.place)

    def _adapt(self, way: Abilities, error: openai.APIError) -> bool:
        """Return whether there is another way of asking after an error, which is taken from now on."""
        refused = isinstance(error, openai.BadRequestError | openai.UnprocessableEntityError)
        broken = isinstance(error, openai.InternalServerError)
        if not (refused or (broken and not way.settled)) or is_about_context(error):
            return False
        if self.abilities != way:
            return True  # another call has found another way meanwhile
        if way.token_limit == "max_tokens" and names(error, "max_tokens"):
            self.learn(token_limit="max_completion_tokens")
        elif way.temperature and names(error, "temperature"):
            self.learn(temperature=False)
        elif not way.settled and way.form.below is not None:
            self.learn(form=way.form.below)
        else:
            return False
        return True

    def _try_otherwise(self, way: Abilities, reply: Reply, reason: Unread) -> bool:
        """Return whether there is another way of asking after a reply of which nothing is of use."""
        if not way.thinks and reason in _OUT_OF_ROOM and (reply.thinks or reason is Unread.THINKING):
            self.learn(thinks=True)
            return True
        if way.settled or reason is Unread.REFUSED or way.form.below is None:
            return False
        self.learn(form=way.form.below)
        return True


_OUT_OF_ROOM = (Unread.CUT, Unread.THINKING, Unread.REASONING, Unread.EMPTY)


async def _plain(request: httpx.Request) -> None:
    """Take off a request whatever the environment put on it for another endpoint: keys, organisations, own headers."""
    for header in set(request.headers) - _PLAIN_HEADERS:
        del request.headers[header]


def _reply(made: Any, place: Place) -> Reply:  # noqa: ANN401 - what servers send instead of a ChatCompletion
    """Take from a completion what is read; compatible servers leave parts of it out."""
    try:
        choice = made.choices[0]
        message = choice.message
        content = message.content
    except (AttributeError, IndexError, TypeError):
        raise no_completion(place) from None
    details = getattr(made.usage, "completion_tokens_details", None)
    reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None) or ""
    return Reply(
        content if isinstance(content, str) else None,
        finish=choice.finish_reason or "stop",
        refusal=message.refusal or "",
        reasoning=str(reasoning),
        reasoning_tokens=int(getattr(details, "reasoning_tokens", None) or 0),
    )
