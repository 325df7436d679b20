"""`retriever compare`: what changes when the same corpus is asked another question."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from retriever.cli import output
from retriever.cli.cluster import AUTO, cluster_count
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption
from retriever.core.errors import UsageError

_HITS = 10


def compare(  # noqa: PLR0913 - one parameter per option
    index: IndexOption = DEFAULT_INDEX,
    instruction: Annotated[list[str] | None, typer.Option(help="Give it twice: the two questions to compare.")] = None,
    query: Annotated[str, typer.Option(help="Compare this query's hits; without it, the clusters.")] = "",
    hits: Annotated[int | None, typer.Option(help=f"Hits of the query; {_HITS} unless said.")] = None,
    k: Annotated[str, typer.Option("-k", help="How many clusters, or auto to choose by silhouette.")] = AUTO,
    where: Annotated[
        str | None, typer.Option(help="Filter over metadata: \"stars <= 2 and category = 'toy'\".")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the comparison as a page.")] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Compare two instructions: one query's ranks, or two clusterings and who moved between them.

    Example: retriever compare --instruction "What broke?" --instruction "How do they feel?" --query "bad battery"
    """
    from retriever.clusters.comparing import compare_clusters, compare_ranks
    from retriever.clusters.comparison_page import write_page
    from retriever.core.requests import SearchRequest
    from retriever.workspace import Index

    if instruction is None or len(instruction) != 2:
        raise UsageError("Two instructions are compared.", hint="Give --instruction twice.")
    if query and k != AUTO:
        raise UsageError("-k is for clusters, not for a query's hits.", hint="Say how many of those with --hits.")
    if hits is not None and not query:
        raise UsageError("--hits is for a query.", hint="Give one with --query; -k says how many clusters.")
    count, line = cluster_count(k), output.ProgressLine()
    with Index(index, device=device) as opened:
        if query:
            depth = _HITS if hits is None else hits
            requests = [SearchRequest([query], one, depth, where, "hybrid") for one in instruction]
            first, second = (opened.search_many(one)[0] for one in requests)
            judged = [opened.judge(one, progress=line.show) for one in instruction]
            line.close()
            first, second = replace(first, verdict=judged[0]), replace(second, verdict=judged[1])
            document = compare_ranks(first, second).to_json()
        else:
            one, other = opened.cluster_each(instruction, k=count, where=where, progress=line.show)
            line.close()
            document = compare_clusters(one, other).to_json()
    if html is not None:
        write_page(html, document)
    if json:
        output.document(document)
    elif query:
        _render_ranks(document)
    else:
        _render_flows(document)


def _render_ranks(document: Mapping[str, Any]) -> None:
    from retriever.clusters.comparison_page import approximate

    rows = [
        [*("-" if rank is None else rank for rank in one["ranks"]), one["id"], *map(", ".join, one["words"])]
        for one in document["documents"]
    ]
    output.table(["A", "B", "id", "A answers", "B answers"], rows)
    _say_instructions(document)
    for sentence in approximate(document):
        output.say(sentence)
    output.say(f"{document['overlap']:.0%} of the hits are in both.")


def _render_flows(document: Mapping[str, Any]) -> None:
    first, second = ([one["label"] for one in each] for each in document["clusters"])
    rows = [
        [
            one["size"],
            first[one["from"]],
            "=" if one["stays"] else "->",
            second[one["to"]],
            ", ".join(one["examples"]),
        ]
        for one in document["flows"]
    ]
    output.table(["documents", "A", "", "B", "such as"], rows)
    _say_instructions(document)
    output.say(
        f"{document['moved']} documents are in another cluster; adjusted Rand index {document['adjusted_rand']:.2f}, "
        f"adjusted mutual information {document['adjusted_mutual_information']:.2f}."
    )


def _say_instructions(document: Mapping[str, Any]) -> None:
    for name, instruction, verdict in zip("AB", document["instructions"], document["verdicts"], strict=True):
        output.say(f"{name}: {instruction}")
        if verdict is not None and verdict["level"] != "followed":
            output.say(f"   {verdict['sentence']}")
