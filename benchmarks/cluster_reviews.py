"""What a first question to a corpus costs, what a second, and what four at once: indexed and clustered from the shell.

    python benchmarks/cluster_reviews.py CORPUS.jsonl --rows 20000 --output benchmarks/results/cluster_reviews.json

The first question indexes the corpus and clusters it; the second and the third cluster the same index, the third killed
with SIGKILL half way and run again; four at once index a second time. Every command is a process of its own.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from common import write
from index_reviews import embedded_twice, run_until

from retriever.core.errors import RetrieverError
from retriever.workspace import Index

QUESTIONS = (
    "What kind of product is this review about?",
    "How does the customer feel about it?",
    "What do people complain about?",
    "Who uses the product?",
)
KILLED_AT = 0.5  # share of the vectors that a view lacked


def main() -> None:
    """Parse the options, run the commands, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    program = [str(Path(sys.executable).with_name("retriever"))]
    with tempfile.TemporaryDirectory() as folder:
        report = measure(options.corpus, options.rows, Path(folder), program)
    write("cluster_reviews", options, report)


def measure(corpus: Path, rows: int, folder: Path, program: Sequence[str]) -> dict[str, Any]:
    """Return seconds and ratios of the questions, and what became of the killed run.

    Args:
        corpus: JSONL.
        rows: so many of its first are taken.
        folder: an empty one, for indexes.
        program: the start of every command.
    """
    taken, index, fresh = folder / "corpus.jsonl", folder / "index", folder / "four"
    with corpus.open("rb") as file:
        taken.write_bytes(b"".join(islice(file, rows)))
    first, second, third, _ = ([*program, "cluster", "--instruction", one, *_at(index)] for one in QUESTIONS)
    asked = [part for one in QUESTIONS for part in ("--instruction", one)]
    runs = {
        "index": run_until([*program, "index", str(taken), *_at(index)], index),
        "first": run_until(first, index),
        "first_again": run_until(first, index),
        "second": run_until(second, index),
        "killed": run_until(third, index, partial(half_filled, index, QUESTIONS[2])),
        "resumed": run_until(third, index),
        "four_at_once": run_until([*program, "index", str(taken), *asked, *_at(fresh)], fresh),
    }
    return {**figures(runs), "same_clusters_again": _same(runs["first"], runs["first_again"]), **embedded_twice(index)}


def half_filled(index: Path, instruction: str) -> bool:
    """Return whether the view of an instruction holds half of the texts or more."""
    try:
        with Index(index) as opened:
            views = [view for view in opened.store.views.all() if view.key.instruction == instruction]
            return any(
                opened.store.vectors.count(view.view_id) >= KILLED_AT * opened.store.documents.count_contents()
                for view in views
            )
    except RetrieverError:
        return False


def figures(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return exit statuses, seconds, ratios to the first question from nothing, and the highest memory."""
    seconds = {name: run["seconds"] for name, run in runs.items()}
    whole = seconds["index"] + seconds["first"]
    return {
        "exits": {name: run["exit"] for name, run in runs.items()},
        "seconds": {**seconds, "first_from_nothing": round(whole, 1)},
        "ratios_to_first_from_nothing": {
            name: round(seconds[name] / whole, 3) for name in ("first_again", "second", "four_at_once")
        },
        "killed_and_resumed_by_second": round((seconds["killed"] + seconds["resumed"]) / seconds["second"], 3),
        "peak_rss_mib": max(run["peak_rss_mib"] for run in runs.values()),
    }


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one["report"] is not None and json.dumps(one["report"]) == json.dumps(other["report"])


def _at(index: Path) -> list[str]:
    return ["--index", str(index), "--json"]


if __name__ == "__main__":
    main()
