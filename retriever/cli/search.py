"""`retriever search`: a query and an instruction in, documents out."""

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption
from retriever.cli.reading import Reading, say_known
from retriever.cli.verdicts import say_verdict
from retriever.core.errors import UsageError
from retriever.core.requests import SearchRequest
from retriever.core.text import printable, shortened
from retriever.forms import command_options, made

if TYPE_CHECKING:
    from retriever.core.results import Hit, SearchResult
    from retriever.workspace import Index

SNIPPET = 220
_SCORED_BY = {"dense": "vectors", "lexical": "words", "hybrid": "vectors and words together"}
_SHOWN_EQUAL = 5  # ids of documents with the text of a hit


@command_options(SearchRequest, argument="query")
@command_options(Reading, leave_out=("reader", "read"))
def search(
    *,
    index: IndexOption = DEFAULT_INDEX,
    device: DeviceOption = "auto",
    json: JsonOption = False,
    **options: object,
) -> None:
    """Search an index under an instruction.

    The query - reads one query a line from stdin.

    Example: retriever search "it broke" --instruction "What kind of product is this?" --where "stars <= 2"
    """
    several = options["query"] == "-"
    queries: Sequence[object] = output.stdin_lines() if several else [options["query"]]
    if not queries:
        raise UsageError("There are no queries on stdin.", hint="Send one query a line.")
    requests = [made(SearchRequest, options, query=query) for query in queries]
    reading = made(Reading, options, reader=None)
    with reading.opened(index, device) as opened:

        def searched() -> "list[SearchResult]":
            if several:
                return opened.search_many(requests)
            return _shown_as_it_settles(opened, requests[0], quiet=json or not sys.stdout.isatty())

        last = reading.with_consent(opened, searched)
        if not json:
            _render(last)  # before seconds go into the verdict
            _say_settled(last[0])
            say_known(last[0].known_answers)
        last = _judged(opened, last)
    if json:
        documents = [result.to_json() for result in last]
        output.document({"searches": documents} if several else documents[0])
    else:
        say_verdict(last[0].verdict)


def _shown_as_it_settles(opened: "Index", request: SearchRequest, *, quiet: bool) -> list["SearchResult"]:
    """Return the last answer of a search; those before it are printed as they come, unless nobody looks on."""
    last: list[SearchResult] = []
    for result in opened.search_progressively(request):
        if last and not quiet:
            _render(last)
            output.say(_going_on(last[0]))
        last = [result]
    return last


def _going_on(result: "SearchResult") -> str:
    """Say that a search reads on, and how much its last round changed."""
    settling = result.settling
    if settling is None or settling.changed is None:
        return "Reading candidates under the instruction ..."
    return f"{settling.changed} of {len(result.hits)} hits changed; reading on ..."


def _say_settled(result: "SearchResult") -> None:
    """Say whether reading on would change the hits of a search that has read."""
    settling = result.settling
    if settling is None:
        return
    if settling.settled:
        output.say(f"Settled after {settling.read} texts were read.")
    else:
        output.say(f"{settling.read} texts were read; the same search reads on.")


def _judged(opened: "Index", results: list["SearchResult"]) -> list["SearchResult"]:
    """Return results with the verdict on their instruction, found now where nobody has looked."""
    first = results[0]
    if first.view is None or first.instruction is None:
        return results
    with output.ProgressLine() as line:
        verdict = opened.teaching.judge(first.instruction, progress=line.show)
    return [replace(result, verdict=verdict) for result in results]


def _render(results: list["SearchResult"]) -> None:
    for result in results:
        if len(results) > 1:
            output.result(output.style(printable(result.query), "cyan"))
        output.say(_header(result))
        for rank, hit in enumerate(result.hits, start=1):
            words = f"  [{printable(', '.join(hit.words))}]" if hit.words else ""
            identity = output.style(printable(hit.document.id), "green")
            output.result(f"{rank:3}  {hit.fused:.3f}  {identity}{words}{_percentile(hit.percentile)}")
            output.result(f"            {_marked(hit)}")
            if hit.equal:
                output.result(f"            {_equal(hit)}")
        if not result.hits:
            output.result("Nothing found.")


def _equal(hit: "Hit") -> str:
    """Return how many documents have the same text, and the first of them."""
    count, shown = len(hit.equal), ", ".join(hit.equal[:_SHOWN_EQUAL])
    more = ", ..." if count > _SHOWN_EQUAL else ""
    return printable(f"and {count} equal {'one' if count == 1 else 'ones'}: {shown}{more}")


def _marked(hit: "Hit") -> str:
    """Return the beginning of a hit's text; of one found by a part, what stands around that, with it marked."""
    text, part = hit.document.text, hit.part
    if part is None:
        return shortened(text, SNIPPET)
    passage = text[part.start : part.end]
    around = max(0, SNIPPET - len(passage)) // 2
    before, after = text[: part.start], text[part.end :]
    left, right = (f"...{before[-around:]}" if len(before) > around else before), shortened(after.strip(), around)
    marked = output.style(f"[{shortened(passage, SNIPPET)}]", "yellow")
    return " ".join(part for part in (shortened(left, around + 3), marked, right) if part)


def _header(result: "SearchResult") -> str:
    """Describe how the hits were found, and what the score beside them, which they are ordered by, is made of."""
    steps = "" if result.steps is None else f", K = {result.steps}"
    score = f"; scored by {_SCORED_BY[result.mode]}" if result.hits else ""
    return f"{result.mode} search, {result.path} view{steps}, {result.took_ms:.0f} ms{score}"


def _percentile(value: float | None) -> str:
    """Format the share of random pairs that are less alike, with no more said than is known: 99.99 is not 100."""
    return "" if value is None else f"  more alike than {math.floor(10 * value) / 10:.1f} % of pairs"
