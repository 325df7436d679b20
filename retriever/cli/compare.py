"""`retriever compare`: the hits or clusters of two instructions beside each other."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.cluster import AUTO, cluster_count
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption, WhereOption, refuse
from retriever.cli.reading import Reading, say_known
from retriever.cli.verdicts import say_verdict
from retriever.core.errors import UsageError
from retriever.forms import command_options, made

if TYPE_CHECKING:
    from retriever.clusters.comparing import ClusterChange, RankChange, Side

_HITS = 10


@command_options(Reading)
def compare(  # noqa: PLR0913 - one parameter per option
    index: IndexOption = DEFAULT_INDEX,
    instruction: Annotated[list[str] | None, typer.Option(help="Instruction to compare; give it twice.")] = None,
    query: Annotated[str, typer.Option(help="Compare the hits of this query; without it, the clusters.")] = "",
    hits: Annotated[int | None, typer.Option(help=f"Number of hits of the query. [default: {_HITS}]")] = None,
    k: Annotated[
        str, typer.Option("-k", help="Number of clusters; auto chooses it, or takes the answers that were taught.")
    ] = AUTO,
    where: WhereOption = None,
    html: Annotated[Path | None, typer.Option(help="Write the comparison as an HTML page.")] = None,
    *,
    device: DeviceOption = "auto",
    json: JsonOption = False,
    **options: object,
) -> None:
    """Compare the hits or the clusters of two instructions.

    Clusters are compared by the documents that move between them.

    Example: retriever compare --instruction "What broke?" --instruction "How do they feel?" --query "bad battery"
    """
    from retriever.clusters.comparing import ClusterChange, RankChange, compare_clusters, compare_ranks, write_page
    from retriever.core.requests import SearchRequest

    if instruction is None or len(instruction) != 2:
        raise UsageError("Two instructions are needed.", hint="Give --instruction twice.")
    refuse(query and k != AUTO, "-k is the number of clusters, not of hits.", "Give the number of hits with --hits.")
    refuse(
        hits is not None and not query, "--hits needs a query.", "Add --query, or give the number of clusters with -k."
    )
    count, reading = cluster_count(k), made(Reading, options)
    budget = reading.texts
    with reading.opened(index, device) as opened, output.ProgressLine() as line:
        change: RankChange | ClusterChange
        for question in instruction:
            reading.begin(opened, question, required=not query)
        if query:
            depth = _HITS if hits is None else hits
            request = SearchRequest(query, k=depth, where=where)
            requests = [replace(request, instruction=question) for question in instruction]
            first, second = opened.search_many(requests)
            judged = [opened.teaching.judge(question, progress=line.show) for question in instruction]
            results = [replace(first, verdict=judged[0]), replace(second, verdict=judged[1])]
            change = compare_ranks(*(result if json else result.shown for result in results))
        else:
            each = opened.clusterings.each
            change = compare_clusters(*each(instruction, k=count, where=where, read=budget, progress=line.show))
    if html is not None:
        write_page(html, change)
    if json:
        output.document(change.to_json())
    elif isinstance(change, RankChange):
        _render_ranks(change)
    else:
        _render_flows(change)


def _render_ranks(change: "RankChange") -> None:
    rows = [
        [*("-" if rank is None else rank for rank in move.ranks), move.hit.document.id, *map(", ".join, move.words)]
        for move in change.moved
    ]
    output.table(["A", "B", "id", "A answers", "B answers"], rows)
    _say_instructions(change.sides)
    for sentence in change.approximate:
        output.say(sentence)
    for result in change.results:
        say_known(result.known_answers)
    output.say(f"{change.overlap:.0%} of the hits are in both.")


def _render_flows(change: "ClusterChange") -> None:
    first, second = ([cluster.label for cluster in each.clusters] for each in change.clusterings)
    rows = [
        [len(flow.ids), first[flow.first], "=" if flow.stays else "->", second[flow.second], ", ".join(flow.examples)]
        for flow in change.flows
    ]
    output.table(["documents", "A", "", "B", "such as"], rows)
    _say_instructions(change.sides)
    output.say(change.sentence)


def _say_instructions(sides: "Sequence[Side]") -> None:
    for name, side in zip("AB", sides, strict=True):
        output.say(f"{name}: {side.instruction or '(default)'}")
        say_verdict(side.verdict, of="   ")
