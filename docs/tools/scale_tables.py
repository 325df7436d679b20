"""Writes the tables of docs/scale.md from what was measured: ``python docs/tools/scale_tables.py docs/scale.md``.

Nothing in them is typed in: rates are those of benchmarks/results, sizes follow from lengths of vectors, and what a
benchmark has not measured yet is said to be so. A test compares the page with the files.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
SIZES = (10_000_000, 100_000_000, 1_000_000_000)
PLAIN, QUESTION = 384, 576
"""Lengths of the vectors of the plain and of the question reader."""

MACHINE = 64 << 30
"""Bytes of memory of the machines that are counted with; three quarters of it for vectors."""

HELD = 0.75
DAY = 24 * 3600
SHARD = 1_000_000
"""Vectors of a shard."""

CASES = ("all well", "1 in 1000 questions slow", "1 in 1000 slow, deadline 100 ms", "shards gone 0.1 % of the time")


def result(name: str) -> dict[str, Any]:
    """Return what a benchmark wrote; empty where it was not run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def rates() -> dict[str, float]:
    """Return texts a second of both readers on a machine of two cores."""
    plain = result("index_overlap")
    question = result("index_reviews_3000")
    return {
        "plain": plain["options"]["rows"] / plain["median_seconds"]["at once"],
        "question": question["reviews_per_second_in_all"],  # two views in one pass, so rather more for one
    }


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filling() -> str:
    """Return hours and machines that filling views takes."""
    per_second, rows = rates(), []
    for size in SIZES:
        for name, view in (("plain", "base view"), ("question", "a view under an instruction")):
            seconds = size / per_second[name]
            rows.append(
                [
                    f"{size:,}",
                    view,
                    f"{per_second[name]:.0f}",
                    f"{seconds / 3600:,.0f}",
                    f"{math.ceil(seconds / DAY):,}",
                    "complete" if name == "plain" or size == SIZES[0] else "lazy",
                ]
            )
    head = ["reviews", "view", "reviews a second", "hours on one machine", "machines for a day", "to be filled"]
    return table(head, rows)


def keeping() -> str:
    """Return bytes of views on the disk and in memory, and the machines that hold them."""
    forms: dict[str, float] = {"fp16": 2.0, "SQ8": 1.0}
    measured = result("quantisation")
    if measured:
        forms["RaBitQ"] = measured["forms"]["RaBitQ"]["bytes_in_memory"] / measured["dim"]
    rows = []
    for size in SIZES:
        for view, dim in (("base", PLAIN), ("question", QUESTION)):
            held = [size * dim * each for each in forms.values()]
            rows.append(
                [
                    f"{size:,}",
                    f"{view}, {dim}",
                    f"{math.ceil(size / SHARD):,}",
                    size_of(size * dim * 2),
                    *(f"{size_of(one)}, {math.ceil(one / (HELD * MACHINE)):,}" for one in held),
                ]
            )
    head = ["reviews", "view", "shards", "in the databases", *(f"{name}: memory, machines" for name in forms)]
    return table(head, rows)


def quantised() -> str:
    """Return what quantised vectors lose and take."""
    measured = result("quantisation")
    if not measured:
        return "`benchmarks/quantisation.py` has not been run yet."
    rows = [
        [
            name,
            f"`{one['factory']}`",
            f"{one['recall']:.3f}",
            f"{one['bytes_in_memory']:.0f}",
            f"{one['bytes_on_disk']}",
            f"{one['ms']:.0f}" if one["ms"] >= 10 else f"{one['ms']:.1f}",
        ]
        for name, one in measured["forms"].items()
    ]
    head = ["form", "FAISS", "recall@10", "bytes a vector in memory", "and on the disk", "ms a query, one thread"]
    return table(head, rows)


def measured_shards() -> str:
    """Return what a search of many shards takes beside the slowest of them."""
    measured = result("shards")
    if not measured:
        return "`benchmarks/shards.py` has not been run yet."
    rows = []
    for parts, kinds in measured["shards"].items():
        for kind, one in kinds.items() if parts.isdecimal() else ():
            columns = ("one_index", "shards", "slowest_shard", "beside_the_slowest")
            times = [f"{one[name]['median_ms']:.1f}, {one[name]['p95_ms']:.1f}" for name in columns]
            rows.append([parts, kind, f"{one['rounds']:.1f}", *times])
    head = ["shards", "search", "rounds", "one index", "all shards", "slowest shards of the rounds", "beside them"]
    return table(head, rows)


def simulated() -> str:
    """Return the latency curve that was simulated."""
    found = result("router_simulation")
    if not found:
        return "`benchmarks/router_simulation.py` has not been run yet."
    by_case = {(one["shards"], one["case"]): one for one in found["curve"]}
    rows = []
    for shards in sorted({one["shards"] for one in found["curve"]}):
        cells = []
        for case in CASES:
            one = by_case[shards, case]
            partial = f"; {100 * one['partial']:.1f} % partial" if one["partial"] else ""
            cells.append(f"{one['median_ms']:.0f}, {one['p99_ms']:.0f}{partial}")
        rows.append([str(shards), *cells])
    return table(["shards", *CASES], rows)


def checked() -> str:
    """Return what the simulation says of what was measured."""
    found = result("router_simulation")
    if not found:
        return "`benchmarks/router_simulation.py` has not been run yet."
    rows = [
        [
            parts,
            f"{one['measured']['median_ms']:.1f}, {one['measured']['p95_ms']:.1f}",
            f"{one['simulated']['median_ms']:.1f}, {one['simulated']['p95_ms']:.1f}",
        ]
        for parts, one in found["checked"].items()
    ]
    return table(["shards", "measured: median, 95th percentile, ms", "simulated"], rows)


def size_of(count: float) -> str:
    """Return a number of bytes for people."""
    return f"{count / 1e12:.1f} TB" if count >= 1e12 else f"{count / 1e9:.1f} GB"


TABLES: dict[str, Callable[[], str]] = {
    one.__name__: one for one in (filling, keeping, quantised, measured_shards, simulated, checked)
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
