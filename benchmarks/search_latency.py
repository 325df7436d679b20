r"""How long a search takes on a built index: cold from the shell, warm in Python, lazily under a new instruction.

    python benchmarks/search_latency.py --index indexes/reviews --instruction TEXT \
        --output benchmarks/results/search_latency.json

The index must hold a complete view of the instruction. The lazy path is measured on a copy without that view, and its
first ten hits are compared with the complete view's.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import write

from retriever.core.requests import SearchRequest
from retriever.core.results import SearchResult
from retriever.index.encoding import view_key
from retriever.workspace import Index

QUERIES = (
    "it stopped working after a week",
    "great gift for my nephew",
    "the strings sound warm and bright",
    "too small for what it costs",
    "easy to assemble",
    "arrived broken and nobody answered",
    "my cat loves it",
    "batteries die too quickly",
    "better than the more expensive one",
    "the colour is different from the picture",
)
K = 10
LOAD = """
import gc, time
gc.set_threshold(100_000, 20, 100)  # as the command does
started = time.perf_counter()
from retriever.encoders import backbone
imported = time.perf_counter()
backbone.load_backbone("smollm2-135m")
print(imported - started, time.perf_counter() - imported)
"""


def median_ms(call: Callable[[str], object]) -> dict[str, float]:
    """Return median and slowest milliseconds of a call over the queries, after a warm-up."""
    call(QUERIES[0])
    took = []
    for query in QUERIES:
        started = time.perf_counter()
        call(query)
        took.append(1000 * (time.perf_counter() - started))
    return {"median_ms": round(statistics.median(took), 1), "slowest_ms": round(max(took), 1)}


def cold(index: Path, instruction: str, rounds: int) -> dict[str, Any]:
    """Time whole `retriever search` processes, and apart from them the imports and the loading of the model."""
    command = [str(Path(sys.executable).with_name("retriever")), "search", QUERIES[0], "--index", str(index)]
    shell, imports, loads = [], [], []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        subprocess.run([*command, "--instruction", instruction, "--json"], check=True, capture_output=True)
        shell.append(time.perf_counter() - started)
        printed = subprocess.run([sys.executable, "-c", LOAD], check=True, capture_output=True, text=True).stdout
        first, second = map(float, printed.split())
        imports.append(first)
        loads.append(second)
    return {
        "process_seconds": round(statistics.median(shell[1:]), 2),
        "slowest_process_seconds": round(max(shell[1:]), 2),
        "importing_libraries_seconds": round(statistics.median(imports[1:]), 2),
        "model_load_seconds": round(statistics.median(loads[1:]), 2),
    }


def lazily(index: Path, instruction: str) -> dict[str, Any]:
    """Search a copy that lacks the instruction's view, forgotten again before every query; compare with the view."""
    firsts, totals, early_agreements, late_agreements = [], [], [], []
    with Index(index) as whole:
        complete = {query: ids_of(whole.search(query, instruction=instruction, k=K)) for query in QUERIES}
    with tempfile.TemporaryDirectory(dir=index.parent) as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(index, copy)
        with Index(copy) as lazy:
            lazy.search(QUERIES[0], k=1, mode="hybrid")  # loads the model and the base view
            for query in QUERIES:
                view = lazy._opened.store.views.find(view_key(lazy._opened.sources.encoders.question, instruction))
                if view is not None:
                    with lazy._opened.store.transaction():
                        lazy._opened.store.views.drop(view.view_id)
                started = time.perf_counter()
                answers = lazy.search_progressively(SearchRequest(query, instruction=instruction, k=K))
                early = next(answers)
                firsts.append(time.perf_counter() - started)
                *_, late = answers
                totals.append(time.perf_counter() - started)
                early_agreements.append(len(complete[query] & ids_of(early)) / K)
                late_agreements.append(len(complete[query] & ids_of(late)) / K)
    return {
        "queries": len(QUERIES),
        "base_hits_ms": round(1000 * statistics.median(firsts), 1),
        "settled_seconds": round(statistics.median(totals), 2),
        "slowest_settled_seconds": round(max(totals), 2),
        "agreement_at_10_of_base_hits": round(statistics.mean(early_agreements), 3),
        "agreement_at_10_of_lazy_hits": round(statistics.mean(late_agreements), 3),
    }


def ids_of(result: SearchResult) -> set[str]:
    """Return the ids of the hits."""
    return {hit.document.id for hit in result.hits}


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, default=Path("indexes/reviews"))
    parser.add_argument("--instruction", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {"cold": cold(options.index, options.instruction, options.rounds)}
    with Index(options.index) as index:
        report["documents"] = len(index._opened.store.documents)
        report["warm"] = {}
        for name, instruction in (("base view", ""), ("complete view", options.instruction)):
            for mode in ("dense", "hybrid", "lexical"):
                request = {"instruction": instruction, "k": K, "mode": mode}
                report["warm"][f"{name}, {mode}"] = median_ms(
                    lambda query, request=request: index.search(query, **request)
                )
    report["lazy"] = lazily(options.index, options.instruction)
    write("search_latency", options, report)


if __name__ == "__main__":
    main()
