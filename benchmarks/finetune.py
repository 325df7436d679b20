"""How fast `retriever finetune` learns the example rows, and its peak memory beside what it says it takes.

    OMP_NUM_THREADS=1 python benchmarks/finetune.py default
    OMP_NUM_THREADS=1 ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 \
        python benchmarks/finetune.py default --dtype float32

Rows are counted by the clock, and by seconds of one core from the end of the first step on: with one thread, other work
beside changes these less.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from common import peak_rss_mib, write

from retriever.training.loop import StepProgress
from retriever.training.run.finetuning import FinetuneRequest, finetune

ROWS = Path(__file__).parents[1] / "examples" / "qa.jsonl"


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
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="what is trained: default, instemb")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--minutes", type=float, default=4, help="of training, for two steps at least")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    write("finetune", options, measured(options.base, options.dtype, options.minutes))


if __name__ == "__main__":
    main()
