"""`list_indexes`: which corpora there are."""

from collections.abc import Awaitable, Callable
from typing import Any

from retriever.api.mcp.desk import Bounded, Desk
from retriever.core.errors import RetrieverError


def make(desk: Desk) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Make the tool."""

    def described(name: str) -> dict[str, Any]:
        try:
            status = desk.service.index(name).status()
        except RetrieverError as error:
            return {"index": name, "problem": error.message}
        asked = [one.instruction for one in status.views if one.instruction and not one.lazy]
        return {"index": name, "documents": status.documents, "instructions": asked[:8]}

    async def list_indexes() -> dict[str, Any]:
        """Name the indexes (corpora) there are, how many documents each has, and what it has been asked before.

        Begin here. Searching and clustering under an instruction of this list is quick; under a new one, the model has
        to read first.
        """
        bounded = Bounded()
        names = await desk.work(desk.service.names)
        shown = await desk.work(lambda: bounded.take(names, described, of="indexes"))
        return bounded.closed({"indexes": shown})

    return list_indexes
