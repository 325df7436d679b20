"""Run the HTTP server until a signal stops it."""

import errno
import logging
import signal
import socket
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from retriever.api.http.app import make_app
from retriever.api.http.protocol import patient_for
from retriever.api.settings import HOST, ServerSettings
from retriever.core.errors import UsageError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_KEEP_ALIVE = 15  # seconds that a connection may be idle


def serve(settings: ServerSettings, *, tell: Callable[[str], object]) -> None:
    """Serve until SIGINT or SIGTERM; requests under way are answered, jobs end where they can.

    Args:
        settings: of the server.
        tell: told where the server is, and of its end.

    Raises:
        UsageError: nothing can listen there.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    app = make_app(settings)
    with listening(settings.host, settings.port) as place:
        tell(f"Serving at {url_of(place)}, its page is {url_of(place)}/docs; Ctrl-C stops it.")
        for one in _SIGNALS:  # uvicorn raises the signal that stopped it once more, after everything is closed
            signal.signal(one, lambda *_: None)
        server_of(app, settings).run(sockets=[place])
    tell("Stopped.")


def server_of(app: FastAPI, settings: ServerSettings) -> uvicorn.Server:
    """Return uvicorn's server of an application, not yet begun."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=patient_for(settings.limits.body_seconds),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=settings.limits.connections,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=settings.limits.grace_seconds,
        )
    )


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address.

    Raises:
        UsageError: another program listens there, or this machine cannot.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise UsageError(f"Another program listens at port {port}.", hint="Name another with --port.") from error
        said = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"This machine cannot listen at {host}, port {port}: {said}.",
            hint=f"Name an address of its own with --host ({HOST} always is one), or another --port.",
        ) from error


def url_of(place: socket.socket) -> str:
    """Return the address of a socket that listens, as one opens it here."""
    host, port = place.getsockname()[:2]
    named = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{named}:{port}"
