"""Saved clusterings: shown, and changed by who may write."""

from typing import Annotated, Any

from fastapi import APIRouter, Body
from fastapi import Path as InPath
from fastapi.responses import Response
from pydantic import BaseModel, Field

from retriever.api.http.answers import Body as RequestBody
from retriever.api.http.answers import answer
from retriever.api.http.gate import WRITERS, Served
from retriever.api.http.indexes import IndexName
from retriever.api.http.jobs import BEGINS, Wait, begun
from retriever.core.errors import UsageError
from retriever.core.text import require_text
from retriever.serving.jobs import Job

router = APIRouter(prefix="/indexes", tags=["Jobs"])

ClusteringName = Annotated[str, InPath(description="What a clustering was saved under.", examples=["wishes"])]


class EditsBody(RequestBody):
    """Changes of a saved clustering, in this order; a cluster goes by number (from 1), name or its beginning."""

    merge: list[list[str]] = Field(default_factory=list, max_length=100, description="The first takes in the others.")
    split: dict[str, int] = Field(default_factory=dict, description="Into how many parts a cluster goes.")
    move: dict[str, str] = Field(default_factory=dict, description="The cluster of documents by id; none for none.")
    rename: dict[str, str] = Field(default_factory=dict, description="New names.")
    undo: bool = Field(default=False, description="Take back the last change, and do nothing else.")
    author: str = Field(default="server", max_length=200, description="Who changes.")


class ClusteringNames(BaseModel):
    """The names of saved clusterings."""

    clusterings: list[str]


@router.get("/{name}/clusterings", response_model=ClusteringNames, summary="Name the saved clusterings")
async def clusterings(service: Served, name: IndexName) -> Response:
    """Name the clusterings that were saved."""
    names = await service.workers.run(lambda: service.index(name).clusterings.names())
    return answer({"clusterings": names})


@router.post("/{name}/clusterings/{clustering}", **BEGINS, summary="Show a saved clustering")
async def shown(service: Served, name: IndexName, clustering: ClusteringName, wait: Wait = 0) -> Response:
    """Begin to put what is new to its clusters; the result is what `retriever cluster --saved --json` prints."""
    require_text(clustering)

    def work(job: Job) -> dict[str, Any]:
        return service.index(name).clusterings.get(clustering, progress=job.follow).to_json()

    return await begun(service, name, "Saved clustering", work, wait)


@router.post(
    "/{name}/clusterings/{clustering}/edits", **BEGINS, dependencies=WRITERS, summary="Change a saved clustering"
)
async def edit(
    service: Served,
    name: IndexName,
    clustering: ClusteringName,
    body: Annotated[EditsBody, Body(examples=[{"rename": {"1": "Late delivery"}, "author": "Ada"}])],
    wait: Wait = 0,
) -> Response:
    """Begin to change a saved clustering, all of it or nothing; the result is the clustering as it is then."""
    from retriever.clusters.edit_requests import ClusterEdits

    service.limits.check_documents(max(1, len(body.move)))
    require_text(clustering, body.author, *body.move, *body.move.values(), *body.rename, *body.rename.values())
    edits = ClusterEdits(**body.model_dump(exclude={"undo", "author"}))
    if body.undo is bool(edits):
        raise UsageError("The request holds changes and `undo`, or neither.", hint="Send one of the two.")

    def work(job: Job) -> dict[str, Any]:
        index = service.index(name)
        if body.undo:
            index.clusterings.undo(clustering)
            return index.clusterings.get(clustering, progress=job.follow).to_json()
        return index.clusterings.edit(clustering, edits, author=body.author, progress=job.follow).to_json()

    return await begun(service, name, "Changes of a clustering", work, wait, writes=True)
