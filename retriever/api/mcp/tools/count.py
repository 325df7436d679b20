"""`count`: how many documents."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import Field

from retriever.api.mcp.arguments import IndexName, Where
from retriever.api.mcp.desk import Bounded, Desk
from retriever.index.counting import count_documents


def make(desk: Desk) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Make the tool."""

    def counted(index: str, where: str, by: str) -> dict[str, Any]:
        name = desk.index_name(index)
        found, bounded = count_documents(desk.service.whole_index(name), where or None, by or None), Bounded()
        rows = list(found.values.items())
        values = bounded.take(rows, lambda row: {"value": bounded.text(row[0], 200), "documents": row[1]}, of="values")
        answer = {"index": name, "where": where, "documents": found.documents}
        if found.field is not None:
            answer |= {"field": found.field, "values": values, "without_the_field": found.without}
        return bounded.closed(answer)

    async def count(
        index: IndexName = "",
        where: Where = "",
        by: Annotated[str, Field(description="A metadata field: count the documents of each of its values.")] = "",
    ) -> dict[str, Any]:
        """Count documents, all of them or those that a filter accepts, and by the values of a metadata field."""
        return await desk.work(lambda: counted(index, where, by))

    return count
