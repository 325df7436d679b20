"""Run the HTTP server until a signal stops it; connections that nothing goes over are cut."""

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from retriever.api.http.app import make_app
from retriever.api.settings import ServerSettings
from retriever.core.addresses import listening, url_of

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
CONNECTIONS = 1024
"""Open ones; who comes beyond them is refused."""

_KEEP_ALIVE = 15  # seconds that a connection may be idle


def serve(settings: ServerSettings, *, tell: Callable[[str], object], log_level: str = "info") -> None:
    """Serve until SIGINT or SIGTERM; requests under way are answered, jobs end where they can.

    ``tell`` gets a line that says where the server is, and one at its end. The log goes to stderr: with ``info`` a line
    for every request, with ``debug`` what libraries say too.

    Raises:
        UsageError: nothing can listen there.
    """
    level = log_level.upper()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=level)
    if log_level == "info":
        logging.getLogger().setLevel(logging.WARNING)  # of libraries
        logging.getLogger("retriever").setLevel(level)
    app = make_app(settings)
    with listening(settings.host, settings.port) as place:
        url = url_of(*place.getsockname()[:2])
        tell(f"Serving at {url}, its page is {url}/docs; Ctrl-C stops it.")
        for number in _SIGNALS:  # uvicorn raises the signal that stopped it once more, after everything is closed
            signal.signal(number, lambda *_: None)
        server_of(app, settings).run(sockets=[place])
    tell("Stopped.")


def server_of(app: FastAPI, settings: ServerSettings) -> uvicorn.Server:
    """Return uvicorn's server of an application, not yet begun."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=type("Patient", (Patient,), {"seconds": settings.limits.body_seconds}),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=settings.limits.grace_seconds,
        )
    )


class Patient(H11Protocol):
    """HTTP/1.1; connections are cut where a client has half asked, or half listened, for ``seconds``."""

    seconds: float

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **options)
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - asyncio and uvicorn differ
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._start("asking")

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop("asking")
        self._stop("listening")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request's head, where this is less."""
        super().data_received(data)
        incomplete = self.cycle is None or self.cycle.response_complete
        (self._start if incomplete else self._stop)("asking")

    def pause_writing(self) -> None:
        """Begin to wait for the client to read on."""
        super().pause_writing()
        self._start("listening")

    def resume_writing(self) -> None:
        """Wait no more."""
        self._stop("listening")
        super().resume_writing()

    def _start(self, wait: str) -> None:
        if wait not in self._timers:
            self._timers[wait] = asyncio.get_running_loop().call_later(self.seconds, self.transport.abort)

    def _stop(self, wait: str) -> None:
        if wait in self._timers:
            self._timers.pop(wait).cancel()
