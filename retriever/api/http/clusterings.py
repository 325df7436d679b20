"""Categories somebody names, and saved clusterings: shown, and changed by who may write."""

from typing import Annotated, Any

from fastapi import APIRouter, Body
from fastapi import Path as InPath
from fastapi.responses import Response
from pydantic import BaseModel, Field

from retriever.api.faults import made_for_clients
from retriever.api.http.answers import Body as RequestBody
from retriever.api.http.answers import answer
from retriever.api.http.gate import WRITERS, Served
from retriever.api.http.indexes import IndexName, Where
from retriever.api.http.jobs import BEGINS, ReadingBody, Wait, begun
from retriever.core.errors import UsageError
from retriever.core.text import require_text
from retriever.serving.jobs import Job

router = APIRouter(prefix="/indexes", tags=["Jobs"])

ClusteringName = Annotated[str, InPath(description="What a clustering was saved under.", examples=["wishes"])]
_QUESTION = "What does the customer want?"


class GivenCategory(RequestBody):
    """A category."""

    name: str = Field(min_length=1, max_length=200)
    description: str = Field(default="", max_length=2000, description="What belongs to it.")
    examples: list[str] = Field(default_factory=list, max_length=100, description="Ids of documents that do.")


class ClassifyBody(ReadingBody):
    """A classification; what its settings mean is told by `retriever classify --help`."""

    instruction: str = Field(min_length=1, description="What the categories are answers to.")
    into: list[str | GivenCategory] = Field(
        default_factory=list, max_length=200, description="The categories, or their names: two or more."
    )
    propose: bool = Field(
        default=False, description="Offer at most twelve categories, made of answers in words, in place of sorting."
    )
    several: bool = Field(default=False, description="Whether a document may belong to several.")
    where: Where = None


class EditsBody(RequestBody):
    """Changes of a saved clustering, in this order; a cluster goes by number (from 1), name or its beginning."""

    merge: list[list[str]] = Field(default_factory=list, max_length=100, description="The first takes in the others.")
    split: dict[str, int] = Field(default_factory=dict, description="Into how many parts a cluster goes.")
    move: dict[str, str] = Field(default_factory=dict, description="The cluster of documents by id; none for none.")
    rename: dict[str, str] = Field(default_factory=dict, description="New names.")
    hide: list[str] = Field(default_factory=list, max_length=100)
    show: list[str] = Field(default_factory=list, max_length=100)
    name_by: str = Field(
        default="", max_length=1000, description="The index's reader that titles clusters; stands alone."
    )
    undo: bool = Field(default=False, description="Take back the last change, and do nothing else.")
    author: str = Field(default="server", max_length=200, description="Who changes.")


class ClusteringNames(BaseModel):
    """The names of saved clusterings."""

    clusterings: list[str]


@router.post("/{name}/classify", **BEGINS, summary="Put documents to categories")
async def classify(
    service: Served,
    name: IndexName,
    body: Annotated[
        ClassifyBody,
        Body(examples=[{"instruction": _QUESTION, "into": ["refund", "repair", "nothing"]}]),
    ],
    wait: Wait = 0,
) -> Response:
    """Begin to put every document to a category; the result is what `retriever classify --json` prints.

    With `propose` the result is categories with definitions, to edit and to send as `into`.
    """
    from retriever.clusters.categories import Category, category

    service.limits.check_instruction(body.instruction)
    if body.propose and (body.into or body.several):
        raise UsageError("`propose` only offers categories.", hint="Leave out `into` and `several`.")
    if not body.propose and not body.into:
        raise UsageError("No categories are named.", hint="Name them in `into`, or set `propose` to have some offered.")
    into: list[Category | str] = [
        category(item if isinstance(item, str) else item.model_dump(), "into") for item in body.into
    ]

    def work(job: Job) -> dict[str, Any]:
        clusterings = service.read_by(name, body.reader, body.instruction).clusterings
        if body.propose:
            proposal = clusterings.propose(body.instruction, where=body.where, progress=job.follow)
            return made_for_clients(proposal.to_json())
        clustering = clusterings.classify(
            body.instruction, into, several=body.several, where=body.where, read=body.read, progress=job.follow
        )
        return made_for_clients(clustering.to_json())

    return await begun(service, name, "Classification", work, wait)


@router.get("/{name}/clusterings", response_model=ClusteringNames, summary="Name the saved clusterings")
async def clusterings(service: Served, name: IndexName) -> Response:
    """Name the clusterings and categories that were saved."""
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
    require_text(
        clustering, body.author, body.name_by, *body.move, *body.move.values(), *body.rename, *body.rename.values()
    )
    edits = ClusterEdits(**body.model_dump(exclude={"undo", "author"}))
    if body.undo is bool(edits):
        raise UsageError("The request holds changes and `undo`, or neither.", hint="Send one of the two.")

    def work(job: Job) -> dict[str, Any]:
        index = service.index(name, reader=body.name_by)
        if body.undo:
            index.clusterings.undo(clustering)
            return index.clusterings.get(clustering, progress=job.follow).to_json()
        return index.clusterings.edit(clustering, edits, author=body.author, progress=job.follow).to_json()

    return await begun(service, name, "Changes of a clustering", work, wait)
