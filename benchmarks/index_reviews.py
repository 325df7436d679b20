"""Index a whole corpus from the shell, killed with SIGKILL on the way, and check that nothing was embedded twice.

python benchmarks/index_reviews.py CORPUS.jsonl --instruction TEXT --output benchmarks/results/index_reviews.json
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from common import write

from retriever.core.errors import RetrieverError
from retriever.workspace import Index

KILLED_AT = (0.2, 0.45, 0.7)  # shares of the documents stored


def run_until(command: Sequence[str], index: Path, stop: Callable[[], bool] | None = None) -> dict[str, Any]:
    """Run a command to its end, or kill it once it is far enough; return time and peak memory.

    Args:
        command: prints JSON.
        index: what it works on.
        stop: looked at every second; the command is killed when it is true. None lets it end.
    """
    started = time.perf_counter()
    with tempfile.TemporaryFile() as said:  # no pipe: a long answer would fill it and wait
        with subprocess.Popen(command, stdout=said, stderr=subprocess.DEVNULL) as process:
            peak = 0.0
            while process.poll() is None:
                time.sleep(1)
                peak = max(peak, _peak_mib(process.pid))
                if stop is not None and stop():
                    os.kill(process.pid, signal.SIGKILL)
                    process.wait()
        said.seek(0)
        printed = said.read()
    return {
        "exit": process.returncode,
        "seconds": round(time.perf_counter() - started, 1),
        "peak_rss_mib": round(peak, 1),
        "stored_after": _stored(index),
        "report": json.loads(printed) if process.returncode == 0 else None,
    }


def stored_share(index: Path, share: float, rows: int) -> bool:
    """Return whether an index holds that share of a corpus."""
    return _stored(index) >= int(share * rows)


def _stored(index: Path) -> int:
    try:
        with Index(index) as opened:
            return len(opened.store.documents)
    except RetrieverError:
        return 0


def _peak_mib(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    line = next((line for line in status.splitlines() if line.startswith("VmHWM")), "VmHWM: 0 kB")
    return int(line.split()[1]) / 1024


def embedded_twice(index: Path) -> dict[str, Any]:
    """Compare the vectors that the runs say they stored with the vectors and texts there are."""
    with Index(index) as opened:
        views = [view.view_id for view in opened.store.views.all()]
        runs = opened.store.runs.last(100)
        counted = {view: sum(_embedded(run.statistics, view) for run in runs) for view in views}
        stored = {view: opened.store.vectors.count(view) for view in views}
        return {
            "documents": len(opened.store.documents),
            "distinct_texts": opened.store.documents.count_contents(),
            "vectors": stored,
            "embedded_according_to_runs": counted,
            "embedded_twice": {view: counted[view] - stored[view] for view in views},
            "run_status": [run.status for run in reversed(runs)],
        }


def _embedded(statistics: Any, view: int) -> int:  # noqa: ANN401 - JSON
    return int(statistics.get("embedded", {}).get(str(view), 0))


def main() -> None:
    """Parse the options, index, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--index", type=Path, default=Path("indexes/reviews"))
    parser.add_argument("--instruction", action="append", default=[])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.index.exists():
        shutil.rmtree(options.index)
    with options.corpus.open("rb") as file:
        rows = sum(1 for _ in file)
    command = [str(Path(sys.executable).with_name("retriever")), "index", str(options.corpus), "--json"]
    command += ["--index", str(options.index)]
    command += [part for one in options.instruction for part in ("--instruction", one)]
    runs = [run_until(command, options.index, partial(stored_share, options.index, share, rows)) for share in KILLED_AT]
    runs.append(run_until(command, options.index))
    last = runs[-1]["report"]
    seconds = sum(run["seconds"] for run in runs)
    counts = embedded_twice(options.index)
    report = {
        "rows": rows,
        "views": len(counts["vectors"]),
        "runs": runs,
        "seconds_in_all": round(seconds, 1),
        "reviews_per_second_in_all": round(rows / seconds, 1),
        "last_run_text_tokens_per_second": round(last["tokens"] / last["seconds"]),
        "last_run_reviews_per_second": round(last["added"] / last["seconds"], 1),
        "peak_rss_mib": max(run["peak_rss_mib"] for run in runs),
        **counts,
    }
    write("index_reviews", options, report)


if __name__ == "__main__":
    main()
