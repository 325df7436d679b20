"""`/jobs`, and the endpoints that begin one: clusters, and documents that come and go."""

import secrets
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query
from fastapi import Path as InPath
from fastapi.responses import Response
from pydantic import BaseModel, Field

from retriever.api.http.answers import Body as RequestBody
from retriever.api.http.answers import answer
from retriever.api.http.gate import WRITERS, Served
from retriever.api.http.indexes import IndexName
from retriever.api.problems import NotFoundError, made_for_clients, problem_of
from retriever.api.service import Service
from retriever.clusters.budget import BUDGET
from retriever.core.errors import UsageError
from retriever.core.requests import GroupOptions
from retriever.core.results import SearchResult
from retriever.core.text import is_text, require_text
from retriever.core.types import JSON, Document
from retriever.forms import made, model_fields
from retriever.index.files import DEEPEST, LONGEST_ID
from retriever.serving.jobs import Job, Status

router = APIRouter(tags=["Jobs"])
_QUESTION = "What do people complain about?"

JobId = Annotated[str, InPath(description="The id that the job began with.", examples=["5f2c9a7e01b3d4c6"])]
Wait = Annotated[
    float, Query(ge=0, le=3600, description="Seconds to wait for the end; the server's own limit is the longest.")
]


class ReadingBody(RequestBody):
    """The reading of a language model for a request."""

    reader: str | None = Field(
        default=None, description="Reads texts under the instruction from now on: one that the index knows."
    )
    read: int | Literal["all"] = Field(
        default=BUDGET, description="Texts that a language model reads, where one serves the instruction, or `all`."
    )


class GivenCategory(RequestBody):
    """A category."""

    name: str = Field(min_length=1, max_length=200)
    description: str = Field(default="", max_length=2000, description="What belongs to it.")
    examples: list[str] = Field(default_factory=list, max_length=100, description="Ids of documents that do.")


@model_fields(GroupOptions, leave_out=("into",))
class ClusterBody(ReadingBody):
    """Documents in groups; what its settings mean is told by `retriever cluster --help`."""

    into: list[str | GivenCategory] = Field(
        default_factory=list, max_length=200, description="Your own categories, or their names: two or more."
    )


@model_fields(GroupOptions, leave_out=("instruction", "into", "several", "by"))
class CompareClustersBody(ReadingBody):
    """A comparison of the groups under two instructions."""

    instructions: list[str] = Field(min_length=2, max_length=2)


class GivenDocument(RequestBody):
    """A document."""

    id: str = Field(min_length=1, max_length=LONGEST_ID)
    text: str = Field(min_length=1)
    metadata: dict[str, Any] = Field(default_factory=dict)


class DocumentsBody(RequestBody):
    """Documents to add; one whose id is there takes the place of that."""

    documents: list[GivenDocument]
    instructions: list[str] = Field(default_factory=list, max_length=8, description="Further views to fill.")


class JobWaiting(BaseModel):
    """The reason why a job waits."""

    behind: str = Field(description="The title of the job that is under way, or what else holds it up.")
    place: int = Field(description="In the line; 1 is next.")


class JobAnswer(BaseModel):
    """A job as it stands."""

    id: str
    title: str
    index: str
    status: Status
    seconds: float = Field(description="Since it was asked for, until its end.")
    waiting: JobWaiting | None = Field(description="What it waits for; null unless its status is `waiting`.")
    progress: dict[str, Any] | None = Field(
        description="Texts or rows done, how many there are and the seconds left, where known."
    )
    result: dict[str, Any] | None = Field(description="What came out; null before that.")
    error: dict[str, Any] | None = Field(description="Why it failed; null otherwise.")


BEGINS: dict[str, Any] = {
    "response_model": JobAnswer,
    "responses": {202: {"model": JobAnswer, "description": "It is under way"}},
}
"""Settings of the routes that begin a job."""


@router.get("/jobs/{job}", response_model=JobAnswer, summary="Look at a job")
async def look(service: Served, job: JobId, wait: Wait = 0) -> Response:
    """Tell how a job stands, after waiting for its end if that is asked for."""
    task = _find(service, job)
    await service.wait_for(task, wait)
    return answer(_state(job, task))


@router.delete("/jobs/{job}", response_model=JobAnswer, summary="Cancel a job")
async def cancel(
    service: Served, job: Annotated[str, InPath(examples=["5f2c9a7e01b3d4c6"])], wait: Wait = 0
) -> Response:
    """Ask a job to end, at once where it waits; what it has read is kept, and nothing is left half done."""
    task = _find(service, job)
    task.stop()
    await service.wait_for(task, wait)
    return answer(_state(job, task))


@router.post("/indexes/{name}/cluster", **BEGINS, summary="Group the documents of an index")
async def cluster(
    service: Served,
    name: IndexName,
    body: Annotated[ClusterBody, Body(examples=[{"instruction": _QUESTION, "by": ["stars"]}])],
    wait: Wait = 0,
) -> Response:
    """Begin to group documents; the result is what `retriever cluster --json` prints."""
    from retriever.clusters.categories import category

    options = made(GroupOptions, vars(body))
    service.limits.check_instruction(options.instruction or "")
    into = [category(item if isinstance(item, str) else item.model_dump(), "into") for item in body.into]

    def work(job: Job) -> dict[str, Any]:
        index = service.read_by(name, body.reader, options.instruction or "")
        settings = {**asdict(options), "into": into, "by": options.by or ()}
        return made_for_clients(index.cluster(**settings, read=body.read, progress=job.follow).to_json())

    return await begun(service, name, "Clustering", work, wait)


@router.post("/indexes/{name}/compare/clusters", **BEGINS, summary="Compare the groups under two instructions")
async def compare_clusters(
    service: Served,
    name: IndexName,
    body: Annotated[CompareClustersBody, Body(examples=[{"instructions": [_QUESTION, "How do they feel?"]}])],
    wait: Wait = 0,
) -> Response:
    """Begin to cluster under both; the result is what `retriever compare --json` prints."""
    service.limits.check_instruction(*body.instructions)

    def work(job: Job) -> dict[str, Any]:
        from retriever.clusters.comparing import compare_clusters as compared

        index = service.read_by(name, body.reader, *body.instructions)
        options = made(GroupOptions, vars(body))
        each = partial(index.clusterings.each, k=options.k, where=options.where, read=body.read)
        first, second = each(body.instructions, progress=job.follow)
        return compared(first, second).to_json()

    return await begun(service, name, "Comparison of clusters", work, wait)


@router.post("/indexes/{name}/documents", **BEGINS, dependencies=WRITERS, summary="Add documents")
async def add(
    service: Served,
    name: IndexName,
    body: Annotated[
        DocumentsBody, Body(examples=[{"documents": [{"id": "r-901", "text": "It broke.", "metadata": {"stars": 1}}]}])
    ],
    wait: Wait = 0,
) -> Response:
    """Begin to add or replace documents, in every view that somebody asked for; whole batches stay whatever happens."""
    service.limits.check_documents(len(body.documents))
    service.limits.check_instruction(*body.instructions)
    documents = [_checked(service, document) for document in body.documents]

    def work(job: Job) -> dict[str, Any]:
        index = service.index(name)
        return index.add(documents, instructions=body.instructions, progress=job.follow).to_json()

    return await begun(service, name, "Adding documents", work, wait, writes=True)


@router.delete("/indexes/{name}/documents", **BEGINS, dependencies=WRITERS, summary="Delete documents")
async def delete(
    service: Served,
    name: IndexName,
    id: Annotated[list[str], Query(min_length=1, description="An id; repeatable.", examples=[["r-901"]])],
    wait: Wait = 30,
) -> Response:
    """Begin to delete documents from every view; the result names those that were there and those that were not."""
    service.limits.check_documents(len(id))
    require_text(*id)

    def work(_: Job) -> dict[str, Any]:
        deleted = service.index(name).delete(id)
        return {"deleted": deleted, "missing": sorted(set(id) - set(deleted))}

    return await begun(service, name, "Deleting documents", work, wait, writes=True)


def _checked(service: Service, given: GivenDocument) -> Document:
    """Return a document that an index takes; raise `UsageError`, which names its id, for another."""
    if not given.text.strip() or not given.id.strip():
        raise UsageError(f"The document {given.id!r} has no text or no id.", hint="Leave it out.")
    require_text(given.id)
    service.limits.check_text(given.text, f"The text of {given.id!r}")
    if not _plain(given.metadata, DEEPEST):
        raise UsageError(
            f"The metadata of {given.id!r} is nested too deeply, or holds characters that cannot be stored.",
            hint=f"Send {DEEPEST} levels at most, in valid Unicode.",
        )
    return Document(given.id, given.text, given.metadata)


def _plain(value: JSON, depth: int) -> bool:
    """Whether a value of JSON is nested no deeper, and holds text alone that a database takes."""
    if isinstance(value, str):
        return is_text(value)
    if isinstance(value, dict):
        return depth > 0 and all(_plain(key, depth) and _plain(item, depth - 1) for key, item in value.items())
    if isinstance(value, list):
        return depth > 0 and all(_plain(item, depth - 1) for item in value)
    return not isinstance(value, float) or value - value == 0  # neither infinite nor NaN


async def begun(
    service: Service, name: str, title: str, work: Callable[[Job], dict[str, Any]], wait: float, *, writes: bool = False
) -> Response:
    """Begin a job and answer with it; one that ``writes`` goes behind the others that write to the index.

    Where it failed within the time to wait, raise its error; or as `make_room`.
    """
    await service.workers.run(lambda: service.index(name))
    line = service.indexes.line(name) if writes else None
    service.make_room(line)
    id = secrets.token_hex(8)
    job = service.jobs.start(id, title, work, about=name, line=line)
    await service.wait_for(job, wait)
    error = job.snapshot().error
    if wait and error is not None:  # who did not wait is told by the job
        service.jobs.forget(id)
        raise error
    return answer(_state(id, job), 200 if job.over else 202)


def _find(service: Service, id: str) -> Job:
    job = service.find_job(id)
    if job is None:
        raise NotFoundError(
            f"There is no job {id!r}.", hint="The last ones are kept after their end, until the server stops."
        )
    return job


def _state(id: str, job: Job) -> dict[str, Any]:
    now = job.snapshot()
    result = now.result.to_json() if isinstance(now.result, SearchResult) else now.result
    return {
        "id": id,
        "title": job.title,
        "index": job.about,
        "status": now.status,
        "seconds": round(now.seconds, 3),
        "waiting": None if now.waiting is None else asdict(now.waiting),
        "progress": now.progress,
        "result": result,
        "error": None if now.error is None else problem_of(now.error).to_json()["error"],
    }
