"""`cluster`: what the documents say about a question, in groups with names."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import Field

from retriever.api.mcp.arguments import IndexName, Instruction, Where
from retriever.api.mcp.desk import Bounded, Desk
from retriever.api.mcp.patience import Patience
from retriever.serving.jobs import Job
from retriever.serving.progress import indexing_progress


def make(desk: Desk) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Make the tool."""
    patience = Patience(desk)

    async def cluster(
        index: IndexName = "",
        instruction: Instruction = "",
        k: Annotated[int, Field(ge=0, le=100, description="How many groups; 0 chooses by the data.")] = 0,
        where: Where = "",
        by: Annotated[str, Field(description="A metadata field whose values are counted in every group.")] = "",
    ) -> dict[str, Any]:
        """Group the documents by what they say about a question, and name the groups.

        Each group has a name, its size, the words that set it apart, a typical sentence and the ids of its most central
        documents; quote from those with `fetch`. Under a new instruction the model reads all texts first: where that
        takes long, the answer has status `running`, and the same call gives the result later. In an index of sentences
        these are grouped: `size` counts them, `documents` those that they are of, and ids are theirs. Where `caution`
        says something, the groups may be no answers to the question: tell the user so.
        """
        name = await desk.work(lambda: desk.index_name(index))

        def work(job: Job) -> dict[str, Any]:
            desk.limits.check_instruction(instruction)
            bounded, opened = Bounded(), desk.service.whole_index(name)
            document = opened.cluster(
                instruction, k=k or None, where=where or None, by=[by] if by else (), progress=indexing_progress(job)
            ).to_json()
            groups = bounded.take(document["clusters"], lambda one: _group(bounded, one), of="groups")
            counted = {key: document[key] for key in ("documents", "units") if document[key] is not None}
            verdict = None if document["verdict"] is None else document["verdict"]["sentence"]
            told = {"instruction": instruction, "verdict": verdict, "caution": document["caution"]}
            return bounded.closed({"index": name, **told, **counted, "groups": groups})

        return await patience.answer("cluster", (name, instruction, k, where, by), work)

    return cluster


def _group(bounded: Bounded, one: dict[str, Any]) -> dict[str, Any]:
    kept = {
        key: one[key] for key in ("label", "size", "documents", "keywords", "text_keywords", "examples", "cohesion")
    }
    counts = {"by": {field: spread["counts"] for field, spread in one["by"].items()}} if one["by"] else {}
    return {**kept, "sentence": bounded.text(one["sentence"]), **counts}
