"""`/mcp`: tools for agents. Who brings the writer's token gets those that take answers; others never see them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from retriever.api.http.gate import bearer_token
from retriever.api.mcp.server import make_server
from retriever.api.service import Service

MCP_PATH = "/mcp"


class Agents:
    """The MCP servers of readers and of writers behind one address; the gate has let pass who may read."""

    def __init__(self, service: Service) -> None:
        self._tokens = service.settings.tokens
        self._reading, self._writing = make_server(service), make_server(service, writing=True)
        body_bytes = service.limits.body_bytes
        self._for_readers, self._for_writers = _app(self._reading, body_bytes), _app(self._writing, body_bytes)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests until the block ends."""
        async with self._reading.session_manager.run(), self._writing.session_manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with the tools of who sends it."""
        writes = self._tokens.may_write(bearer_token(Headers(scope=scope)))
        await (self._for_writers if writes else self._for_readers)(scope, receive, send)


def _app(server: MCPServer[Any], body_bytes: int) -> ASGIApp:
    """Return what answers the requests to a server."""
    (route,) = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        stateless_http=True,
        json_response=True,
        max_request_body_size=body_bytes,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the gate sees to that
    ).routes
    return cast("Route", route).app
