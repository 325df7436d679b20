"""The gate before every endpoint: who is asking, how large and slow a body may be, and who has gone."""

import asyncio
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retriever.api.http.answers import refusal
from retriever.api.problems import BodyError, ForbiddenError, SlowBodyError, UnauthorizedError
from retriever.api.service import Service
from retriever.api.settings import ServerLimits, Tokens
from retriever.core.addresses import is_loopback
from retriever.core.errors import BusyError, RetrieverError

PAGE_PARTS = ("swagger-ui-bundle.js", "swagger-ui.css")
"""Script and style of the page at ``/docs``."""

OPEN = frozenset({"/health", "/ready", "/openapi.json", "/docs", *(f"/docs/{part}" for part in PAGE_PARTS)})
"""Paths that take no token: they tell nothing of what is served."""

_NO_GUESSING = (b"x-content-type-options", b"nosniff")  # what documents say is never taken for a page


def service_of(request: Request) -> Service:
    """Return what the server serves."""
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(service_of)]


def require_writer(service: Served, request: Request) -> None:
    """Let those pass who may change documents, clusterings and answers; the gate has let pass who may read.

    Raises:
        UnauthorizedError: the token is missing or wrong.
        ForbiddenError: it is a reader's, or the server has no writer's token.
    """
    tokens, given = service.settings.tokens, bearer_token(request.headers)
    if tokens.may_write(given):
        return
    if tokens.writer is None:
        raise ForbiddenError(
            "Nothing can be changed here: the server has no writer's token.",
            hint="Whoever runs the server can give it one.",
        )
    if tokens.reader is not None:
        raise ForbiddenError("This token may read and not write.", hint="Send the writer's token.")
    raise _unauthorized(given)


WRITERS = [Depends(require_writer)]
"""Dependency of a route that changes something."""


def _unauthorized(given: str | None) -> UnauthorizedError:
    return UnauthorizedError(
        "The token is missing." if given is None else "The token is wrong.",
        hint="Send the header `Authorization: Bearer TOKEN`; OpenAI's clients do so with their api_key.",
    )


class Gate:
    """ASGI middleware: refuses who brings no token, bodies beyond the limits, and hosts that are not this machine.

    The token is looked at before a body is read, so that nobody fills memory without one. Hosts are looked at where the
    server listens to this machine alone and asks for no token: a page in a browser can make its own name stand for
    127.0.0.1, and cannot send another name in the header ``Host``. A request whose client has gone is given up.

    Args:
        app: what is behind it.
        limits: of bodies.
        tokens: who may read.
        local: whether hosts are looked at.
    """

    def __init__(self, app: ASGIApp, limits: ServerLimits, tokens: Tokens, *, local: bool) -> None:
        self._app = app
        self._limits = limits
        self._tokens = tokens
        self._local = local and tokens.reader is None
        self._held = 0  # bytes of the bodies of all requests under way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def sent(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": [*message.get("headers", ()), _NO_GUESSING]}
            await send(message)

        try:
            await self._pass(scope, receive, sent)
        except Exception as error:  # of an endpoint: starlette would answer in its own words
            if started:
                raise
            await refusal(error)(scope, receive, sent)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if self._local and not _is_this_machine(headers.get("host", "")):
            raise ForbiddenError(
                "The host in the request is not this machine.", hint="Ask for http://127.0.0.1:PORT or localhost."
            )
        if scope["path"] not in OPEN and not self._tokens.may_read(given := bearer_token(headers)):
            raise _unauthorized(given)
        body = await self._body(receive)
        if body is None:
            return
        try:
            await _while_there(self._app, scope, body, receive, send)
        finally:
            self._held -= len(body)

    async def _body(self, receive: Receive) -> bytes | None:
        """Read a body whole, and count it as held; None where the client has gone.

        One beyond the limit is read to its end and thrown away, so that its sender comes to listen to the answer.
        """
        body, more = bytearray(), True
        refused: RetrieverError | None = None
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    part = message.get("body", b"")
                    refused = refused or self._no_room(len(body) + len(part), len(part))
                    if refused is None:
                        body += part
                        self._held += len(part)
                    else:
                        self._held -= len(body)
                        body.clear()
                    more = message.get("more_body", False)
        except TimeoutError:
            refused = refused or SlowBodyError(
                f"The body was not there within {self._limits.body_seconds:g} seconds.",
                hint="Send it faster, or less of it.",
            )
        finally:
            self._held -= len(body)
        if refused is not None:
            raise refused
        self._held += len(body)  # until it is answered
        return bytes(body)

    def _no_room(self, size: int, more: int) -> RetrieverError | None:
        """Return why a body of so many bytes cannot be taken, where all bodies grow by so many; None where it can."""
        if size > self._limits.body_bytes:
            return BodyError(f"The body is larger than {self._limits.body_bytes} bytes.", hint="Send less at a time.")
        if self._held + more > self._limits.bodies_bytes:
            return BusyError("The server holds too many large requests.", hint="Ask again in a moment.")
        return None


async def _while_there(app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
    """Have an app answer a request whose body was read, until it has, or its client has gone."""
    answered = given = False
    gone = asyncio.ensure_future(_left(receive))

    async def replay() -> Message:
        nonlocal given
        if given:
            await asyncio.shield(gone)
            return {"type": "http.disconnect"}
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def sent(message: Message) -> None:
        nonlocal answered
        answered = message["type"] == "http.response.body" and not message.get("more_body", False)
        await send(message)

    work = asyncio.ensure_future(app(scope, replay, sent))
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done() and not answered:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            return
        await work
    finally:
        gone.cancel()
        work.cancel()


async def _left(receive: Receive) -> None:
    """Wait until a client has gone, or has its answer."""
    while (await receive())["type"] != "http.disconnect":
        pass


def bearer_token(headers: Headers) -> str | None:
    """Return the token that a request brings; None where it brings none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _is_this_machine(host: str) -> bool:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return is_loopback(name.strip("[]").lower())
