"""Writes the tables of docs/scale.md from what was measured: ``python docs/tools/scale_tables.py docs/scale.md``.

Rates of reading are constants, measured once; sizes follow from lengths of vectors; other figures are of
benchmarks/results.
A figure that no benchmark has measured, or none in the form that is asked for here, is said to be not measured. A test
compares the page with the files.
"""

import json
import math
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
SIZES = (10_000_000, 100_000_000)
PLAIN, QUESTION = 384, 576
"""Lengths of the vectors of the plain and of the instruction encoder."""

MACHINE = 64 << 30
"""Bytes of memory of the machines that are counted with; three quarters of it for vectors."""

HELD = 0.75
DAY = 24 * 3600
FORMS = {"FAISS, fp16": (2, 0), "Milvus HNSW": (4, 128), "Milvus IVF_SQ8": (1, 0)}
"""Bytes a number and bytes of links a vector (M = 16: 32 neighbours), by index."""

NOT = "not measured"
RATES = {"base view": 128.7, "a view under an instruction": 17.9}
"""Reviews a second on two cores, in November 2026: the base encoder, and the instruction encoder over two views."""


def result(name: str) -> dict[str, Any]:
    """Return what a benchmark wrote; empty where it was not run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def measured_by(name: str) -> Callable[[Callable[[Any], str]], Callable[[], str]]:
    """Make a table of what a benchmark wrote; without that, or in another form, it says that nothing was measured."""

    def of(made: Callable[[Any], str]) -> Callable[[], str]:
        @wraps(made)
        def table_or_not() -> str:
            try:
                return made(result(name))
            except (KeyError, TypeError, AttributeError):
                return f"Not measured: `benchmarks/{name}.py` has not been run."

        return table_or_not

    return of


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filling() -> str:
    """Return hours and machines that filling views takes."""
    rows = []
    for size in SIZES:
        for view, rate in RATES.items():
            seconds = size / rate
            times = [f"{rate:.0f}", f"{seconds / 3600:,.0f}", f"{math.ceil(seconds / DAY):,}"]
            lazy = size > SIZES[0] and view != "base view"
            rows.append([f"{size:,}", view, *times, "lazy" if lazy else "complete"])
    head = ["reviews", "view", "reviews a second", "hours on one machine", "machines for a day", "to be filled"]
    return table(head, rows)


def keeping() -> str:
    """Return bytes of views on the disk and in memory, and the machines that hold them."""
    rows = []
    for size in SIZES:
        for view, dim in (("base", PLAIN), ("question", QUESTION)):
            held = [size * (each * dim + links) for each, links in FORMS.values()]
            machines = (f"{size_of(one)}, {math.ceil(one / (HELD * MACHINE)):,}" for one in held)
            rows.append([f"{size:,}", f"{view}, {dim}", size_of(size * dim * 2), *machines])
    head = ["reviews", "view", "in the databases", *(f"{name}: memory, machines" for name in FORMS)]
    return table(head, rows)


@measured_by("end_to_end")
def carried(measured: Mapping[str, Any]) -> str:
    """Return what one machine does with a million vectors."""
    options, exact, lists = measured["options"], measured["exact"], measured["inverted"]
    searches = [exact["single_faiss_ms"] + exact["single_overhead_ms"]]
    searches.append(lists["single_faiss_ms"] + lists["single_overhead_ms"])
    cells = [
        f"{options['vectors']:,} of {options['dim']}",
        f"{measured['index_seconds']:.0f} s",
        f"{searches[0]:.0f} ms",
        f"{searches[1]:.1f} ms, recall {lists['recall_at_10']:.2f}",
        f"{measured['peak_rss_mib'] / 1024:.1f} GiB",
        size_of(measured["size_bytes"]),
    ]
    return table(["vectors", "stored in", "exact search", "inverted lists", "memory at most", "on the disk"], [cells])


@measured_by("milvus_faiss")
def beside_faiss(measured: Mapping[str, Any]) -> str:
    """Return what Milvus takes beside FAISS, on one machine."""
    rows = []
    for name, one in measured["indexes"].items():
        times = [searches[name] for searches in measured["searches"].values()]
        rows.append(
            [
                name,
                f"{one['build_seconds']:.1f}",
                f"{one['recall']:.3f}",
                *(f"{each['p50_ms']:.1f}, {each['by_faiss']:.1f}" for each in times),
                f"{one['memory_mb']:.0f}",
            ]
        )
    options = measured["options"]
    head = [f"{options['rows']:,} of {options['dim']}", "build, s", "recall@10"]
    return table([*head, *(f"{name}: ms, ratio" for name in measured["searches"]), "memory, MB"], rows)


@measured_by("workers")
def killed_workers(measured: Mapping[str, Any]) -> str:
    """Return what became of runs whose processes were killed."""
    options, every = measured["options"], measured["kills"]
    rows = []
    for way in ("ray", "processes"):
        runs = [run for run in every["runs"] if run["way"] == way]
        killed: Counter[str] = sum((Counter(run["killed"]) for run in runs), Counter())
        rows.append(
            [
                way,
                f"{len(runs)}",
                ", ".join(f"{count} {kind}" for kind, count in sorted(killed.items())),
                *(f"{sum(run[name] for run in runs):,}" for name in ("starts", "lost", "not_the_same_bits")),
                f"{sum(run['read_again'] for run in runs):,} of {sum(run['in_flight_at_most'] for run in runs):,}",
            ]
        )
    reviews = f"runs of {options['rows']:,} reviews"
    return table(
        ["workers", reviews, "killed", "starts", "lost", "other vectors", "read twice, of what was in flight"], rows
    )


@measured_by("workers")
def workers_cost(measured: Mapping[str, Any]) -> str:
    """Return what it takes to index by workers."""
    rows = []
    for way, runs in measured["overhead"]["runs"].items():
        rate = [run["tokens_a_second"] for run in runs]
        rows.append(
            [
                way,
                *(f"{statistics.median(run[name] for run in runs):.1f}" for name in ("seconds", "first_piece")),
                f"{statistics.median(rate):,.0f}" if all(rate) else NOT,
            ]
        )
    head = [f"{measured['options']['rows']:,} reviews by", "seconds", "to the first piece", "tokens a second after it"]
    return table(head, rows)


def size_of(count: float) -> str:
    """Return a number of bytes for people."""
    return f"{count / 1e12:.1f} TB" if count >= 1e12 else f"{count / 1e9:.1f} GB"


TABLES: dict[str, Callable[[], str]] = {
    one.__name__: one
    for one in (
        carried,
        filling,
        killed_workers,
        workers_cost,
        beside_faiss,
        keeping,
    )
}


def with_tables(page: str) -> str:
    """Return a page with every table between its marks."""
    for name, made in TABLES.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(page):
            raise SystemExit(f"The page has no marks for {name}.")
        page = pattern.sub(lambda marks, made=made: f"{marks[1]}{made()}\n{marks[2]}", page)
    return page


def main() -> None:
    """Put the tables into the page."""
    path = Path(sys.argv[1])
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8", newline="")


if __name__ == "__main__":
    main()
