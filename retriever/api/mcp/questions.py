"""Tools that answer a question: search, groups, two questions side by side, and whether the model follows one."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from retriever.api.mcp.context import (
    MOST_HITS,
    Bounded,
    IndexName,
    Reader,
    ToolContext,
    Where,
    hit_of,
    verdict_of,
)
from retriever.api.problems import made_for_clients, result_for_clients
from retriever.core.requests import GroupOptions, SearchRequest
from retriever.core.results import KnownAnswers
from retriever.forms import made, tool_arguments
from retriever.serving.jobs import Job
from retriever.serving.readings import Reading
from retriever.workspace import Index

if TYPE_CHECKING:
    from retriever.clusters.clustering import Cluster, Clustering
    from retriever.clusters.comparing import Side

_HITS = 10
MOST_GROUPS = 100
SEARCH_WAIT = 15.0  # seconds that a search waits for its settled hits
_GROUP = "label description holds alert size documents keywords text_keywords examples cohesion".split()
_SAMPLED = ("texts", "read", "drawn", "fault")
_DIAGNOSIS = ("level", "verdict", "instruction", "chance", "texts", "words")


@tool_arguments(SearchRequest, most={"k": MOST_HITS})
async def search(context: ToolContext, *, index: IndexName = "", **options: object) -> dict[str, Any]:
    """Search documents by meaning, under an instruction that says what to look at.

    The same query under another instruction ranks by another side of the texts. `score` is a cosine; `percentile`
    says of how many of a hundred random pairs the texts are less alike; `words` are what the model answers to the
    instruction for that document. path `lazy` means that not every document has been read under the instruction.
    `verdict` says whether the model follows the instruction at all; null where nobody has looked: call `diagnose`.
    Under a new instruction texts are read first: where that takes long, `status` is `settling` and hits are the first
    ones, which do not go by the instruction yet; the same call gives the settled ones later. `reader_fault` says why a
    language model read no further; hits then go by the answers that are stored.
    """

    def prepared() -> tuple[str, SearchRequest]:
        return context.index_name(index), context.limits.check_search(made(SearchRequest, options))

    name, request = await context.work(prepared)
    answer = await context.answered(context.service.search(name, request, wait=SEARCH_WAIT))

    def shown() -> dict[str, Any]:
        bounded, result = Bounded(), answer.result
        document = result.to_json()
        hits = bounded.take(document["hits"], lambda hit: hit_of(bounded, name, hit), of="hits")
        subject = {key: getattr(request, key) for key in ("query", "like", "regex")}
        subject = {key: bounded.text(value) for key, value in subject.items() if value is not None}
        kept: dict[str, Any] = {key: document[key] for key in ("instruction", "path", "mode", "reader_fault")}
        kept |= {key: document[key] for key in ("reranked_by", "rerank_fault") if document[key] is not None}
        kept["verdict"] = None if result.verdict is None else verdict_of(result.verdict)
        kept |= {"status": "done"} if answer.reading is None else _settling(answer.reading)
        kept |= _known(result.known_answers)
        return bounded.closed({"index": name, **subject, **kept, "hits": hits})

    return await context.work(shown)


@tool_arguments(GroupOptions, most={"k": MOST_GROUPS})
async def cluster(
    context: ToolContext, *, index: IndexName = "", reader: Reader = "", **options: object
) -> dict[str, Any]:
    """Group the documents by what they say about a question, and name the groups.

    With `into` groups are the categories that you name. Each group has a name, a definition where somebody wrote one,
    its size, the share of its members that the name holds for (`holds`; below a half the name gives examples alone),
    the words that set it apart, a typical sentence and the ids of its most central documents; quote from those with
    `fetch`. Under a new instruction the model reads all texts first: where that takes long, the answer has status
    `running`, and the same call gives the result later. In an index of sentences these are grouped: `size` counts them,
    `documents` those that they are of, and ids are theirs. Where `caution` or an `alert` says something, tell the user
    so. Where a language model reads, groups are of a sample: `sampled` has how many texts were read, and a `fault`
    where that was cut short.
    """
    from retriever.clusters.categories import as_categories

    name = await context.work(lambda: context.index_name(index))
    asked = made(GroupOptions, options)

    def work(job: Job) -> dict[str, Any]:
        context.limits.check_instruction(asked.instruction or "")
        bounded, into = Bounded(), as_categories(asked.into or ())
        settings = {**asdict(asked), "into": into, "by": asked.by or ()}
        opened = context.service.read_by(name, reader, asked.instruction or "")
        clustering = opened.cluster(**settings, progress=job.follow)
        groups = bounded.take(clustering.clusters, lambda group: _group(bounded, group), of="groups")
        units = clustering.material.units
        sizes = {"documents": len(clustering.topics), **({} if units is None else {"units": units})}
        verdict = None if clustering.verdict is None else verdict_of(clustering.verdict)
        heads = {"index": name, "instruction": asked.instruction or "", "verdict": verdict}
        heads |= {"caution": _caution(clustering), "made": clustering.made}
        read = _sampled(clustering)
        return bounded.closed({**heads, **_known(clustering.known_answers), **sizes, **read, "groups": groups})

    return await context.job("cluster", (name, reader, repr(asked)), work)


async def compare(
    context: ToolContext,
    first: Annotated[str, Field(description="One instruction.")],
    second: Annotated[str, Field(description="The other.")],
    index: IndexName = "",
    query: Annotated[str, Field(description="Compare this query's hits; left out, the groups are compared.")] = "",
    where: Where = "",
    reader: Reader = "",
) -> dict[str, Any]:
    """Compare two instructions on one index: who moves among a query's hits, or between groups of documents."""
    name = await context.work(lambda: context.index_name(index))

    def work(job: Job) -> dict[str, Any]:
        context.limits.check_instruction(first, second)
        context.limits.check_text(query, "query")
        bounded, opened = Bounded(), context.service.read_by(name, reader, first, second)
        if query.strip():
            answer = _hits(opened, bounded, query, (first, second), where)
        else:
            answer = _groups(opened, bounded, (first, second), where, job)
        return bounded.closed({"index": name, "instructions": [first, second], **answer})

    return await context.job("compare", (name, first, second, query, where, reader), work)


async def diagnose(
    context: ToolContext,
    instruction: Annotated[str, Field(description="The instruction in question.")],
    index: IndexName = "",
) -> dict[str, Any]:
    """Tell whether the model follows an instruction on this index's texts: followed, unclear or not followed.

    Ask before you trust groups or searches under an unusual instruction. `words` are what the model answers most
    often, `chance` how likely it is that the instruction is followed. Where it is not, ask in other words, or name a
    language model as `reader` of `search` and `cluster`. Takes seconds.
    """
    name = await context.work(lambda: context.index_name(index))

    def work(job: Job) -> dict[str, Any]:
        context.limits.check_instruction(instruction)
        diagnosis = context.service.index(name).teaching.diagnose(instruction, progress=job.follow)
        document = {**diagnosis.to_json(), "verdict": verdict_of(diagnosis.verdict)}
        return {"index": name, **{key: document[key] for key in _DIAGNOSIS}, "left_out": []}

    return await context.job("diagnose", (name, instruction), work)


def _caution(clustering: "Clustering") -> str:
    """Return the caution of a clustering, its verdict and its fault as agents are told them."""
    worded = made_for_clients({"caution": clustering.caution, "fault": clustering.fault})
    caution, verdict = str(worded["caution"]), clustering.verdict
    return caution if verdict is None else caution.replace(verdict.sentence, verdict_of(verdict))


def _sampled(clustering: "Clustering") -> dict[str, Any]:
    """Return how many texts a language model read, and why no more; nothing where an encoder read them all."""
    if clustering.sampled is None:
        return {}
    document = made_for_clients(clustering.sampled.to_json())
    return {"sampled": {key: document[key] for key in _SAMPLED}}


def _settling(reading: Reading) -> dict[str, Any]:
    """Return how far the reading of a search is, and how to ask for what comes of it."""
    said = "These are the first hits. Texts are read under the instruction: call search again with the same arguments."
    return {"status": "settling", "progress": reading.job.snapshot().progress, "next": said}


def _known(known: KnownAnswers | None) -> dict[str, str]:
    """Return a sentence on the answers that a filter looks at; nothing where it asks for none."""
    return {} if known is None else {"filter": known.sentence}


def _group(bounded: Bounded, group: "Cluster") -> dict[str, Any]:
    counts = {"by": {field: dict(spread.counts) for field, spread in group.spreads.items()}} if group.spreads else {}
    document = group.to_json()
    measured = {key: document[key] for key in _GROUP}
    return {**measured, "sentence": bounded.text(group.sentence), **counts}


def _hits(index: Index, bounded: Bounded, query: str, instructions: tuple[str, str], where: str) -> dict[str, Any]:
    from retriever.clusters.comparing import compare_ranks

    request = SearchRequest(query, k=_HITS, where=where)
    results = index.search_many([replace(request, instruction=each) for each in instructions])
    first, second = map(result_for_clients, results)
    compared = compare_ranks(first, second)
    return {
        "query": query,
        "overlap": round(compared.overlap, 4),
        "paths": [result.path for result in compared.results],
        "verdicts": _sentences(compared.sides),
        "reader_faults": [result.reader_fault and str(result.reader_fault) for result in compared.results],
        "filters": [result.known_answers and result.known_answers.sentence for result in compared.results],
        "documents": bounded.take(compared.moved, lambda moved: moved.to_json(), of="documents"),
    }


def _groups(index: Index, bounded: Bounded, instructions: tuple[str, str], where: str, job: Job) -> dict[str, Any]:
    from retriever.clusters.comparing import Flow, compare_clusters

    left, right = index.clusterings.each(instructions, where=where or None, progress=job.follow)
    compared = compare_clusters(left, right)
    first, second = compared.names

    def named(flow: Flow) -> dict[str, Any]:
        return {**flow.to_json(), "from": first[flow.first], "to": second[flow.second]}

    document = compared.to_json()
    measures = {key: document[key] for key in ("adjusted_rand", "adjusted_mutual_information", "moved")}
    flows = bounded.take(compared.flows, named, of="flows")
    return {**measures, "verdicts": _sentences(compared.sides), "flows": flows}


def _sentences(sides: "Sequence[Side]") -> list[str | None]:
    """Return of both instructions whether the model follows them; None where nobody has looked."""
    return [None if side.verdict is None else verdict_of(side.verdict) for side in sides]
