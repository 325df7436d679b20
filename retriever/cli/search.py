"""`retriever search`: a query and an instruction in, documents out."""

import math
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, ExplainOption, IndexOption, JsonOption
from retriever.cli.reading import Reading, say_known
from retriever.cli.verdicts import say_verdict
from retriever.core.errors import EncoderError, ReadingLimitError, UsageError
from retriever.core.requests import SearchRequest
from retriever.core.text import printable, shortened
from retriever.forms import command_options, made

if TYPE_CHECKING:
    from retriever.core.results import Hit, SearchResult
    from retriever.workspace import Index

SNIPPET = 220
_INDENT = 5  # of what stands below an id
_FOUND_BY = {"dense": "by meaning", "lexical": "by words", "hybrid": "by meaning and words"}
_SCORED_BY = {"dense": "vectors", "lexical": "words", "hybrid": "vectors and words"}
_SHOWN_EQUAL = 5  # ids of documents with the text of a hit


@command_options(SearchRequest, argument="query")
@command_options(Reading, leave_out=("reader", "read"))
def search(
    *,
    index: IndexOption = DEFAULT_INDEX,
    explain: ExplainOption = False,
    complete: Annotated[
        bool, typer.Option("--complete", help="Embed all texts under the instruction first, not a few of the best.")
    ] = False,
    device: DeviceOption = "auto",
    json: JsonOption = False,
    **options: object,
) -> None:
    """Search an index under an instruction.

    With - as the query, each line of stdin is a query. Under a new instruction the first hits are shown at once on a
    terminal, and the final ones when enough texts are embedded under it. With --complete all are, those that --where
    accepts; what Ctrl-C interrupts is kept, and the same command goes on from there.

    Example: retriever search "it broke" --instruction "What kind of product is this?" --where "stars <= 2"
    """
    several = options["query"] == "-"
    queries: Sequence[object] = output.stdin_lines() if several else [options["query"]]
    if not queries:
        raise UsageError("There are no queries on stdin.", hint="Send one query per line.")
    requests = [made(SearchRequest, options, query=query) for query in queries]
    if complete and not requests[0].instruction:
        raise UsageError("--complete embeds texts under an instruction.", hint="Add --instruction, or leave it out.")
    reading = made(Reading, options, reader=None)
    with reading.opened(index, device) as opened:
        reading.begin(opened, requests[0].instruction or "", requests[0].reader, required=False)
        requests = [replace(request, reader=None) for request in requests]  # it serves by now, or the answer was no
        if requests[0].rerank:
            with suppress(EncoderError):  # of its name or address, which the result holds
                reading.permit(opened, requests[0].rerank)
        if complete:
            _complete(opened, requests[0])
        if several:
            results = opened.search_many(requests)
        else:
            results = [_final(opened, requests[0], show_first=not json and sys.stdout.isatty())]
        if not json:
            _render(opened, results, explain=explain)  # before seconds go into the verdict
            say_known(results[0].known_answers)
            _say_fault(opened, results)
        results = _judged(opened, results)
    if json:
        documents = [result.to_json() for result in results]
        output.document({"searches": documents} if several else documents[0])
    else:
        say_verdict(results[0].verdict)


def _complete(opened: "Index", request: SearchRequest) -> None:
    """Embed all texts that a search may find under its instruction, and say how long that takes."""
    instruction = request.instruction or ""
    if opened.teaching.reader(instruction):
        raise UsageError(
            "Answers in words serve this instruction: --complete cannot embed texts under it.",
            hint="`retriever index CORPUS --read QUESTION` has a language model answer about all texts.",
        )
    with output.ProgressLine() as line:
        opened.upkeep.complete([instruction], where=request.where, progress=line.show)


def _final(opened: "Index", request: SearchRequest, *, show_first: bool) -> "SearchResult":
    """Return the last answer of a search, and print the first one as soon as it is there if that is wanted."""
    from retriever.core.results import IndexingReport
    from retriever.index.forecast import counting

    with output.ProgressLine() as line:
        answers = opened.search_progressively(request, counting(IndexingReport(), line.show))
        for number, result in enumerate(answers):
            if result.final:
                break
            if number == 0 and show_first:
                output.say(f"{_header(result)}; first answer")
                _render_hits(result.hits)
                line.tell("Reading texts under the question ...")
    if number and show_first:
        output.say("")
    return result


def _judged(opened: "Index", results: list["SearchResult"]) -> list["SearchResult"]:
    """Return results with the verdict on their instruction, found now where nobody has looked."""
    first = results[0]
    if first.view is None or first.instruction is None:
        return results
    with output.ProgressLine() as line:
        verdict = opened.teaching.judge(first.instruction, progress=line.show)
    return [replace(result, verdict=verdict) for result in results]


def _render(opened: "Index", results: list["SearchResult"], *, explain: bool) -> None:
    for result in results:
        if len(results) > 1:
            output.result(output.style(printable(result.query), "cyan"))
        if not result.hits:
            output.result("Nothing found.")
            continue
        output.say(f"{_header(result)}{_read(opened, result)}")
        if explain:
            output.say(_measures(result))
        _render_hits(result.hits if explain else result.shown.hits, explain=explain)


def _say_fault(opened: "Index", results: list["SearchResult"]) -> None:
    """Say why the language model that serves the instruction, or the reranker, cannot be asked."""
    fault = next((result.reader_fault for result in results if result.reader_fault), None)
    told = isinstance(fault, ReadingLimitError) and opened.teaching.spent.unread  # in the line on what was spent
    if fault is not None and not told:
        alone = results[0].mode == "lexical"
        output.say(printable(f"Searched by words alone: {fault}" if alone else f"The reader cannot be asked: {fault}"))
    if fault := next((result.rerank_fault for result in results if result.rerank_fault), None):
        output.say(printable(f"The hits are not reranked: {fault}"))


def _header(result: "SearchResult") -> str:
    """Return how many hits there are, and how they were found."""
    found_by = _FOUND_BY[result.mode] if result.query or result.mode != "lexical" else "by number of matches"
    by = "" if result.reranked_by is None else printable(f", reranked by {result.reranked_by}")
    return f"{output.counted(len(result.hits), 'hit')}, {found_by}{by}"


def _read(opened: "Index", result: "SearchResult") -> str:
    """Return how many texts were read under the instruction of a search, of how many."""
    if result.view is None or result.instruction is None or result.path == "base":
        return ""
    read, texts = opened.texts_read(result.view)
    return f"; read under the question: {read} of {texts}"


def _measures(result: "SearchResult") -> str:
    """Return the technical facts of a search, for --explain."""
    steps = "" if result.steps is None else f", K = {result.steps}"
    scored = _SCORED_BY[result.mode]
    return f"{result.mode} search, {result.path} view{steps}, {result.took_ms:.0f} ms; scored by {scored}"


def _render_hits(hits: Sequence["Hit"], *, explain: bool = False) -> None:
    indent = " " * _INDENT
    for rank, hit in enumerate(hits, start=1):
        words = f"  [{printable(', '.join(hit.words))}]" if hit.words else ""
        output.result(f"{rank:3}  {output.style(printable(hit.document.id), 'green')}{words}")
        if explain:
            output.result(f"{indent}{_scores(hit)}")
        for line in _lines(*_passages(hit)):
            output.result(f"{indent}{line}")
        if hit.equal:
            output.result(f"{indent}{_equal(hit)}")


def _scores(hit: "Hit") -> str:
    """Return the numbers of a hit: the one that orders the hits, and those that it is made of."""
    parts = [] if hit.rerank_score is None else [f"reranked {hit.rerank_score:.3f}"]
    parts.append(f"score {hit.fused:.3f}")
    if hit.score is not None:
        # Rounded down, since 99.99 is not 100.
        closer = "" if hit.percentile is None else f" (above {math.floor(10 * hit.percentile) / 10:.1f} % of pairs)"
        parts.append(f"cosine {hit.score:.3f}{closer}")
    for name, rank in (("meaning", hit.dense_rank), ("words", hit.lexical_rank)):
        if rank is not None:
            parts.append(f"rank {rank} by {name}")
    return ", ".join(parts)


def _equal(hit: "Hit") -> str:
    """Return how many documents have the same text, and the first of them."""
    count, shown = len(hit.equal), ", ".join(hit.equal[:_SHOWN_EQUAL])
    more = ", ..." if count > _SHOWN_EQUAL else ""
    return printable(f"{count} more with the same text: {shown}{more}")


def _passages(hit: "Hit") -> tuple[str, str, str]:
    """Return what is shown of a hit's text: before the part that was found, that part in brackets, and after it."""
    text, part = hit.document.text, hit.part
    if part is None:
        return shortened(text, SNIPPET), "", ""
    passage = text[part.start : part.end]
    around = max(0, SNIPPET - len(passage)) // 2
    before, after = text[: part.start], text[part.end :]
    left = f"...{before[-around:]}" if len(before) > around else before
    return shortened(left, around + 3), f"[{shortened(passage, SNIPPET)}]", shortened(after.strip(), around)


def _lines(before: str, marked: str, after: str) -> list[str]:
    """Return passages in lines that fit the terminal, or in one where there is none; the second is coloured."""
    width = shutil.get_terminal_size().columns - _INDENT if sys.stdout.isatty() else sys.maxsize
    words = [(word, passage is marked) for passage in (before, marked, after) for word in passage.split()]
    lines: list[list[tuple[str, bool]]] = []
    used = width
    for word, is_marked in words:
        if used + len(word) >= width:
            lines.append([])
            used = -1
        lines[-1].append((word, is_marked))
        used += len(word) + 1
    return [_coloured(line) for line in lines]


def _coloured(line: Sequence[tuple[str, bool]]) -> str:
    """Return the words of a line, those that are marked in colour."""
    runs = [(marked, " ".join(word for word, _ in run)) for marked, run in groupby(line, key=itemgetter(1))]
    return " ".join(output.style(run, "yellow") if marked else run for marked, run in runs)
