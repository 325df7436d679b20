"""What the benchmarks share: alternating timings, the machine's description, texts and output."""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retriever.core import environment
from retriever.core.protocols import Encoder
from retriever.core.types import Document
from retriever.corpus.readers import read_documents

if TYPE_CHECKING:
    from retriever.training.config import FinetuneConfig

PACKAGES = ("torch", "transformers", "sentence-transformers", "faiss-gpu", "faiss-cpu", "numpy")


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
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": git.stdout.strip() or None,
    }


def headline_scores(
    encoder: Encoder, data: Path, suites: Sequence[str], *, limit: int | None = None, tasks: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return every suite's mean and its headline scores: value and both ends of the interval.

    Args:
        encoder: what is measured.
        data: the folder with the suites' files.
        suites: their names.
        limit: most items a task looks at; None for all.
        tasks: of a single suite; empty for all of every suite.
    """
    from retriever.evaluation.run.evaluating import evaluate
    from retriever.evaluation.run.requests import EvaluationRequest

    found: dict[str, Any] = {}
    for suite in suites:
        run = evaluate(EvaluationRequest(suite, data, tasks=tasks, limit=limit), encoder).to_json()
        headline = [score for score in run["scores"] if score["headline"]]
        parts = {f"{one['task']}: {one['metric']}": [one["value"], one["low"], one["high"]] for one in headline}
        found[suite] = {"mean": run["mean"], **parts}
    return found


def documents_of(corpus: Path) -> Iterator[Document]:
    """Yield the documents of a corpus; rows that are none are left out."""
    return (row for row in read_documents([corpus]) if isinstance(row, Document))


def read_texts(corpus: Path, limit: int) -> list[str]:
    """Return the first distinct texts of a JSONL corpus."""
    with corpus.open(encoding="utf-8") as file:
        texts = dict.fromkeys(json.loads(line)["text"] for line in file)
    return list(texts)[:limit]


def train_variant(config: "FinetuneConfig", files: Sequence[Path], folder: Path, base: str) -> None:
    """Train by settings of a benchmark's own into a folder, going on where it stopped; progress goes to stderr."""
    from retriever.training.run.finetuning import FinetuneRequest, finetune

    with tempfile.TemporaryDirectory() as temporary:
        settings = Path(temporary) / "settings.toml"
        settings.write_text(config.to_toml(), encoding="utf-8")
        request = FinetuneRequest(list(map(str, files)), folder, config=settings, base=base, resume=True, promote=False)
        finetune(request, on_progress=lambda _, at: print(at.step, at.losses, file=sys.stderr, flush=True))


def peak_rss_mib() -> float:
    """Return the largest resident memory this process has had, in MiB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def write(name: str, options: argparse.Namespace, report: Mapping[str, Any]) -> None:
    """Print the report as JSON, and write it to ``options.output`` where that is given."""
    named = {key: value.name if isinstance(value, Path) else value for key, value in vars(options).items()}
    asked = {key: value for key, value in named.items() if key != "output"}
    text = json.dumps({"benchmark": name, "options": asked, "machine": machine(), **report}, indent=2)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
