"""`/indexes`: which there are, what one holds, its documents, and search in it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi import Path as InPath
from fastapi.responses import Response
from fastapi.sse import EventSourceResponse, format_sse_event
from pydantic import Field

from retriever.api.http.answers import Body as RequestBody
from retriever.api.http.answers import answer, as_json, problem_told
from retriever.api.http.found import FoundDocuments, Names, SearchAnswer
from retriever.api.http.gate import Served
from retriever.api.problems import NotFoundError
from retriever.api.service import Service
from retriever.core.errors import IndexNotFoundError
from retriever.core.requests import SearchRequest
from retriever.core.results import IndexStatus, Mode, SearchResult
from retriever.core.text import require_text
from retriever.core.types import Document
from retriever.shards.index import ShardedIndex
from retriever.workspace import Index

router = APIRouter(prefix="/indexes", tags=["Indexes"])

IndexName = Annotated[str, InPath(description="The name of an index.", examples=["reviews"])]
Where = Annotated[str | None, Field(description="A filter over metadata, as the command line's --where.")]
_QUESTION = "What kind of product is this review about?"

_SEARCHES: dict[str, Any] = {
    "plain": {"summary": "Plain", "value": {"query": "it stopped working after a few days", "k": 5}},
    "instructed": {
        "summary": "Under an instruction, filtered",
        "value": {"query": "it stopped working", "instruction": _QUESTION, "where": "stars <= 2", "k": 5},
    },
    "progressive": {
        "summary": "First hits, then settled ones, as server-sent events",
        "value": {"query": "it stopped working", "instruction": _QUESTION, "stream": True},
    },
}


_EVENT: dict[str, Any] = {
    "type": "object",
    "description": "An event; its data is JSON, the answer or an error.",
    "properties": {"event": {"enum": ["first", "settled", "error"]}, "data": {"type": "string"}},
    "required": ["event", "data"],
}


class SearchBody(RequestBody):
    """A search."""

    query: str = Field(description="What to look for.")
    instruction: str = Field(default="", description="What to look at, in plain words.")
    k: int = Field(default=10, ge=1, description="Hits wanted.")
    where: Where = None
    regex: str | None = Field(default=None, max_length=1000, description="A regular expression that texts hold.")
    more: list[str] = Field(default_factory=list, max_length=100, description="Ids of hits to find more like.")
    less: list[str] = Field(default_factory=list, max_length=100, description="Ids of hits to find less like.")
    mode: Mode = Field(default="auto", description="By vectors, by words, or both.")
    stream: bool = Field(
        default=False, description="Answer with server-sent events: `first` where more is read, then `settled`."
    )


class LikeBody(RequestBody):
    """A search for what resembles a document."""

    id: str = Field(description="The document's id.")
    instruction: str = Field(default="", description="What to look at, in plain words.")
    k: int = Field(default=10, ge=1, description="Hits wanted.")
    where: Where = None


class CompareBody(RequestBody):
    """A comparison of one query's hits under two instructions."""

    query: str = Field(description="What to look for.")
    instructions: list[str] = Field(min_length=2, max_length=2, description="The two instructions.")
    k: int = Field(default=10, ge=1, description="Hits of each.")
    where: Where = None


def opened(service: Service, name: str) -> Index | ShardedIndex:
    """Return an index by its name.

    Raises:
        IndexNotFoundError: there is none.
    """
    with suppress(IndexNotFoundError):
        return service.index(name)
    raise IndexNotFoundError(f"There is no index {name!r} here.", hint="GET /indexes names those there are.")


def opened_whole(service: Service, name: str) -> Index:
    """Return an index in one folder by its name.

    Raises:
        IndexNotFoundError: there is none.
        UsageError: it is in shards.
    """
    opened(service, name)
    return service.whole_index(name)


@router.get("", response_model=Names, summary="Name the indexes")
async def indexes(service: Served) -> Response:
    """Name the indexes that are there now."""
    return answer({"indexes": await service.workers.run(service.names)})


@router.get("/{name}", summary="Describe an index", response_model=dict[str, Any])
async def status(service: Served, name: IndexName) -> Response:
    """Tell what an index holds and how its last runs went, as `retriever status --json` does."""

    def work() -> IndexStatus:
        return opened(service, name).status()

    found = await service.workers.run(work)
    return answer({**found.to_json(), "path": name})


@router.get("/{name}/documents", response_model=FoundDocuments, summary="Fetch documents")
async def documents(
    service: Served,
    name: IndexName,
    id: Annotated[list[str], Query(min_length=1, description="An id; repeatable.", examples=[["r-001"]])],
) -> Response:
    """Return documents by their ids."""
    service.limits.check_documents(len(id))
    require_text(*id)

    def work() -> dict[str, Document]:
        return opened(service, name).documents(id)

    found = await service.workers.run(work)
    return answer(
        {
            "documents": [written(found[one]) for one in dict.fromkeys(id) if one in found],
            "missing": [one for one in dict.fromkeys(id) if one not in found],
        }
    )


@router.post(
    "/{name}/search",
    response_model=SearchAnswer,
    summary="Search under an instruction",
    responses={200: {"content": {"text/event-stream": {"schema": _EVENT}}}},
)
async def search(
    service: Served, name: IndexName, body: Annotated[SearchBody, Body(openapi_examples=_SEARCHES)]
) -> Response:
    """Search an index.

    With `stream`, events: `first` with an answer from what was read before, where the instruction's view lacks texts;
    `settled` with the final one; `error` with an error object where that cannot be given.
    """
    check_search(service, body.query, body.instruction, body.k)
    require_text(*body.more, *body.less)
    request = SearchRequest(
        [body.query],
        body.instruction,
        body.k,
        body.where,
        body.mode,
        more=tuple(body.more),
        less=tuple(body.less),
        regex=body.regex,
    )
    if body.stream:
        return await _streamed(service, name, request)

    def work() -> SearchResult:
        result = opened(service, name).search_many(request)[0]
        service.look_into(name, result)
        return result

    return answer((await service.workers.run(work)).to_json())


@router.post("/{name}/like", response_model=SearchAnswer, summary="Search for what resembles a document")
async def like(
    service: Served,
    name: IndexName,
    body: Annotated[LikeBody, Body(examples=[{"id": "r-001", "instruction": _QUESTION, "k": 5}])],
) -> Response:
    """Search for documents that resemble one under an instruction; it is left out of them."""
    check_search(service, body.id, body.instruction, body.k)
    require_text(body.id, body.instruction)

    def work() -> SearchResult:
        index = opened(service, name)
        if body.id not in index.documents([body.id]):
            raise NotFoundError(f"There is no document {body.id!r}.", hint="Ids are those of the corpus.")
        result = index.search_like(body.id, instruction=body.instruction, k=body.k, where=body.where)
        service.look_into(name, result)
        return result

    return answer((await service.workers.run(work)).to_json())


@router.post("/{name}/compare", response_model=dict[str, Any], summary="Compare a query's hits under two instructions")
async def compare(
    service: Served,
    name: IndexName,
    body: Annotated[
        CompareBody, Body(examples=[{"query": "bad battery", "instructions": [_QUESTION, "How do they feel?"]}])
    ],
) -> Response:
    """Search under two instructions and tell who moved, as `retriever compare --query --json` does."""
    for one in body.instructions:
        check_search(service, body.query, one, body.k)
    requests = [SearchRequest([body.query], one, body.k, body.where, "hybrid") for one in body.instructions]

    def work() -> dict[str, Any]:
        from retriever.clusters.comparing import compare_ranks

        index = opened(service, name)
        first, second = (index.search_many(one)[0] for one in requests)
        return compare_ranks(first, second).to_json()

    return answer(await service.workers.run(work))


def check_search(service: Service, query: str, instruction: str, k: int) -> None:
    """Refuse what is beyond the limits.

    Raises:
        UsageError: it is.
    """
    service.limits.check_text(query, "query")
    service.limits.check_instruction(instruction)
    service.limits.check_hits(k)


def written(document: Document) -> dict[str, Any]:
    """Return a document as JSON has it."""
    return {"id": document.id, "text": document.text, "metadata": dict(document.metadata)}


async def _streamed(service: Service, name: str, request: SearchRequest) -> Response:
    """Answer with events; what fails before the first is an error like any other."""
    answers = await service.workers.run(lambda: opened(service, name).search_progressively(request))
    first = await service.workers.run(partial(_next, answers))
    unkept = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # nor held back by a proxy until it is whole
    return EventSourceResponse(_events(service, name, request, answers, first), headers=unkept)


async def _events(
    service: Service,
    name: str,
    request: SearchRequest,
    answers: Iterator[list[SearchResult]],
    first: SearchResult | None,
) -> AsyncIterator[bytes]:
    """Yield the first answer at once where another may follow, then the last; or why there is none."""
    last = first
    try:
        if first is not None and request.instruction and first.path != "complete" and first.mode != "lexical":
            yield _event("first", first.to_json())
        while (following := await service.workers.run(partial(_next, answers))) is not None:
            last = following
        if last is not None:
            yield _event("settled", last.to_json())
            await service.workers.run(partial(service.look_into, name, last))
    except Exception as error:
        yield _event("error", problem_told(error, service.folder).to_json())


def _next(answers: Iterator[list[SearchResult]]) -> SearchResult | None:
    return next((found[0] for found in answers), None)


def _event(name: str, content: dict[str, Any]) -> bytes:
    return format_sse_event(event=name, data_str=as_json(content).decode())
