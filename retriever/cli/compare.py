"""`retriever compare`: the hits or clusters of two instructions beside each other."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption, refuse
from retriever.cli.reading import Reading, say_known
from retriever.cli.verdicts import say_verdict
from retriever.core.errors import UsageError
from retriever.core.requests import GroupOptions, SearchRequest
from retriever.forms import command_options, made

if TYPE_CHECKING:
    from retriever.clusters.comparing import ClusterChange, RankChange, Side

_HITS = 10


@command_options(GroupOptions, leave_out=("instruction", "into", "several", "by"))
@command_options(Reading)
def compare(  # noqa: PLR0913 - one parameter per option
    index: IndexOption = DEFAULT_INDEX,
    instruction: Annotated[list[str] | None, typer.Option(help="Instruction to compare; give it twice.")] = None,
    saved: Annotated[
        list[str] | None, typer.Option(help="Saved groups to compare, in place of an instruction; repeatable.")
    ] = None,
    query: Annotated[str, typer.Option(help="Compare the hits of this query; without it, the groups.")] = "",
    hits: Annotated[int | None, typer.Option(help=f"Number of hits of the query. [default: {_HITS}]")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the comparison as an HTML page.")] = None,
    *,
    device: DeviceOption = "auto",
    json: JsonOption = False,
    **options: object,
) -> None:
    """Compare the hits or the groups of two instructions.

    Groups, those that were saved too, are compared by the documents that move between them.

    Example: retriever compare --instruction "What broke?" --instruction "How do they feel?" --query "bad battery"
    """
    from retriever.clusters.comparing import ClusterChange, RankChange, compare_clusters, compare_ranks, write_page

    instructions, names = instruction or [], saved or []
    if len(instructions) + len(names) != 2:
        raise UsageError("Two instructions or saved groups are needed.", hint="Give --instruction or --saved twice.")
    groups, reading = made(GroupOptions, options), made(Reading, options)
    refuse(query and names, "A query has hits under instructions.", "Give --instruction twice.")
    refuse(query and groups.k, "-k is the number of groups, not of hits.", "Give the number of hits with --hits.")
    refuse(
        hits is not None and not query, "--hits needs a query.", "Add --query, or give the number of groups with -k."
    )
    with reading.opened(index, device) as opened, output.ProgressLine() as line:
        change: RankChange | ClusterChange
        for question in instructions:
            reading.begin(opened, question, required=not query)
        if query:
            depth = _HITS if hits is None else hits
            request = SearchRequest(query, k=depth, where=groups.where)
            requests = [replace(request, instruction=question) for question in instructions]
            first, second = opened.search_many(requests)
            judged = [opened.teaching.judge(question, progress=line.show) for question in instructions]
            results = [replace(first, verdict=judged[0]), replace(second, verdict=judged[1])]
            change = compare_ranks(*(result if json else result.shown for result in results))
        else:
            each = partial(opened.clusterings.each, k=groups.k, where=groups.where, read=reading.texts)
            made_now = each(instructions, progress=line.show) if instructions else []
            opened_now = [opened.clusterings.get(name, progress=line.show) for name in names]
            change = compare_clusters(*made_now, *opened_now)
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
    first, second = change.names
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
