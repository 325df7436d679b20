"""Make the HTTP server's application of its parts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

import anyio
from fastapi import Depends, FastAPI
from mcp.server.transport_security import TransportSecuritySettings

from retriever.api.http import clusterings, embeddings, health, indexes, jobs, pages
from retriever.api.http.answers import ERRORS, handle_errors
from retriever.api.http.gate import Gate, require_reader
from retriever.api.http.metrics import Metrics
from retriever.api.mcp.server import make_server
from retriever.api.service import Service
from retriever.api.settings import ServerSettings
from retriever.index import encoding

MCP_PATH = "/mcp"
_ABOUT = """One corpus, many questions: embeddings, search and clusters under an instruction in plain words.

Where the server has a token, requests bring it as `Authorization: Bearer TOKEN`. Errors are objects with a message, the
next step, and a code for programs. docs/server.md says what is promised.
"""
_GROUPS = [
    {"name": "OpenAI", "description": "Embeddings as OpenAI's clients speak them."},
    {"name": "Indexes", "description": "What is indexed, and search in it."},
    {"name": "Jobs", "description": "What takes minutes: clusters, and changes to documents."},
    {"name": "Server", "description": "The server itself."},
]


def make_app(settings: ServerSettings, *, load: encoding.Loader = encoding.load_described) -> FastAPI:
    """Make the application; it opens nothing before the first request.

    Args:
        settings: of the server.
        load: gives the encoder of an index's description.
    """
    metrics = Metrics()
    service = Service(settings, load=load, on_pass=metrics.count_pass)

    tools = make_server(service)
    endpoint = tools.streamable_http_app(
        streamable_http_path=MCP_PATH,
        stateless_http=True,
        json_response=True,
        max_request_body_size=settings.limits.body_bytes,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the gate sees to that
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            async with tools.session_manager.run():
                yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(service.close)

    app = FastAPI(
        title="retriever",
        version=version("retriever"),
        description=_ABOUT,
        openapi_tags=_GROUPS,
        lifespan=lifespan,
        responses=ERRORS,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service, app.state.metrics = service, metrics
    reading = [Depends(require_reader)]
    for one in (embeddings.router, indexes.router, clusterings.router, jobs.router):
        app.include_router(one, dependencies=reading)
    app.include_router(jobs.writing)
    app.include_router(clusterings.writing)
    app.include_router(health.router)
    app.include_router(pages.router)
    app.router.routes.extend(endpoint.routes)
    handle_errors(app, settings.limits.body_bytes, service.folder)
    app.add_middleware(
        Gate, limits=settings.limits, tokens=settings.tokens, local=settings.local, count=metrics.count_answer
    )
    return app
