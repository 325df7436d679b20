"""How fast `retriever finetune` learns the example rows, and its peak memory beside what it says it takes.

    python benchmarks/finetune.py --output benchmarks/results/finetune.json

Every case is a process of its own: both kinds of model, as the processor reads them and with libraries limited to AVX2,
in float32. Rows are counted by the clock, and by seconds of one core, which other work beside changes less; those are
taken from the end of the first step on.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import peak_rss_mib, write

from retriever.training.loop import StepProgress
from retriever.training.run.finetuning import FinetuneRequest, finetune

ROWS = Path(__file__).parents[1] / "examples" / "qa.jsonl"
BASES = ("default", "instemb")
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
PLACES = {"native": ("auto", {}), "avx2": ("float32", AVX2)}


def measured(base: str, dtype: str, minutes: float) -> dict[str, Any]:
    """Train a model on the example rows and return what that took."""
    said: list[str] = []
    paces: list[float] = []
    cores: list[float] = []

    def note(stage: str, now: StepProgress) -> None:
        paces.append(now.rows_per_second)
        cores.append(time.process_time())

    with tempfile.TemporaryDirectory() as folder:
        request = FinetuneRequest(
            [str(ROWS)], Path(folder) / "model", base=base, minutes=minutes, dtype=dtype, promote=False
        )
        report = finetune(request, announce=said.append, on_progress=note)
    rows = round(paces[-1] * report.seconds)
    later = rows * (1 - 1 / report.step)
    return {
        "steps": report.step,
        "measured_before_and_after": report.judgement is not None,
        "rows": rows,
        "rows_per_second": round(paces[-1], 2),
        "rows_per_core_second": round(later / (cores[-1] - cores[0]), 2),
        "peak_mib": peak_rss_mib(),
        "said": next(text for text in said if "memory" in text),
    }


def main() -> None:
    """Print the report, or that of one case where a base and a number format are given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1, help="of training a model; longer ones are not finished")
    parser.add_argument("--case", nargs=2, metavar=("BASE", "DTYPE"), help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measured(*options.case, options.minutes)))
        return
    found = {}
    for place, (dtype, limits) in PLACES.items():
        for base in BASES:
            command = [sys.executable, __file__, "--minutes", str(options.minutes), "--case", base, dtype]
            done = subprocess.run(command, env={**os.environ, **limits}, capture_output=True, text=True, check=True)
            found[f"{base}, {place}"] = json.loads(done.stdout.splitlines()[-1])
    write("finetune", options, found)


if __name__ == "__main__":
    main()
