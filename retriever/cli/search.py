"""`retriever search`: a query and an instruction in, documents out."""

import math
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption
from retriever.core.errors import UsageError
from retriever.core.text import printable, shortened

if TYPE_CHECKING:
    from retriever.services.query_steps import Steps
    from retriever.services.results import SearchResult

SNIPPET = 220


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
    steps: Annotated[
        str | None,
        typer.Option(help="K soft tokens for the query, or auto: more where its first hits are close (GIRCSE)."),
    ] = None,
    like: Annotated[str | None, typer.Option(help="Find what resembles the document of this id.")] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Search an index under an instruction.

    Example: retriever search "it broke" --instruction "What kind of product is this?" --where "stars <= 2"
    """
    from retriever.services.searching import SearchRequest
    from retriever.services.workspace import Index
    from retriever.store.filters import optional_filter

    if (like is None) == (not query):
        raise UsageError("Give either a query or --like ID.")
    several = query == "-"
    queries = output.stdin_lines() if several else [query]
    if several and not queries:
        raise UsageError("There are no queries on stdin.", hint="Send one query a line.")
    condition = optional_filter(where)
    asked = step_count(steps)
    with Index(index, device=device) as opened:
        if like is not None:
            answers = iter([[opened.search_like(like, instruction=instruction, k=k, where=where, steps=asked)]])
        else:
            answers = opened.search_progressively(SearchRequest(queries, instruction, k, condition, mode, asked))
        last: list[SearchResult] = []
        for results in answers:
            if last and not json and sys.stdout.isatty():
                _render(last)
                output.say("Reading candidates under the instruction ...")
            last = results
    if json:
        documents = [one.to_json() for one in last]
        output.document(
            {"schema_version": documents[0]["schema_version"], "searches": documents} if several else documents[0]
        )
    else:
        _render(last)


def step_count(steps: str | None) -> "Steps":
    """Return the K an option names, ``auto``, or None for the encoder's own."""
    if steps is None:
        return None
    if steps == "auto":
        return "auto"
    try:
        return int(steps)
    except ValueError:
        raise UsageError(f"--steps is {steps!r}.", hint="Give a number from 1, or auto.") from None


def _render(results: list["SearchResult"]) -> None:
    for one in results:
        if len(results) > 1:
            output.result(output.style(printable(one.query), "cyan"))
        for rank, hit in enumerate(one.hits, start=1):
            score = ("     " if hit.score is None else f"{hit.score:.3f}") + _percentile(hit.percentile)
            words = f"  [{printable(', '.join(hit.words))}]" if hit.words else ""
            output.result(f"{rank:3}  {score}  {output.style(printable(hit.document.id), 'green')}{words}")
            output.result(f"            {_snippet(hit.document.text)}")
        if not one.hits:
            output.result("Nothing found.")
        steps = "" if one.steps is None else f", K = {one.steps}"
        output.say(f"{one.mode} search, {one.path} view{steps}, {one.took_ms:.0f} ms")


def _percentile(value: float | None) -> str:
    """Return how many random pairs are less alike, with no more said than is known: 99.99 is not 100."""
    return "" if value is None else f"  {math.floor(10 * value) / 10:4.1f} %"


def _snippet(text: str) -> str:
    return shortened(printable(" ".join(text.split())), SNIPPET)
