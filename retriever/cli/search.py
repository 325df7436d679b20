"""`retriever search`: a query and an instruction in, documents out."""

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from retriever.cli import output
from retriever.cli.marks import Marking, steered
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption
from retriever.core.errors import UsageError
from retriever.core.text import printable, shortened

if TYPE_CHECKING:
    from retriever.core.results import Hit, SearchResult
    from retriever.shards.index import ShardedIndex
    from retriever.workspace import Index

SNIPPET = 220
_ORDERED_BY = {"dense": "vectors", "lexical": "words", "hybrid": "vectors and words together"}


def search(  # noqa: PLR0913 - one parameter per option
    query: Annotated[str, typer.Argument(help="What to look for; - reads one query a line from stdin.")] = "",
    index: IndexOption = DEFAULT_INDEX,
    instruction: Annotated[str, typer.Option(help="What to look at, in plain words.")] = "",
    k: Annotated[int, typer.Option("-k", help="Hits per query.")] = 10,
    where: Annotated[
        str | None, typer.Option(help="Filter over metadata: \"stars <= 2 and category = 'toy'\".")
    ] = None,
    mode: Annotated[
        Literal["auto", "dense", "lexical", "hybrid"], typer.Option(help="By vectors, by words, or both.")
    ] = "auto",
    steps: Annotated[int | None, typer.Option(min=1, help="K soft tokens for the query (GIRCSE).")] = None,
    like: Annotated[str | None, typer.Option(help="Find what resembles the document of this id.")] = None,
    more: Annotated[
        list[str] | None, typer.Option(help="Find more like this hit, now and when the query comes again; repeatable.")
    ] = None,
    less: Annotated[list[str] | None, typer.Option(help="Find less like this hit, likewise; repeatable.")] = None,
    unmark: Annotated[
        list[str] | None, typer.Option(help="Forget what was said of this hit; all of the query's with 'all'.")
    ] = None,
    as_rows: Annotated[
        Path | None, typer.Option("--as-rows", help="Write the query's marked hits as a row for finetune.")
    ] = None,
    regex: Annotated[
        str | None,
        typer.Option(help="A regular expression that the text holds: '(?i)charg(er|ing)'; with or without a query."),
    ] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Search an index under an instruction; the folder of an index that was split into shards is one too.

    What --more and --less say is kept with the index, for the query under its instruction.

    Example: retriever search "it broke" --instruction "What kind of product is this?" --where "stars <= 2"
    """
    from retriever.core.requests import SearchRequest
    from retriever.shards.opening import opened_index

    if (like is not None and query) or not (like or query or regex):
        raise UsageError("Give either a query or --like ID.", hint="--regex can also stand alone.")
    several = query == "-"
    marking = Marking(more or [], less or [], unmark or [], as_rows)
    if marking and (several or not query):
        raise UsageError("Hits are marked under one query.", hint="Give the query they were found by.")
    queries = output.stdin_lines() if several else [query]
    if several and not queries:
        raise UsageError("There are no queries on stdin.", hint="Send one query a line.")
    with opened_index(index, device=device) as opened:
        answers: Iterator[list[SearchResult]]
        if like is not None:
            found = opened.search_like(
                like, instruction=instruction, k=k, where=where, mode=mode, steps=steps, regex=regex
            )
            answers = iter([[found]])
        elif not query:
            answers = iter([[opened.search_pattern(regex or "", k=k, where=where)]])
        else:
            request = SearchRequest(queries, instruction, k, where, mode, steps, regex=regex)
            answers = opened.search_progressively(request if several else steered(opened, request, marking))
        last: list[SearchResult] = []
        for results in answers:
            if last and not json and sys.stdout.isatty():
                _render(last)
                output.say("Reading candidates under the instruction ...")
            last = results
        if not json:
            _render(last)  # before seconds go into the verdict
        last = _judged(opened, last)
    if json:
        documents = [one.to_json() for one in last]
        output.document(
            {"schema_version": documents[0]["schema_version"], "searches": documents} if several else documents[0]
        )
    else:
        _warn(last[0])


def _judged(opened: "Index | ShardedIndex", results: list["SearchResult"]) -> list["SearchResult"]:
    """Return results with the verdict on their instruction, found now where nobody has looked."""
    from retriever.shards.index import ShardedIndex

    if isinstance(opened, ShardedIndex):
        return results
    line = output.ProgressLine()
    verdict = None if results[0].view is None else opened.judge(results[0].instruction, progress=line.show)
    line.close()
    return [replace(one, verdict=verdict) for one in results]


def _warn(result: "SearchResult") -> None:
    if result.verdict is not None and result.verdict.warns:
        output.say(output.style(result.verdict.sentence, "yellow", sys.stderr))


def _render(results: list["SearchResult"]) -> None:
    for one in results:
        if len(results) > 1:
            output.result(output.style(printable(one.query), "cyan"))
        output.say(_header(one))
        for rank, hit in enumerate(one.hits, start=1):
            score = ("     " if hit.score is None else f"{hit.score:.3f}") + _percentile(hit.percentile)
            words = f"  [{printable(', '.join(hit.words))}]" if hit.words else ""
            output.result(f"{rank:3}  {score}  {output.style(printable(hit.document.id), 'green')}{words}")
            output.result(f"            {_marked(hit)}")
        if not one.hits:
            output.result("Nothing found.")


def _marked(hit: "Hit") -> str:
    """Return the beginning of a hit's text; of one found by a sentence, what stands around that, with it marked."""
    text, unit = hit.document.text, hit.unit
    if unit is None:
        return shortened(text, SNIPPET)
    around = max(0, SNIPPET - len(unit.text)) // 2
    before, after = text[: unit.start], text[unit.end :]
    left, right = (f"...{before[-around:]}" if len(before) > around else before), shortened(after.strip(), around)
    marked = output.style(f"[{shortened(unit.text, SNIPPET)}]", "yellow")
    return " ".join(part for part in (shortened(left, around + 3), marked, right) if part)


def _header(result: "SearchResult") -> str:
    """Describe how the hits were found, what their order follows, and what the numbers beside them are."""
    steps = "" if result.steps is None else f", K = {result.steps}"
    order = f"; ordered by {_ORDERED_BY[result.mode]}" if result.hits else ""
    numbers = ", numbers are cosines" if any(hit.score is not None for hit in result.hits) else ""
    partial = "" if result.seen == 1 else f"; only {100 * result.seen:.0f} % of the documents were seen"
    return f"{result.mode} search, {result.path} view{steps}, {result.took_ms:.0f} ms{order}{numbers}{partial}"


def _percentile(value: float | None) -> str:
    """Format the share of random pairs that are less alike, with no more said than is known: 99.99 is not 100."""
    return "" if value is None else f"  {math.floor(10 * value) / 10:4.1f} %"
