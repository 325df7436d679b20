"""The tools by name; a module each, loaded with the server."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from retriever.api.mcp.desk import Desk
from retriever.api.mcp.tools import cluster, compare, count, describe, diagnose, fetch, list_indexes, search

Made = Callable[[Desk], Callable[..., Awaitable[dict[str, Any]]]]

TOOLS: Mapping[str, Made] = {
    "list_indexes": list_indexes.make,
    "describe": describe.make,
    "search": search.make,
    "fetch": fetch.make,
    "count": count.make,
    "cluster": cluster.make,
    "compare": compare.make,
    "diagnose": diagnose.make,
}
