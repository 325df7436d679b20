"""The shared tools of the benchmarks: alternating timings, the machine's description, texts and output."""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from retriever.core import environment
from retriever.core.types import Document
from retriever.corpus.readers import read_documents

PACKAGES = (
    *("torch", "transformers", "sentence-transformers", "onnxruntime", "openvino"),
    *("faiss-gpu", "faiss-cpu", "numpy"),
)


def time_alternating(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of every call, once a round after a warm-up, in an order that turns from round to round."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for name in names:
        calls[name]()
    for turn in range(rounds):
        for name in names if turn % 2 == 0 else reversed(names):
            started = time.perf_counter()
            calls[name]()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def median_ratio(over: list[float], under: list[float]) -> float:
    """Return the median over rounds of one call's seconds by the other's, three decimals."""
    return round(statistics.median(a / b for a, b in zip(over, under, strict=True)), 3)


def machine() -> dict[str, Any]:
    """Return what the figures depend on: processor, versions, date and commit."""
    command = ["git", "rev-parse", "--verify", "--quiet", "HEAD"]
    git = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return {
        "cpu": environment.machine()["processor"],
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "packages": {name: installed for name in PACKAGES if (installed := _version(name))},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": git.stdout.strip() or None,
    }


def documents_of(corpus: Path) -> Iterator[Document]:
    """Yield the documents of a corpus; rows that are none are left out."""
    return (row for row in read_documents([corpus]) if isinstance(row, Document))


def read_texts(corpus: Path, limit: int) -> list[str]:
    """Return the first distinct texts of a JSONL corpus."""
    with corpus.open(encoding="utf-8") as file:
        texts = dict.fromkeys(json.loads(line)["text"] for line in file)
    return list(texts)[:limit]


def peak_rss_mib() -> float:
    """Return the largest resident memory this process has had, in MiB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def write(name: str, options: argparse.Namespace, report: Mapping[str, Any]) -> None:
    """Print the report as JSON, and write it to ``options.output`` where that is given."""
    named = {key: value.name if isinstance(value, Path) else value for key, value in vars(options).items()}
    settings = {key: value for key, value in named.items() if key != "output"}
    text = json.dumps({"benchmark": name, "options": settings, "machine": machine(), **report}, indent=2)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
