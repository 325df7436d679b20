"""Make the HTTP server's application of its parts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from fastapi import FastAPI, Security
from fastapi.security import HTTPBearer
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from retriever.api.http import answered, clusterings, embeddings, indexes, jobs, server
from retriever.api.http.access import Access
from retriever.api.http.agents import MCP_PATH, Agents
from retriever.api.http.answers import ERRORS, handle_errors
from retriever.api.http.gate import Gate
from retriever.api.http.server import Metrics
from retriever.api.service import Service
from retriever.api.settings import ServerSettings
from retriever.core.environment import own_version
from retriever.index import encoding

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
    """Make the application; it opens nothing before the first request."""
    metrics = Metrics()
    service = Service(settings, load=load, on_pass=metrics.count_pass)
    agents = Agents(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            async with agents.running():
                service.reading_on.start()
                yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(service.close)

    app = FastAPI(
        title="retriever",
        version=own_version(),
        description=_ABOUT,
        openapi_tags=_GROUPS,
        lifespan=lifespan,
        responses=ERRORS,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service, app.state.metrics = service, metrics
    bearer = HTTPBearer(auto_error=False, description="The reader's or the writer's token, where the server has one.")
    for module in (embeddings, indexes, answered, clusterings, jobs):
        app.include_router(module.router, dependencies=[Security(bearer)])  # for the page: the gate has checked it
    app.include_router(server.router)
    app.mount("/docs", StaticFiles(packages=[("fastapi_swagger", "resources")]))
    app.router.routes.append(Route(MCP_PATH, endpoint=agents))
    handle_errors(app)
    app.add_middleware(Gate, limits=settings.limits, tokens=settings.tokens, local=settings.local)
    app.add_middleware(Access, count=metrics.count_answer)  # before the gate: refusals are logged too
    return app
