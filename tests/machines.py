"""Run the tests of the real models as other processors would: their libraries limited to what those have.

    python tests/machines.py [MACHINE ...] [--few]

A limit is an upper one: on a processor that lacks what a machine has, that machine is this one. Without bfloat16 in
hardware models compute in float32.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MACHINES = {
    "none": {
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "ATEN_CPU_CAPABILITY": "default",
        "OPENBLAS_CORETYPE": "Nehalem",
        "FAISS_OPT_LEVEL": "generic",
    },
    "avx2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "OPENBLAS_CORETYPE": "Haswell",
        "FAISS_OPT_LEVEL": "avx2",
    },
    "avx512": {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "ATEN_CPU_CAPABILITY": "avx512",
        "OPENBLAS_CORETYPE": "SkylakeX",
        "FAISS_OPT_LEVEL": "avx512",
    },
    "bfloat16": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"},
    "amx": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"},
}
FEW = ("tests/clusters/test_arithmetic_real_model.py", "tests/index/test_index_verdicts_real_model.py")
"""Where clusters and verdicts themselves are looked at."""


def main() -> int:
    """Run pytest once a machine, and return the worst exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machines", nargs="*", choices=[*MACHINES, []], help="all without a name")
    parser.add_argument("--few", action="store_true", help="only those of clusters and verdicts")
    options = parser.parse_args()
    files = FEW if options.few else tuple(sorted(map(str, _with_models())))
    worst = 0
    for name in options.machines or MACHINES:
        settings = " ".join(f"{key}={value}" for key, value in MACHINES[name].items())
        sys.stdout.write(f"\n{name}: {settings}\n")
        sys.stdout.flush()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **MACHINES[name]}
        argv = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-m", "model", *files]
        worst = max(worst, subprocess.run(argv, cwd=ROOT, env=environment).returncode)
    return worst


def _with_models() -> list[Path]:
    return [path for path in (ROOT / "tests").rglob("test_*.py") if "mark.model" in path.read_text(encoding="utf-8")]


if __name__ == "__main__":
    sys.exit(main())
