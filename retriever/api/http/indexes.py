"""`/indexes`: which there are, what one holds, its documents, and search in it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query
from fastapi import Path as InPath
from fastapi.responses import Response
from fastapi.sse import EventSourceResponse, format_sse_event
from pydantic import BaseModel, Field

from retriever.api.http.answers import Body as RequestBody
from retriever.api.http.answers import answer, as_json
from retriever.api.http.gate import Served
from retriever.api.problems import TookTooLongError, problem_of
from retriever.api.service import Answer, Service
from retriever.core.requests import SearchRequest
from retriever.core.results import KnownAnswers, Settling
from retriever.core.text import require_text
from retriever.forms import made, model_fields

router = APIRouter(prefix="/indexes", tags=["Indexes"])

IndexName = Annotated[str, InPath(description="The name of an index.", examples=["reviews"])]
_QUESTION = "What kind of product is this review about?"

SETTLING_SECONDS = 2.0
"""That a search waits for its settled answer, unless it says how long."""

NEXT_SECONDS = 30
"""That the address in a first answer waits for the settled one."""

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


class Names(BaseModel):
    """The names of the indexes."""

    indexes: list[str]


class FoundDocument(BaseModel):
    """A document."""

    id: str
    text: str
    metadata: dict[str, Any]


class FoundDocuments(BaseModel):
    """Documents by id, in the order asked for, and the ids that are not there."""

    documents: list[FoundDocument]
    missing: list[str]


class FoundUnit(BaseModel):
    """The sentence of a document that was found, and where it stands in the text, in characters."""

    id: str
    number: int
    start: int
    end: int
    text: str


class FoundEqual(BaseModel):
    """The other documents with the text of a hit."""

    count: int
    ids: list[str]


class FoundPart(BaseModel):
    """The part of a document's text that a hit was found by."""

    start: int
    end: int
    text: str


class FoundHit(BaseModel):
    """A document found; see docs/cli.md for its numbers."""

    rank: int
    id: str
    score: float | None
    fused: float
    rerank_score: float | None
    dense_rank: int | None
    lexical_rank: int | None
    text: str
    unit: FoundUnit | None
    part: FoundPart | None
    metadata: dict[str, Any]
    words: list[str]
    percentile: float | None
    equal: FoundEqual


class AnsweredWord(BaseModel):
    """A word that the model answers, and with how many texts."""

    word: str
    texts: int


class FoundVerdict(BaseModel):
    """Whether the model follows an instruction, by a sample of the texts; docs/cli.md tells its parts."""

    instruction: str
    level: Literal["followed", "unclear", "not followed"]
    chance: float
    texts: int
    answers: list[AnsweredWord]
    measured: bool
    another_question: bool
    sentence: str


class SearchAnswer(BaseModel):
    """The answer to a search, as `retriever search --json` prints it."""

    schema_version: int
    query: str
    instruction: str
    view: int | None
    path: Literal["base", "complete", "lazy"]
    mode: Literal["dense", "lexical", "hybrid"]
    steps: int | None
    hits: list[FoundHit]
    took_ms: float
    settling: Settling | None = Field(
        description="Null where nothing was read for it; of a first answer, round 0 and the texts read so far."
    )
    verdict: FoundVerdict | None = Field(
        description="Whether the model follows the instruction; null without one, and as long as nobody has looked."
    )
    known_answers: KnownAnswers | None = Field(description="Null where the filter asks for no answers.")
    reader_fault: str | None = Field(
        description="Why the language model that serves the instruction read no further: hits go by stored answers."
    )
    reranked_by: str | None = Field(description="The reranker whose scores order the first hits; null where none does.")
    rerank_fault: str | None = Field(description="Why the reranker that was named does not order the hits.")
    next: str | None = Field(
        description="Of a first answer, the address of the job that reads texts for the settled one; else null."
    )


@model_fields(SearchRequest)
class SearchBody(RequestBody):
    """A search."""

    stream: bool = Field(
        default=False, description="Answer with server-sent events: `first` where more is read, then `settled`."
    )


@model_fields(SearchRequest, leave_out=("instruction",))
class CompareBody(RequestBody):
    """A comparison of the hits of one search under two instructions."""

    instructions: list[str] = Field(min_length=2, max_length=2, description="The two instructions.")


@router.get("", response_model=Names, summary="Name the indexes")
async def indexes(service: Served) -> Response:
    """Name the indexes that are there now."""
    return answer({"indexes": await service.workers.run(service.names)})


@router.get("/{name}", summary="Describe an index", response_model=dict[str, Any])
async def status(service: Served, name: IndexName) -> Response:
    """Tell what an index holds and how its last runs went, as `retriever status --json` does.

    `reading_on` has the questions whose texts are read on while nobody waits, the next first: `instruction`, `read` and
    `texts`; and `minutes_left`, of today's. Null where the server reads nothing on.
    """
    return answer(await service.workers.run(lambda: service.status(name)))


@router.get("/{name}/documents", response_model=FoundDocuments, summary="Fetch documents")
async def documents(
    service: Served,
    name: IndexName,
    id: Annotated[list[str], Query(min_length=1, description="An id; repeatable.", examples=[["r-001"]])],
) -> Response:
    """Return documents by their ids."""
    service.limits.check_documents(len(id))
    require_text(*id)
    by_id = await service.workers.run(lambda: service.index(name).get(id))
    found = [by_id[key] for key in dict.fromkeys(id) if key in by_id]
    written = [{"id": each.id, "text": each.text, "metadata": dict(each.metadata)} for each in found]
    return answer({"documents": written, "missing": [key for key in dict.fromkeys(id) if key not in by_id]})


@router.post(
    "/{name}/search",
    response_model=SearchAnswer,
    summary="Search under an instruction",
    responses={200: {"content": {"text/event-stream": {"schema": _EVENT}}}},
)
async def search(
    service: Served,
    name: IndexName,
    body: Annotated[SearchBody, Body(openapi_examples=_SEARCHES)],
    wait: Annotated[
        float,
        Query(ge=0, le=3600, description="Seconds to wait for the settled answer, before the first one is given."),
    ] = SETTLING_SECONDS,
) -> Response:
    """Search an index.

    Where texts have to be read under the instruction, that goes on in the background, once for all who ask the same.
    What is not settled within the seconds to wait is answered with the first hits, and with `next`, where the settled
    ones will be: the `result` of that job. The same request gives them too.

    With `stream`, events: `first` with an answer from what was read before, where the instruction's view lacks texts;
    `settled` with the final one; `error` with an error object where that cannot be given.
    """
    request = service.limits.check_search(made(SearchRequest, vars(body)))
    if body.stream:
        return await _streamed(service, name, request)

    return answer(_written(await service.search(name, request, wait=wait)))


@router.post("/{name}/compare", response_model=dict[str, Any], summary="Compare a query's hits under two instructions")
async def compare(
    service: Served,
    name: IndexName,
    body: Annotated[
        CompareBody, Body(examples=[{"query": "bad battery", "instructions": [_QUESTION, "How do they feel?"]}])
    ],
) -> Response:
    """Search under two instructions and tell who moved, as `retriever compare --query --json` does.

    `reader_faults` says of each why its language model read no further; null where nothing stopped it.
    """
    unchecked = [made(SearchRequest, vars(body), instruction=instruction) for instruction in body.instructions]
    requests = [service.limits.check_search(request) for request in unchecked]
    searches = (service.search(name, request, wait=service.limits.seconds) for request in requests)
    first, second = await asyncio.gather(*searches)
    if first.reading or second.reading:
        raise TookTooLongError(
            f"The texts were not read within {service.limits.seconds:g} seconds.",
            hint="Reading goes on: ask the same again.",
        )

    def work() -> dict[str, Any]:
        from retriever.clusters.comparing import compare_ranks

        faults = [each.result.to_json()["reader_fault"] for each in (first, second)]
        return {**compare_ranks(first.result, second.result).to_json(), "reader_faults": faults}

    return answer(await service.workers.run(work))


def _written(known: Answer) -> dict[str, Any]:
    """Return an answer to a search as JSON has it."""
    reading = known.reading
    return {**known.result.to_json(), "next": None if reading is None else f"/jobs/{reading.id}?wait={NEXT_SECONDS}"}


async def _streamed(service: Service, name: str, request: SearchRequest) -> Response:
    """Answer with events; what fails before the first is an error like any other."""
    first = await service.workers.run(lambda: service.begin(name, request))
    unkept = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # nor held back by a proxy until it is whole
    return EventSourceResponse(_events(service, first), headers=unkept)


async def _events(service: Service, known: Answer) -> AsyncIterator[bytes]:
    """Yield the first answer at once where another follows, then the last; or why there is none."""
    if known.reading is not None:
        yield _event("first", _written(known))
    try:
        while known.reading is not None:
            await service.wait_for(known.reading.job, service.limits.seconds)
            known = service.so_far(known)
        yield _event("settled", _written(known))
    except Exception as error:
        yield _event("error", problem_of(error).to_json())


def _event(name: str, content: dict[str, Any]) -> bytes:
    return format_sse_event(event=name, data_str=as_json(content).decode())
