"""Run the server over standard input and output."""

import anyio

from retriever.api.mcp.server import make_server
from retriever.api.service import Service
from retriever.api.settings import ServerSettings


def run(settings: ServerSettings) -> None:
    """Serve one client until it closes standard input."""
    service = Service(settings)
    try:
        anyio.run(make_server(service).run_stdio_async)
    finally:
        service.close()
