"""`search`: documents that answer a query under an instruction."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import Field

from retriever.api.mcp.arguments import Hits, IndexName, Instruction, Where
from retriever.api.mcp.desk import Bounded, Desk, hit_of
from retriever.core.errors import UsageError
from retriever.core.requests import SearchRequest
from retriever.core.results import Mode


def make(desk: Desk) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Make the tool."""

    def found(index: str, request: SearchRequest, like: str) -> dict[str, Any]:
        name = desk.index_name(index)
        opened, bounded = desk.service.index(name), Bounded()
        if like:
            result = opened.search_like(like, instruction=request.instruction, k=request.k, where=request.where)
        else:
            result = opened.search_many(request)[0]
        desk.service.look_into(name, result)
        document = result.to_json()
        hits = bounded.take(document["hits"], lambda hit: hit_of(bounded, name, hit), of="hits")
        asked = {"like": like} if like else {"query": bounded.text(request.queries[0])}
        kept: dict[str, Any] = {
            key: document[key] for key in ("instruction", "path", "mode", "seen") if key in document
        }
        kept["verdict"] = None if result.verdict is None else result.verdict.sentence
        return bounded.closed({"index": name, **asked, **kept, "hits": hits})

    async def search(
        query: Annotated[str, Field(description="What to look for, in plain words.")] = "",
        index: IndexName = "",
        instruction: Instruction = "",
        k: Hits = 10,
        where: Where = "",
        mode: Annotated[
            Mode, Field(description="By vectors (dense), by words (lexical), both (hybrid), or auto.")
        ] = "auto",
        like: Annotated[
            str, Field(description="Instead of a query: the id of a document the hits should resemble.")
        ] = "",
    ) -> dict[str, Any]:
        """Search documents by meaning, under an instruction that says what to look at.

        The same query under another instruction ranks by another side of the texts. `score` is a cosine; `percentile`
        says of how many of a hundred random pairs the texts are less alike; `words` are what the model answers to the
        instruction for that document. path `lazy` means that not every document has been read under the instruction.
        `verdict` says whether the model follows the instruction at all; null where nobody has looked: call `diagnose`.
        """

        def work() -> dict[str, Any]:
            if query and like:
                raise UsageError("Give either a query or like.", hint="They are two kinds of search.")
            desk.limits.check_text(query, "query")
            desk.limits.check_instruction(instruction)
            return found(index, SearchRequest([like or query], instruction, k, where or None, mode), like)

        return await desk.work(work)

    return search
