"""How many seconds clients wait who search at once under questions that nobody has asked before.

Twenty clients send a search each to `retriever serve`, over a copy of an index: all the same one; each its own query
under one question; each its own question; or every other one a plain search. Each client follows `next` to its settled
answer. A plain search is timed before, alone, and again every half second while the clients wait.

    python benchmarks/serve_questions.py --index indexes/reviews --output benchmarks/results/serve_questions.json
    python benchmarks/serve_questions.py --table benchmarks/results/serve_questions.json    # as docs/server.md has it
"""

import argparse
import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
from common import write
from serve_load import free_port, memory_mb, running

QUERIES = (
    *("stopped working", "too loud", "battery died", "arrived broken", "boring plot", "good sound", "cheap plastic"),
    *("easy to clean", "waste of money", "great gift", "does not fit", "slow delivery", "missing parts", "bad picture"),
    *("wonderful recipes", "hard to set up", "customer service", "too small", "leaks water", "long lasting"),
)
QUESTIONS = (
    *("Which part failed?", "How long did it last?", "Who uses it?", "Why was it bought?", "What is praised?"),
    *(
        "What would they change?",
        "How was delivery?",
        "What does it cost?",
        "What is it compared to?",
        "How does it feel?",
    ),
    *("How large is it?", "How loud is it?", "Is it easy to use?", "What is the author like?", "What annoys them?"),
    *("What surprised them?", "Where is it used?", "When did it break?", "What is missing?", "Would they buy again?"),
)
PARTS: dict[str, tuple[int, int, int]] = {
    "one search": (1, 1, 1),
    "20 queries, one question": (20, 1, 1),
    "20 questions": (20, 20, 1),
    "10 questions, 10 plain searches": (20, 20, 2),
}
"""Queries, questions, and of how many searches one has a question."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Figures of one part.

    Attributes:
        part: its name.
        first: seconds to the first answers, half of them and the slowest.
        settled: seconds to the settled ones, likewise; None where there are none.
        unsettled: searches that were still read for when the part ended.
        lost: clients without an answer.
        refused: answers with 429 or 503; the client asked again.
        plain: seconds of a plain search, alone before, and half of them and the slowest while clients waited.
        memory_mb: of the server, before and after.
    """

    part: str
    first: tuple[float, float]
    settled: tuple[float, float] | None
    unsettled: int
    lost: int
    refused: int
    plain: tuple[float, float, float]
    memory_mb: tuple[float, float]


def main() -> None:
    """Measure the parts one after another, each with a server of its own, and report; or print a report as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, default=Path("indexes/reviews"))
    parser.add_argument("--only", default="", help="one part, by its name")
    parser.add_argument("--seconds", type=float, default=600, help="most of a part")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--table", type=Path, help="print this report as a table, and measure nothing")
    options = parser.parse_args()
    if options.table:
        print(table(json.loads(options.table.read_text(encoding="utf-8"))))
        return
    report = {
        "waits": [
            asdict(measured(options.index, part, options.seconds)) for part in PARTS if options.only in ("", part)
        ]
    }
    write("serve_questions", options, report)
    print(table(report))


def table(report: Mapping[str, Any]) -> str:
    """Return the waits as a Markdown table: seconds of half of the answers, and in brackets of the slowest."""
    columns = (
        "20 clients",
        "first hits",
        "settled",
        "still read for",
        "lost, refused",
        "plain search: alone, beside",
        "MB then, now",
    )
    rows = []
    for row in report["waits"]:
        alone, *beside = row["plain"]
        cells = (
            *(row["part"], _seconds(row["first"]), _seconds(row["settled"])),
            *(str(row["unsettled"]), f"{row['lost']}, {row['refused']}"),
            *(f"{alone:.2f}, {_seconds(beside)}", f"{row['memory_mb'][0]:.0f}, {row['memory_mb'][1]:.0f}"),
        )
        rows.append(f"| {' | '.join(cells)} |")
    head = f"| {' | '.join(columns)} |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *rows])


def measured(index: Path, part: str, most: float) -> Waits:
    """Measure one part over a copy of the index."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(index, Path(folder) / "reviews")
        port = free_port()
        options = ["--port", str(port), "--indexes", folder, "--read-on=0", "--log-level", "warning"]
        command = [sys.executable, "-m", "retriever", "serve", *options]
        with running(command, port) as (url, process):
            return asyncio.run(waited(url, process, part, most))


async def waited(url: str, process: int, part: str, most: float) -> Waits:
    """Send the searches of a part at once and follow each to its end."""
    queries, questions, every = PARTS[part]
    limits = httpx.Limits(max_connections=50)
    async with httpx.AsyncClient(base_url=f"{url}/indexes/reviews", timeout=most, limits=limits) as http:
        text = {"input": "a text", "instruction": "A question?"}
        (await http.post(f"{url}/v1/embeddings", json=text)).raise_for_status()  # both models are loaded
        for _ in range(4):
            alone = await plain(http)
        await asyncio.sleep(3)  # as a server is that has begun a while ago
        before, beside = memory_mb(process), []
        bodies = [
            {
                "query": QUERIES[number % queries],
                **({"instruction": QUESTIONS[number % questions]} if number % every == 0 else {}),
            }
            for number in range(20)
        ]

        async def watch() -> None:
            while True:
                beside.append(await plain(http))
                await asyncio.sleep(0.5)

        watching = asyncio.create_task(watch())
        ends = await asyncio.gather(*(followed(http, body, most) for body in bodies))
        watching.cancel()
    asked = [end for end, body in zip(ends, bodies, strict=True) if "instruction" in body and end is not None]
    settled = [last for _, last, _ in asked if last is not None]
    return Waits(
        part,
        half_and_most([first for first, _, _ in asked]),
        half_and_most(settled) if settled else None,
        len(asked) - len(settled),
        sum(end is None for end in ends),
        sum(end[2] for end in ends if end is not None),
        (round(alone, 2), *half_and_most(beside)),
        (before, memory_mb(process)),
    )


async def plain(http: httpx.AsyncClient) -> float:
    """Return the seconds of a plain search."""
    started = time.perf_counter()
    (await http.post("/search", json={"query": "works well"})).raise_for_status()
    return time.perf_counter() - started


async def followed(
    http: httpx.AsyncClient, body: dict[str, Any], most: float
) -> tuple[float, float | None, int] | None:
    """Return the seconds to a first and to the settled answer, and how often the server refused; None for no answer."""
    started, refused = time.perf_counter(), 0
    try:
        while (response := await http.post("/search", json=body)).status_code in (429, 503):
            refused += 1
            await asyncio.sleep(float(response.headers["Retry-After"]))
        path = response.raise_for_status().json().get("next")
        first = time.perf_counter() - started
        if path is None:
            return first, first, refused
        while time.perf_counter() - started < most:
            job = (await http.get(str(http.base_url.copy_with(path="/").join(path)))).json()
            if job["status"] not in ("running", "stopping"):
                return (first, time.perf_counter() - started, refused) if job["result"] else None
    except (httpx.HTTPError, KeyError, ValueError):
        return None
    return first, None, refused


def half_and_most(seconds: list[float]) -> tuple[float, float]:
    """Return the median and the most, to hundredths."""
    return round(statistics.median(seconds), 2), round(max(seconds), 2)


def _seconds(values: Sequence[float] | None) -> str:
    return "none" if values is None else f"{values[0]:.2f} ({values[1]:.2f})"


if __name__ == "__main__":
    main()
