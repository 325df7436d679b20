"""`fetch`: a document whole."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import Field

from retriever.api.mcp.arguments import IndexName
from retriever.api.mcp.desk import ANSWER_CHARACTERS, Bounded, Desk, metadata_of, parse_uri, uri_of
from retriever.core.errors import InputError, UsageError


def make(desk: Desk) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Make the tool."""

    def found(given: str, index: str, offset: int) -> dict[str, Any]:
        named, id = parse_uri(given, index)
        name = desk.index_name(named)
        documents = desk.service.index(name).documents([id])
        if id not in documents:
            raise InputError(f"There is no document {id!r} in {name}.", hint="Ids are those that `search` gives.")
        document, bounded = documents[id], Bounded()
        if offset and offset >= len(document.text):
            raise UsageError(f"The text ends at {len(document.text)}.", hint="Begin before that.")
        text = document.text[offset : offset + ANSWER_CHARACTERS]
        after = len(document.text) - offset - len(text)
        if after:
            bounded.left_out.append(f"{after} characters behind these: ask with offset {offset + len(text)}")
        metadata = metadata_of(bounded, document)
        answer = {"id": id, "index": name, "uri": uri_of(name, id), "text": text, "metadata": metadata}
        return {**answer, "left_out": bounded.left_out}

    async def fetch(
        id: Annotated[str, Field(description="The document's id or uri, as `search` gives it.")],
        index: IndexName = "",
        offset: Annotated[int, Field(ge=0, description="Where in the text to begin, in characters.")] = 0,
    ) -> dict[str, Any]:
        """Return a document whole, text and metadata, by the id or uri that `search` or `cluster` gives.

        A very long text comes in pieces: `left_out` says how to ask for the next.
        """
        return await desk.work(lambda: found(id, index, offset))

    return fetch
