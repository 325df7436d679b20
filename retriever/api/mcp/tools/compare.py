"""`compare`: what changes under another question."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import Field

from retriever.api.mcp.arguments import IndexName, Where
from retriever.api.mcp.desk import Bounded, Desk
from retriever.api.mcp.patience import Patience
from retriever.core.requests import SearchRequest
from retriever.index.searches import Searches
from retriever.serving.jobs import Job
from retriever.serving.progress import indexing_progress
from retriever.workspace import Index

_HITS = 10


def make(desk: Desk) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Make the tool."""
    patience = Patience(desk)

    async def compare(
        first: Annotated[str, Field(description="One instruction.")],
        second: Annotated[str, Field(description="The other.")],
        index: IndexName = "",
        query: Annotated[str, Field(description="Compare this query's hits; left out, the groups are compared.")] = "",
        where: Where = "",
    ) -> dict[str, Any]:
        """Compare two instructions on one index: who moves among a query's hits, or between groups of documents."""
        name = await desk.work(lambda: desk.index_name(index))

        def work(job: Job) -> dict[str, Any]:
            desk.limits.check_instruction(first, second)
            desk.limits.check_text(query, "query")
            bounded = Bounded()
            if query.strip():
                answer = _hits(desk.service.index(name), bounded, query, (first, second), where)
            else:
                answer = _groups(desk.service.whole_index(name), bounded, (first, second), where, job)
            return bounded.closed({"index": name, "instructions": [first, second], **answer})

        return await patience.answer("compare", (name, first, second, query, where), work)

    return compare


def _hits(index: Searches, bounded: Bounded, query: str, asked: tuple[str, str], where: str) -> dict[str, Any]:
    from retriever.clusters.comparing import compare_ranks

    requests = [SearchRequest([query], one, _HITS, where or None, "hybrid") for one in asked]
    one, other = (index.search_many(request)[0] for request in requests)
    document = compare_ranks(one, other).to_json()
    shown = bounded.take(document["documents"], lambda moved: moved, of="documents")
    told = {"overlap": document["overlap"], "paths": document["paths"], "verdicts": _sentences(document)}
    return {"query": query, **told, "documents": shown}


def _groups(index: Index, bounded: Bounded, asked: tuple[str, str], where: str, job: Job) -> dict[str, Any]:
    from retriever.clusters.comparing import compare_clusters

    one, other = index.cluster_each(asked, where=where or None, progress=indexing_progress(job))
    document = compare_clusters(one, other).to_json()
    names = [{each["cluster"]: each["label"] for each in side} for side in document["clusters"]]
    flows = [{**flow, "from": names[0].get(flow["from"]), "to": names[1].get(flow["to"])} for flow in document["flows"]]
    measures = {key: document[key] for key in ("adjusted_rand", "adjusted_mutual_information", "moved")}
    measures["verdicts"] = _sentences(document)
    return {**measures, "flows": bounded.take(flows, lambda flow: flow, of="flows")}


def _sentences(document: dict[str, Any]) -> list[str | None]:
    """Return of both instructions whether the model follows them; None where nobody has looked."""
    return [None if one is None else one["sentence"] for one in document["verdicts"]]
