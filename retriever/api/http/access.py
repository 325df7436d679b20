"""The outermost layer of the server: an id for every request, a line in the log, and a count."""

import logging
import re
import secrets
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retriever.api.problems import request_id

HEADER = "X-Request-ID"
_LOG = logging.getLogger("retriever.access")
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LONGEST_PATH = 200  # characters in the log


class Access:
    """ASGI middleware: gives a request its id, which the answer and the log name, and logs and counts its answer.

    The id is the client's own where that is plain and short. What is logged has no query string and no header.

    Args:
        app: what is behind it.
        count: called with method, the route's own path, status and seconds of every answer.
    """

    def __init__(self, app: ASGIApp, *, count: Callable[[str, str, int, float], object]) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        id = given if _PLAIN.fullmatch(given) else secrets.token_hex(8)
        request_id.set(id)  # in the context of this request alone
        started, status, size = time.monotonic(), 0, 0

        async def sent(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = id
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            seconds = time.monotonic() - started
            if status:
                self._count(scope["method"], _route(scope), status, seconds)
            # A client that left before its answer began has no status.
            said = (id, scope["method"], _path(scope), status or "-", seconds * 1000, size)
            _LOG.info("%s %s %s %s %.1f ms %d bytes", *said)


def _route(scope: Scope) -> str:
    """Return the path as its endpoint is declared, so that names of indexes make no new counters."""
    route = scope.get("route")
    return str(getattr(route, "path", "")) or "unknown"


def _path(scope: Scope) -> str:
    """Return the path as it was sent, in which no line can end."""
    raw: bytes = scope["raw_path"]
    return raw[:_LONGEST_PATH].decode("ascii", "backslashreplace")
