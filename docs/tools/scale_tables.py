"""Writes the tables of docs/scale.md from what was measured: ``python docs/tools/scale_tables.py docs/scale.md``.

Nothing in them is typed in: rates are those of benchmarks/results, sizes follow from lengths of vectors, and what no
benchmark has measured, or none in the form that is asked for here, is said to be not measured. A test compares the page
with the files.
"""

import json
import math
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
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

NOT = "not measured"

CASES = ("all well", "1 in 1000 questions slow", "1 in 1000 slow, deadline 100 ms", "shards gone 0.1 % of the time")


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


def rates() -> dict[str, float]:
    """Return texts a second of those readers that were measured, on a machine of two cores."""
    plain = result("index_overlap")
    question = result("index_reviews_3000")
    found = {}
    with suppress(KeyError):
        found["plain"] = plain["options"]["rows"] / plain["median_seconds"]["at once"]
    with suppress(KeyError):
        found["question"] = question["reviews_per_second_in_all"]  # two views in one pass, so rather more for one
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filling() -> str:
    """Return hours and machines that filling views takes."""
    per_second, rows = rates(), []
    for size in SIZES:
        for name, view in (("plain", "base view"), ("question", "a view under an instruction")):
            told = [NOT] * 3
            if name in per_second:
                seconds = size / per_second[name]
                told = [f"{per_second[name]:.0f}", f"{seconds / 3600:,.0f}", f"{math.ceil(seconds / DAY):,}"]
            rows.append([f"{size:,}", view, *told, "complete" if name == "plain" or size == SIZES[0] else "lazy"])
    head = ["reviews", "view", "reviews a second", "hours on one machine", "machines for a day", "to be filled"]
    return table(head, rows)


def keeping() -> str:
    """Return bytes of views on the disk and in memory, and the machines that hold them."""
    forms: dict[str, float] = {"fp16": 2.0, "SQ8": 1.0}
    measured = result("quantisation")
    with suppress(KeyError):
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


@measured_by("quantisation")
def quantised(measured: Mapping[str, Any]) -> str:
    """Return what quantised vectors lose and take."""
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


@measured_by("shards")
def measured_shards(measured: Mapping[str, Any]) -> str:
    """Return what a search of many shards takes beside the slowest of them."""
    rows = []
    for parts, kinds in measured["shards"].items():
        for kind, one in kinds.items() if parts.isdecimal() else ():
            columns = ("one_index", "shards", "slowest_shard", "beside_the_slowest")
            times = [f"{one[name]['median_ms']:.1f}, {one[name]['p95_ms']:.1f}" for name in columns]
            rows.append([parts, kind, f"{one['rounds']:.1f}", *times])
    head = ["shards", "search", "rounds", "one index", "all shards", "slowest shards of the rounds", "beside them"]
    return table(head, rows)


@measured_by("router_simulation")
def simulated(found: Mapping[str, Any]) -> str:
    """Return the latency curve that was simulated."""
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


@measured_by("router_simulation")
def loads(found: Mapping[str, Any]) -> str:
    """Return what a router of ten shards gives under searches that come faster and faster."""
    rows = [
        [str(one["rate"]), f"{one['median_ms']:.0f}, {one['p99_ms']:.0f}", f"{100 * one['partial']:.1f} %"]
        for one in found["loads"]
    ]
    return table(["searches a second", "median, 99th percentile, ms", "partial"], rows)


@measured_by("router_simulation")
def checked(found: Mapping[str, Any]) -> str:
    """Return what the simulation says of what was measured."""
    rows = [
        [
            parts,
            f"{one['measured']['median_ms']:.1f}, {one['measured']['p95_ms']:.1f}",
            f"{one['simulated']['median_ms']:.1f}, {one['simulated']['p95_ms']:.1f}",
        ]
        for parts, one in found["checked"].items()
    ]
    return table(["shards", "measured: median, 95th percentile, ms", "simulated"], rows)


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


@measured_by("shards")
def equal_shards(measured: Mapping[str, Any]) -> str:
    """Return how many random searches shards answered as one index."""
    found = measured["equality"]
    paths = ", ".join(f"{count} {path}" for path, count in sorted(found["by_path"].items()))
    changed = ", ".join(f"{count} {what}" for what, count in sorted(found["changed"].items()))
    head = ["searches", "by path", "shards", "documents", "changed between them", "answered otherwise"]
    row = [f"{found['searches']:,}", paths, str(found["parts"]), f"{found['documents']:,}", changed]
    return table(head, [[*row, str(found["different"])]])


@measured_by("shards")
def killed_shards(measured: Mapping[str, Any]) -> str:
    """Return what searches answer while a shard is killed and comes back."""
    found = measured["shards"]["killed"]
    answers, wrong = found["answers"], found["wrong"]
    told = ("first_answer", "shard_is_back", "whole_after_its_return")
    times = [f"{found[name]['median_ms']:.0f}, {found[name]['p95_ms']:.0f}" for name in told]
    counts = [f"{answers.get(kind, 0):,}, {wrong.get(kind, 0)}" for kind in ("partial", "whole")]
    head = ["kills", "partial answers, wrong ones", "whole ones, wrong ones", "refused", "first answer"]
    row = [str(found["kills"]), *counts, str(answers.get("refused", 0)), *times]
    return table([*head, "shard answers again", "whole after that"], [row])


@measured_by("handover")
def handed_over(measured: Mapping[str, Any]) -> str:
    """Return how Qdrant answers over what was handed to it."""
    same = "the same" if measured["same_ids_and_metadata"] else "different"
    rows = [
        [
            f"{measured['points']:,}",
            same,
            view,
            f"{one['same_top_10']} of {one['queries']}",
            f"{one['largest_difference_of_scores']:.1e}",
        ]
        for view, one in measured.items()
        if isinstance(one, dict) and "same_top_10" in one
    ]
    return table(["documents", "ids and metadata", "view", "same ten nearest", "scores differ by"], rows)


def size_of(count: float) -> str:
    """Return a number of bytes for people."""
    return f"{count / 1e12:.1f} TB" if count >= 1e12 else f"{count / 1e9:.1f} GB"


TABLES: dict[str, Callable[[], str]] = {
    one.__name__: one
    for one in (
        filling,
        killed_workers,
        workers_cost,
        keeping,
        quantised,
        equal_shards,
        measured_shards,
        killed_shards,
        checked,
        simulated,
        loads,
        handed_over,
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
